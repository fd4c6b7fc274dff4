/**
 * The rate limit header fields of a decision, for answers that come without them: those of an
 * unavailable policy and those from memory. In Rust, `tollgate-http` writes the same fields.
 */
import type { Decision, LimitOutcome } from "./types.js";

/** What a header field says about a limit and no outcome contains. */
export interface LimitFacts {
  /** `null` for a concurrency limit. */
  windowSecs: number | null;
  /** `null` if the limit counts requests. */
  unit: string | null;
}

/** What is known beyond the decision itself. */
export interface HeaderFacts {
  answeredAtMs: number;
}

/** The most limits that a list contains, so that no proxy finds the head of a response too long. */
const LISTED_MAX = 32;
/** The largest integer of a structured field: 15 digits. */
const INTEGER_MAX = 999_999_999_999_999;

/** The fields, with names in lower case. Times are rounded up; shadow limits never appear. */
export function headerFields(
  decision: Omit<Decision, "headers">,
  facts: HeaderFacts,
): Record<string, string> {
  const fields: Record<string, string> = {};

  const reported = decision.limits.filter(isReported);
  let tightest: LimitOutcome | undefined;
  for (const limit of reported) {
    if (tightest === undefined || isTighter(limit, tightest)) tightest = limit;
  }
  if (tightest !== undefined) {
    const listed = reported.slice(0, LISTED_MAX);
    const policies = listed.map((limit) => policyField(limit.name, limit.limit));
    fields["ratelimit-policy"] = [...new Set(policies)].join(", ");
    fields.ratelimit = listed.map((limit) => state(limit, decision.retryAfterMs)).join(", ");
    fields["x-ratelimit-limit"] = String(tightest.limit);
    fields["x-ratelimit-remaining"] = String(tightest.remaining);
    const resetAtMs = facts.answeredAtMs + tightest.resetAfterMs;
    fields["x-ratelimit-reset"] = String(Math.ceil(resetAtMs / 1000));
  }

  if (!decision.allowed && decision.retryAfterMs !== null) {
    fields["retry-after"] = retryField(decision.retryAfterMs);
  }
  if (decision.degraded) fields["x-ratelimit-fallback"] = "true";
  return fields;
}

/**
 * Whether a limit affects the client and was asked. While the service is unavailable, the size of
 * most limits is unknown.
 */
export function isReported(limit: LimitOutcome): boolean {
  return limit.shadow !== true && limit.exempt !== true && limit.limit > 0;
}

/** Whether a limit denies longer than an earlier one, or if both allow, has fewer units left. */
export function isTighter(limit: LimitOutcome, earlier: LimitOutcome): boolean {
  const [denial, earlierDenial] = [denialMs(limit), denialMs(earlier)];
  if (denial !== earlierDenial || denial >= 0) return denial >= earlierDenial;
  if (limit.remaining !== earlier.remaining) return limit.remaining < earlier.remaining;
  return limit.resetAfterMs > earlier.resetAfterMs;
}

/** How long a limit denies; negative if it allows the request. */
function denialMs(limit: LimitOutcome): number {
  return limit.never === true ? Infinity : (limit.retryAfterMs ?? -1);
}

/** One limit in `ratelimit-policy`. */
export function policyField(name: string, size: number, facts?: LimitFacts): string {
  let text = `"${name}";q=${Math.min(size, INTEGER_MAX)}`;
  if (facts === undefined) return text;
  if (facts.windowSecs !== null) text += `;w=${Math.max(1, Math.ceil(facts.windowSecs))}`;
  const unit = unitName(facts);
  return unit === undefined ? text : `${text};qu="${unit}"`;
}

/** The value of `retry-after`. A client that reads 0 would retry at once. */
export function retryField(retryAfterMs: number): string {
  return String(Math.max(1, Math.ceil(retryAfterMs / 1000)));
}

/** The unit as the draft names it; absent for its default, requests. */
function unitName(facts: LimitFacts): string | undefined {
  if (facts.windowSecs === null) return "concurrent-requests";
  if (facts.unit === null || facts.unit === "requests") return undefined;
  return facts.unit === "bytes" ? "content-bytes" : facts.unit.replaceAll("_", "-");
}

function state(limit: LimitOutcome, latestMs: number | null): string {
  return stateField(limit.name, limit.remaining, limit.retryAfterMs ?? undefined, latestMs);
}

/** One limit in `ratelimit`. `Retry-After`, after `latestMs`, must not be earlier than any `t`. */
export function stateField(
  name: string,
  remaining: number,
  moreAfterMs: number | undefined,
  latestMs: number | null,
): string {
  const text = `"${name}";r=${Math.min(remaining, INTEGER_MAX)}`;
  if (moreAfterMs === undefined || moreAfterMs > (latestMs ?? Infinity)) return text;
  return `${text};t=${Math.ceil(moreAfterMs / 1000)}`;
}
