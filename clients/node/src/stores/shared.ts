/** What all stores share: limits made of a library's numbers, and the policy for outages. */
import { UnavailableError } from "../errors.js";
import { badOption, type OptionNames, requireKnown } from "../option-names.js";
import { shown } from "../shown.js";
import type { Tollgate } from "../tollgate.js";
import type {
  Consistency,
  Decision,
  LimitOptions,
  LimitOutcome,
  UnavailablePolicy,
} from "../types.js";

/** What a store needs of a client. */
export type StoreClient = Pick<Tollgate, "check" | "count" | "peek" | "refund" | "reset"> &
  Partial<Pick<Tollgate, "requireLimits">>;

/** The algorithms that a limit and a window describe completely. */
export type StoreAlgorithm =
  | "fixed_window"
  | "sliding_window"
  | "sliding_log"
  | "token_bucket"
  | "leaky_bucket";

/**
 * What a store does while the service, or its store, is unavailable: throws an error, for the
 * library to handle (default), or follows a policy.
 */
export type StorePolicy = "error" | UnavailablePolicy;

/** The options of every store. */
export interface StoreOptions {
  /** The client that asks the service, or decides in the process. */
  client: StoreClient;
  /** The name of the limit in metrics and errors: up to 41 letters, digits or `-_.:/`. */
  name?: string;
  /** How to count. Defaults to what the library does. */
  algorithm?: StoreAlgorithm;
  /** How replicas agree on the limit. Defaults to what the service is configured to. */
  consistency?: Consistency;
  /** What to do while no decision can be made; `"error"` by default. */
  onUnavailable?: StorePolicy;
}

const NAMES: OptionNames<StoreOptions> = {
  client: true,
  name: true,
  algorithm: true,
  consistency: true,
  onUnavailable: true,
};

/** Throws if the options of a store are wrong. `own` are those that only this one has. */
export function requireStoreOptions(options: unknown, where: string, own: object = {}): void {
  requireKnown(options, { ...NAMES, ...own }, where);
  const client: unknown = (options as StoreOptions).client;
  if (typeof client !== "object" || client === null) {
    throw badOption(`${where}: \`client\` must be a Tollgate, but it is ${shown(client)}`);
  }
  policyOf(options as StoreOptions);
}

/** The policy of a store; `"error"` by default. */
export function policyOf(options: { onUnavailable?: StorePolicy }): StorePolicy {
  const { onUnavailable = "error" } = options;
  if (["error", "allow", "deny"].includes(onUnavailable)) return onUnavailable;
  const right = '"error", "allow" or "deny"';
  throw badOption(`onUnavailable must be ${right}, but it is ${shown(onUnavailable)}`);
}

/** How a limit counts, without its numbers. */
export interface LimitKind {
  name: string;
  algorithm: StoreAlgorithm;
  consistency?: Consistency | undefined;
}

/**
 * A limit so large that it never denies. A check of it is an increment that returns the new
 * value, because the numbers of a limit are no part of its counter.
 */
const COUNTING_LIMIT = 2 ** 40;

const LIMIT_MAX = 2 ** 53;
const WINDOW_MAX_MS = 3653 * 24 * 3600 * 1000;

/** Whether the service can decide a limit of this size. The others are counted and compared. */
export function isDecidable(limit: number | undefined): limit is number {
  return limit !== undefined && Number.isInteger(limit) && limit >= 1 && limit <= LIMIT_MAX;
}

/** A whole number of milliseconds that the service accepts as a window. */
export function windowMs(ms: number): number {
  return Math.min(Math.max(Math.ceil(ms), 1), WINDOW_MAX_MS);
}

/** A limit of `limit` units per window. */
export function limitOf(kind: LimitKind, limit: number, ms: number): LimitOptions {
  const { name, algorithm, consistency } = kind;
  const base = { name, algorithm, ...(consistency === undefined ? {} : { consistency }) };
  const window = windowMs(ms);

  if (algorithm === "token_bucket") {
    return { ...base, capacity: limit, refillRate: `${limit}/${window}ms` };
  }
  if (algorithm === "leaky_bucket") {
    return { ...base, capacity: limit, leakRate: `${limit}/${window}ms` };
  }
  return { ...base, limit, window };
}

/** A limit that counts and never denies. Only counters of windows are independent of the limit. */
export function countingLimitOf(kind: LimitKind, ms: number): LimitOptions {
  if (kind.algorithm !== "fixed_window" && kind.algorithm !== "sliding_window") {
    throw new TypeError(
      `the algorithm ${kind.algorithm} needs a limit that is a whole number of at least 1; ` +
        "use fixed_window or sliding_window for limits that differ from request to request",
    );
  }
  // Leases are shares of a limit, and this one has no meaningful shares.
  return limitOf({ ...kind, consistency: undefined }, COUNTING_LIMIT, ms);
}

/** The units that a counting limit has counted. */
export function countedUnits(outcome: LimitOutcome): number {
  return COUNTING_LIMIT - outcome.remaining;
}

/** The outcome for the limit with this name. */
export function outcomeOf<O extends LimitOutcome>(decision: { limits: O[] }, name: string): O {
  const outcome = decision.limits.find((candidate) => candidate.name === name);
  if (outcome === undefined) {
    throw new Error(`the decision has no outcome for the limit "${name}"`);
  }
  return outcome;
}

/** When it makes sense to ask again: the retry time of a denial, otherwise the reset. */
export function waitMs(outcome: LimitOutcome): number {
  return outcome.retryAfterMs ?? outcome.resetAfterMs;
}

/**
 * Whether counters were asked. Replicas that count on their own (`on_store_failure: local`) have
 * counted; the policies `allow` and `deny` have not.
 */
export function isDecided(decision: Decision): boolean {
  const { degraded, limits } = decision;
  return !degraded || (limits.length > 0 && limits.every(({ fallback }) => fallback === "local"));
}

/** The decision, or an error if a policy for outages made it. */
export function requireDecided<D extends Decision>(decision: D): D {
  if (!isDecided(decision)) {
    throw new UnavailableError({
      code: "unavailable",
      detail: "the rate limit service, or its store, is unavailable",
    });
  }
  return decision;
}

/**
 * Calls the service for a middleware. Frameworks answer their clients with the `status` of an
 * error; that of the service is about the request of this program, so it is left out.
 */
export async function forMiddleware<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (cause) {
    throw new Error(cause instanceof Error ? cause.message : String(cause), { cause });
  }
}

/** Longer keys are hashed; the service takes 1,000 bytes. */
const KEY_LENGTH_MAX = 250;

/**
 * A key that the service takes: a long one is replaced by its hash, and what is not Unicode by a
 * replacement character. An error would let clients choose keys that are not limited.
 */
export async function boundedKey(key: string): Promise<string> {
  const text = key.replaceAll(/\p{Surrogate}/gu, "\ufffd");
  if (text.length <= KEY_LENGTH_MAX) return text;

  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  const bytes = Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0"));
  return `sha256:${bytes.join("")}`;
}

/** Name characters that the service does not accept become `_`. */
export function limitName(name: string): string {
  const valid = name.replaceAll(/[^A-Za-z0-9\-_.:/]/g, "_").slice(0, 41);
  return valid === "" ? "_" : valid;
}
