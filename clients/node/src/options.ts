/** Options of both engines, and the configuration that the core reads. */
import { TollgateError } from "./errors.js";
import { durationToWire, limitToWire } from "./limits.js";
import { nodeModule } from "./runtime.js";
import type { Duration, LimitOptions } from "./types.js";
import type { UnavailablePolicies } from "./unavailable.js";

export interface TollgateOptions {
  /** The address of the service, such as `http://127.0.0.1:8080`. */
  url: string;
  /** Sent as `Authorization: Bearer ..`. */
  token?: string;
  /** How long a call may take at most; 50 by default. */
  timeoutMs?: number;
  /** What happens while the service is unavailable: `"allow"` by default. */
  onUnavailable?: UnavailablePolicies;
  /** Limits that the client brings along, for a service that does not have them in its file. */
  limits?: readonly LimitOptions[];
}

export interface InProcessOptions {
  /** The address of a Redis server. Without it, this process counts in its memory. */
  redis?: string;
  /** Prefix of every key in Redis; `tollgate:` by default. */
  prefix?: string;
  /** How long a decision waits for Redis; 10 ms by default, 10 s at most. */
  storeTimeout?: Duration;
  /** How many processes share the limits: workers times machines; 1 by default. */
  expectedReplicas?: number;
  /**
   * The limits. Their keys have one value. A program that brings a limit along with every call, as
   * the stores do, needs none.
   */
  limits?: readonly LimitOptions[];
  /** A configuration file of the service, in place of all other options. */
  configFile?: string;
}

/** What the core is opened with. */
export interface Config {
  /** In the format of docs/configuration.md, of which JSON is a subset. */
  text: string;
  /** The name in errors. */
  file: string;
}

/** A configuration has at least one limit; this one is never asked. */
const UNUSED: LimitOptions = {
  name: "tollgate:unused",
  algorithm: "fixed_window",
  limit: 1,
  window: "1s",
};

export function configFrom(options: InProcessOptions): Config {
  const { configFile, limits = [], redis } = options;
  if (configFile !== undefined) return readConfig(configFile, options);

  const store: Record<string, unknown> =
    redis === undefined ? { type: "memory" } : { type: "redis", endpoints: [redis] };
  if (options.prefix !== undefined) store.prefix = options.prefix;
  if (options.storeTimeout !== undefined) {
    store.timeout = durationToWire(options.storeTimeout, "storeTimeout");
  }
  const configured = limits.length === 0 ? [UNUSED] : limits;
  const config = {
    store,
    expected_replicas: options.expectedReplicas,
    limits: configured.map((limit) => ({ ...limitToWire(limit), key: ["key"] })),
  };
  return { text: JSON.stringify(config), file: "options" };
}

function readConfig(path: string, options: InProcessOptions): Config {
  const other = Object.entries(options).find(
    ([name, value]) => name !== "configFile" && value !== undefined,
  );
  if (other !== undefined) {
    throw badOption(`\`configFile\` contains everything: leave \`${other[0]}\` out, or the file`);
  }
  const fs = nodeModule("node:fs");
  if (fs === undefined) throw badOption("`configFile` needs a runtime with files, such as Node");
  try {
    const text = fs.readFileSync(path, "utf8");
    return { text, file: path };
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new TollgateError({ code: "bad-option", detail: `configFile: ${reason}`, cause });
  }
}

function badOption(detail: string): TollgateError {
  return new TollgateError({ code: "bad-option", detail });
}
