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
  /** How long a decision waits for Redis; 10 ms by default. */
  storeTimeout?: Duration;
  /** The limits. Their keys have one value. */
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
  /** Whether limits may have a cost of their own. */
  hasCosts: boolean;
  /** The unit of each limit that has one. */
  units: ReadonlyMap<string, string>;
}

export function configFrom(options: InProcessOptions): Config {
  const { configFile, limits, redis } = options;
  if (configFile !== undefined) return readConfig(configFile, options);
  if (limits === undefined || limits.length === 0) {
    throw badOption("inProcess needs `limits`, a list of at least one limit, or a `configFile`");
  }

  const store: Record<string, unknown> =
    redis === undefined ? { type: "memory" } : { type: "redis", endpoints: [redis] };
  if (options.prefix !== undefined) store.prefix = options.prefix;
  if (options.storeTimeout !== undefined) {
    store.timeout = durationToWire(options.storeTimeout, "storeTimeout");
  }
  const wire = limits.map((limit) => ({ ...limitToWire(limit), key: ["key"] }));
  const units = limits.flatMap(({ name, unit }): [string, string][] =>
    unit === undefined ? [] : [[name, unit]],
  );
  const text = JSON.stringify({ store, limits: wire });
  return { text, file: "options", hasCosts: false, units: new Map(units) };
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
    return { text, file: path, hasCosts: true, units: new Map() };
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new TollgateError({ code: "bad-option", detail: `configFile: ${reason}`, cause });
  }
}

function badOption(detail: string): TollgateError {
  return new TollgateError({ code: "bad-option", detail });
}
