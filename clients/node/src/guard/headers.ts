/** The header fields of a decision, on responses that may pass several guards. */
import type { Decision } from "../types.js";
import { retrySeconds } from "./denial.js";

/** Where an adapter reads and writes response headers. Names are in lower case. */
export interface HeaderSink {
  get(name: string): string | undefined;
  set(name: string, value: string): void;
}

/** The fields of a response. If they are not enabled, only those that no client can do without. */
export function decisionHeaders(decision: Decision, isEnabled: boolean): Record<string, string> {
  const headers = isEnabled ? decision.headers() : {};
  if (decision.degraded) headers["x-ratelimit-fallback"] = "true";
  if (!decision.allowed && decision.retryAfterMs !== null) {
    headers["retry-after"] ??= String(retrySeconds(decision.retryAfterMs));
  }
  return headers;
}

/**
 * Writes the fields. If an earlier guard wrote its own, the lists are joined, and the fields about
 * one limit are those of the limit with fewer units left.
 */
export function writeHeaders(headers: Record<string, string>, sink: HeaderSink): void {
  const isLooser = isAbove(headers["x-ratelimit-remaining"], sink.get("x-ratelimit-remaining"));

  for (const [name, value] of Object.entries(headers)) {
    if (name === "ratelimit" || name === "ratelimit-policy") {
      const earlier = sink.get(name);
      sink.set(name, earlier === undefined ? value : `${earlier}, ${value}`);
    } else if (!(isLooser && /^x-ratelimit-(?:limit|remaining|reset)$/.test(name))) {
      sink.set(name, value);
    }
  }
}

function isAbove(value: string | undefined, earlier: string | undefined): boolean {
  return value !== undefined && earlier !== undefined && Number(value) > Number(earlier);
}
