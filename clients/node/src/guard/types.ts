/** The words of the guard: which limits apply to a request, and what happens with the answer. */
import type { ClientAddressOptions } from "../client-address.js";
import type { Tollgate } from "../tollgate.js";
import type {
  ActualCost,
  AttributeValue,
  Decision,
  Duration,
  Key,
  LimitOptions,
} from "../types.js";

export type MaybePromise<T> = T | Promise<T>;

/** What the guard needs of a client. */
export type Limiter = Pick<
  Tollgate,
  "check" | "tryCheck" | "refund" | "reserve" | "settle" | "cancel" | "release"
> &
  Partial<Pick<Tollgate, "requireLimits">>;

/** How the guard reads the requests of a framework. */
export interface RequestView<R> {
  /** The address of the connection; `undefined` if the runtime does not tell. */
  peer(request: R): string | undefined;
  /** A header, whose name is in lower case. */
  header(request: R, name: string): string | readonly string[] | undefined;
}

/** What functions of the options can ask about a request, in every framework. */
export interface RequestContext {
  /** The address of the client behind trusted proxies; of IPv6 the network, /64 by default. */
  clientAddress(): string;
  /** The value of a header, or `undefined` if it is absent or empty. */
  header(name: string): string | undefined;
}

/** A value for every request, or a function of the request. */
export type FromRequest<R, T> = T | ((request: R, context: RequestContext) => MaybePromise<T>);

/** What a limit counts by. `undefined`, `null` and `""` mean that the request has no such key. */
export type KeyFunction<R> = (
  request: R,
  context: RequestContext,
) => MaybePromise<Key | null | undefined>;

/**
 * What happens to a request that has no key: `error` (default) is an error of the application,
 * `skip` does not apply the limit, and a status rejects the request with it.
 */
export type MissingKeyPolicy = "error" | "skip" | 400 | 401 | 403;

/** A limit of a guard. */
export interface GuardLimit<R, S = unknown> {
  /** The name of a limit, or the limit itself. */
  limit: string | LimitOptions;
  /** Defaults to the address of the client. */
  key?: KeyFunction<R>;
  /** Units to charge; defaults to the estimate if there is one, else to 1. */
  cost?: FromRequest<R, number>;
  onMissingKey?: MissingKeyPolicy;
  /** Overrides the `refund` of the guard; `false` for none. */
  refund?: false | RefundPredicate<S>;
}

/** What an application sees of a request that passed. */
export interface AdmittedRequest {
  /** `undefined` if no limit applies to the request. */
  readonly decision: Decision | undefined;
  /**
   * Reports the actual cost so far, if there is an `estimate`; the last report counts. A stream
   * reports a running total: then a client that disconnects pays for what was written.
   */
  report(cost: ActualCost): void;
}

/** How a response ended. */
export interface FinishedResponse<S> {
  status: number;
  /** The client disconnected before the whole response was sent. */
  aborted: boolean;
  /** What the handler threw, where the framework tells. */
  error?: unknown;
  /** The response of the framework. */
  response: S;
}

export type RefundPredicate<S> = (finished: FinishedResponse<S>) => boolean;

/** An estimated cost: units, or tokens by kind for limits with `cost: { tokens: .. }`. */
export type Estimate = ActualCost;

/** One or several limits of a guard. */
export type LimitList<R, S> =
  | string
  | GuardLimit<R, S>
  | readonly (string | GuardLimit<R, S>)[];

export interface GuardOptions<R, S> {
  client: Limiter;
  /** One or several limits, which pass together or not at all; or a function that selects them. */
  limits: FromRequest<R, LimitList<R, S>>;
  /** How proxies name the client. By default no proxy is trusted. */
  clientAddress?: ClientAddressOptions;
  /** Attributes of the request, for tiers and costs of configured limits. */
  attributes?: FromRequest<R, { readonly [attribute: string]: AttributeValue }>;
  /** Requests that no limit applies to. */
  skip?: (request: R, context: RequestContext) => MaybePromise<boolean>;
  /** For limits that do not say it themselves. */
  onMissingKey?: MissingKeyPolicy;
  /** Whether responses carry rate limit headers; `Retry-After` is always sent. Default: true. */
  headers?: boolean;
  /** Responses that are free, such as `({ status }) => status >= 500`. */
  refund?: RefundPredicate<S>;
  /** The cost to reserve until the actual cost is known. At least 1. */
  estimate?: FromRequest<R, Estimate>;
  /** The actual cost of a response that has ended; `undefined` keeps the estimate. */
  settle?: (finished: FinishedResponse<S>, request: R) => MaybePromise<ActualCost | undefined>;
  /** How long a reservation stays open: more than the longest response. Default: 10 minutes. */
  reservationTtl?: Duration;
  /** Sees every decision, for logs and metrics. */
  onDecision?: (decision: Decision, request: R) => void;
  /** A permit, refund or reservation could not be handled after a response. Default: a warning. */
  onError?: (error: unknown, request: R) => void;
}
