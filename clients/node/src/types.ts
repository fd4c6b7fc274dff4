/** The words of the whole package: limits, keys, decisions. Types only. */

/** How a limit counts. */
export type Algorithm =
  | "fixed_window"
  | "sliding_window"
  | "sliding_log"
  | "token_bucket"
  | "leaky_bucket"
  | "concurrency";

/** How replicas agree on a limit. */
export type Consistency = "strict" | "leased" | "eventual" | "local";

/** What happens while the store, or the service, is unavailable. */
export type UnavailablePolicy = "allow" | "deny";

/** A length of time: milliseconds, or a text such as `"10s"`, `"500ms"`, `"1h"`. */
export type Duration = number | string;

/** Locks a key that is denied too often. See docs/lockout.md. */
export interface LockoutOptions {
  /** Denials after which the key is locked. */
  after: number;
  /** The window in which they are counted. */
  within: Duration;
  /** The length of the first lockout. */
  for: Duration;
  /** How many times as long as the one before each further lockout lasts; 1 by default. */
  factor?: number;
  /** The longest lockout; 24 h by default, or `for` if that is longer. */
  max?: Duration;
}

/**
 * A limit in the caller's code. The names are those of the configuration file, in camel case:
 * windows take `limit` and `window`, buckets `capacity` and a rate, concurrency limits `limit`.
 */
export interface LimitOptions {
  name: string;
  algorithm: Algorithm;
  limit?: number;
  window?: Duration;
  align?: "first_hit" | "second" | "minute" | "hour" | "day" | "month";
  capacity?: number;
  /** Units per time, such as `"10/s"`. */
  refillRate?: string;
  leakRate?: string;
  mode?: "meter" | "queue";
  permitTimeout?: Duration;
  consistency?: Consistency;
  onStoreFailure?: UnavailablePolicy | "local";
  shadow?: boolean;
  unit?: string;
  debtMax?: number;
  reservationMax?: number;
  onReservationExpiry?: "keep" | "release";
  /** Only for strict and local limits, and not for concurrency limits and queues. */
  lockout?: LockoutOptions;
}

/** The value of an attribute. `null` and `undefined` mean that there is none. */
export type AttributeValue = string | number | boolean | null | undefined;

/**
 * What a limit counts by: a value, or, for a configured limit whose key has several attributes, an
 * object of attributes.
 */
export type Key = string | number | boolean | { readonly [attribute: string]: AttributeValue };

/** One limit asked about one key. `limit` is the name of a limit, or the limit itself. */
export interface Demand {
  limit: string | LimitOptions;
  key: Key;
  cost?: number;
}

/** Where a decision came from. */
export type Source = "store" | "lease" | "deny_cache" | "fallback" | "local" | "block" | "exempt";

/**
 * Why failure policies decided: the store did not reply in time, it cannot be reached, this process
 * or the service is overloaded, or the store replied with an error that needs an operator.
 */
export type DegradedReason = "store_timeout" | "unavailable" | "overload" | "refused";

/** The outcome for one limit. */
export interface LimitOutcome {
  name: string;
  limit: number;
  remaining: number;
  resetAfterMs: number;
  /** `null` if the limit allows the request, or if the request can never pass. */
  retryAfterMs: number | null;
  /** The request costs more than the limit can ever allow. */
  never?: boolean;
  shadow?: boolean;
  /** An operator has blocked the key. */
  blocked?: boolean;
  /** An operator has exempted the key: nothing was charged. */
  exempt?: boolean;
  /** The key is locked out, because it was denied too often. */
  lockedOut?: boolean;
  /** The failure policy that decided. */
  fallback?: string;
}

/** The result of a check over one or several limits, which pass together or not at all. */
export interface Decision {
  allowed: boolean;
  source: Source;
  /** A failure policy decided, because the store or the service was unavailable. */
  degraded: boolean;
  /** Why it is degraded. */
  degradedReason?: DegradedReason;
  /** How long to hold the request before it proceeds (queue limits). */
  waitMs: number;
  limits: LimitOutcome[];
  /** When a denied request would pass: the longest of its limits. `null` if allowed, or never. */
  retryAfterMs: number | null;
  /** The status of the response, if an operator has blocked the key with another one than 429. */
  blockStatus?: number;
  /** For `release`, if the request acquired a permit of a concurrency limit. */
  permit?: string;
  /** For `settle` and `cancel`, if the request reserved its cost. */
  reservation?: string;
  /** Why the request has no `permit` or `reservation`, although it was admitted. */
  warning?: string;
  /** The rate limit header fields of a response. */
  headers(): Record<string, string>;
}

/** What a counter contains (RFC-free names of `POST /v1/peek`, in camel case). */
export interface CounterView extends LimitOutcome {
  algorithm?: Algorithm;
  used?: number;
  window?: { startMs: number; lengthMs: number; oldestMs?: number };
  current?: number;
  previous?: number;
  level?: number;
  rate?: string;
  inFlight?: number;
  reserved?: { count: number; units: number };
  leased?: number;
  held?: number;
  tier?: string;
  /**
   * Of a limit with a lockout: denials in the current window, the rest of the lockout (0 if the key
   * is not locked), and how often the key was locked out.
   */
  lockout?: { denials: number; lockedMs: number; level: number };
}

/** A peek: the decision that a check would make now, and what the counters contain. */
export interface Peek extends Decision {
  limits: CounterView[];
}

/** How a reservation was settled. */
export interface Settlement {
  /** The units charged in all. */
  charged: number;
  /**
   * `open` before this call, `settled` or `cancelled` by an earlier one, or `unknown`: then all
   * was charged. `none` if the decision has no reservation: then nothing was.
   */
  reservation: "open" | "settled" | "cancelled" | "unknown" | "none";
  /** Why the call changed nothing. */
  warning?: string;
}

export interface CheckOptions {
  /** Units to charge; defaults to 1, or to what the configuration says. */
  cost?: number;
  /** Tokens by kind, for limits with `cost: { tokens: .. }`. */
  tokens?: TokenCounts;
  /** Further attributes, for tiers and costs of configured limits. */
  attributes?: { readonly [attribute: string]: AttributeValue };
}

export interface ReserveOptions extends CheckOptions {
  /** How long the reservation stays open; 60 s by default. */
  ttl?: Duration;
}

/**
 * Numbers of tokens by their kind, such as `{ input: 900, output: 500 }`, or the whole usage object
 * of a provider's response.
 */
export type TokenCounts = object;

/** The actual cost of a reservation: units, or tokens by kind. */
export type ActualCost = number | { readonly tokens: TokenCounts };
