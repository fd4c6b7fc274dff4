/** Options of both engines, and the configuration that the core reads. */
import { TollgateError } from "./errors.js";
import { durationToWire, limitList, limitToWire } from "./limits.js";
import { badOption, type OptionNames, requireKnown } from "./option-names.js";
import { nodeModule } from "./runtime.js";
import { shown } from "./shown.js";
import type { Duration, LimitOptions } from "./types.js";
import type { UnavailablePolicies } from "./unavailable.js";
import type { OnWarning } from "./warnings.js";

export interface TollgateOptions {
  /** The address of the service, such as `http://127.0.0.1:8080`. */
  url: string;
  /** Sent as `Authorization: Bearer ..`. */
  token?: string;
  /** How long a call may take at most; 50 by default. */
  timeoutMs?: number;
  /**
   * What happens while the service is unavailable, for limits that do not say it themselves
   * (`onStoreFailure`): `"allow"` by default.
   */
  onUnavailable?: UnavailablePolicies;
  /** Limits that the client brings along, for a service that does not have them in its file. */
  limits?: readonly LimitOptions[];
  /** Is told once per outage why limits are not enforced. Default: `console.warn`. */
  onWarning?: OnWarning;
}

export interface InProcessOptions {
  /** The address of a Redis server. Without it, this process counts in its memory. */
  redis?: string;
  /** Prefix of every key in Redis; `tollgate:` by default. */
  prefix?: string;
  /** How long Redis may take to reply; 10 ms by default, 10 s at most. */
  storeTimeout?: Duration;
  /** How long a decision may take, with its wait for this process; 100 ms by default. */
  decisionTimeout?: Duration;
  /** How many processes share the limits: workers times machines; 1 by default. */
  expectedReplicas?: number;
  /**
   * The limits. Their keys have one value. A program that brings a limit along with every call, as
   * the stores do, needs none.
   */
  limits?: readonly LimitOptions[];
  /** A configuration file of the service, in place of the options above. */
  configFile?: string;
  /** Opens without Redis, too: limits follow `onStoreFailure` until it answers. Default: false. */
  lazy?: boolean;
  /** Is told once per outage why limits are not enforced. Default: `console.warn`. */
  onWarning?: OnWarning;
}

const HTTP_NAMES: OptionNames<TollgateOptions> = {
  url: true,
  token: true,
  timeoutMs: true,
  onUnavailable: true,
  limits: true,
  onWarning: true,
};

const IN_PROCESS_NAMES: OptionNames<InProcessOptions> = {
  redis: true,
  prefix: true,
  storeTimeout: true,
  decisionTimeout: true,
  expectedReplicas: true,
  limits: true,
  configFile: true,
  lazy: true,
  onWarning: true,
};

/** Throws if the options of the HTTP engine are not known. */
export function requireHttpOptions(options: unknown): void {
  requireKnown(options, HTTP_NAMES, "new Tollgate");
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
  requireKnown(options, IN_PROCESS_NAMES, "Tollgate.inProcess");
  const { configFile, redis, expectedReplicas } = options;
  if (configFile !== undefined) return readConfig(configFile, options);

  const limits = limitList(options.limits);
  const store: Record<string, unknown> =
    redis === undefined ? { type: "memory" } : { type: "redis", endpoints: [validRedis(redis)] };
  if (options.prefix !== undefined) store.prefix = options.prefix;
  if (options.storeTimeout !== undefined) {
    store.timeout = durationToWire(options.storeTimeout, "storeTimeout");
  }
  if (options.decisionTimeout !== undefined) {
    store.decision_timeout = durationToWire(options.decisionTimeout, "decisionTimeout");
  }
  const configured = limits.length === 0 ? [UNUSED] : limits;
  const config = {
    store,
    ...(expectedReplicas !== undefined && { defaults: { expected_replicas: expectedReplicas } }),
    limits: configured.map((limit) => ({ ...limitToWire(limit), key: ["key"] })),
  };
  return { text: JSON.stringify(config), file: "options" };
}

/** About options that were probably meant otherwise. */
export function inProcessWarnings(options: InProcessOptions): string[] {
  if (!("redis" in options) || options.redis !== undefined) return [];
  return [
    "`redis` is undefined, so this process counts in its own memory: limits are per process. " +
      "Set the address of a Redis server, or leave `redis` out",
  ];
}

function validRedis(redis: unknown): string {
  if (typeof redis === "string" && redis !== "") return redis;
  const right = 'the address of a server, such as "redis://127.0.0.1:6379"';
  throw badOption(`redis must be ${right}, but it is ${shown(redis)}`);
}

/** Options that a configuration file does not have. */
const BESIDE_FILE = ["configFile", "lazy", "onWarning"];

function readConfig(path: unknown, options: InProcessOptions): Config {
  const other = Object.entries(options).find(
    ([name, value]) => !BESIDE_FILE.includes(name) && value !== undefined,
  );
  if (other !== undefined) {
    throw badOption(`\`configFile\` contains everything: leave \`${other[0]}\` out, or the file`);
  }
  if (typeof path !== "string") {
    throw badOption(`configFile must be the path of a file, but it is ${shown(path)}`);
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
