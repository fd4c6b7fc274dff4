/** The options of the limiter for rate-limiter-flexible. */
import type { RateLimiterLike } from "rate-limiter-flexible";

import { type OptionNames, requireKnown } from "../option-names.js";
import type { StoreClient, StorePolicy } from "./shared.js";

export interface RateLimiterTollgateOptions {
  /** The client. */
  storeClient: StoreClient;
  points: number;
  /** Seconds. 0 means ten years, the longest window of the service. */
  duration: number;
  /** Seconds for which a key is blocked when it has consumed more than its points. */
  blockDuration?: number;
  /** Consumed points at which the block begins; defaults to one more than `points`. */
  blockOnConsumed?: number;
  execEvenly?: boolean;
  execEvenlyMinDelayMs?: number;
  keyPrefix?: string;
  /** Answers while the service is unavailable. */
  insuranceLimiter?: RateLimiterLike;
  /** The name of the limit in metrics and errors: up to 41 letters, digits or `-_.:/`. */
  name?: string;
  /** What to do while the service is unavailable and there is no insurance limiter. */
  onUnavailable?: StorePolicy;
}

/** Options of a single call. */
export interface CallOptions {
  /** Seconds. Calls with it have a counter of their own, beside that of `duration`. */
  customDuration?: number;
  [option: string]: unknown;
}

const NAMES: OptionNames<RateLimiterTollgateOptions> = {
  storeClient: true,
  points: true,
  duration: true,
  blockDuration: true,
  blockOnConsumed: true,
  execEvenly: true,
  execEvenlyMinDelayMs: true,
  keyPrefix: true,
  insuranceLimiter: true,
  name: true,
  onUnavailable: true,
};

/** Throws if an option is wrong, or ignored here: it would change what the original decides. */
export function validate(options: RateLimiterTollgateOptions): void {
  requireKnown(options, NAMES, "RateLimiterTollgate");
  const { storeClient, points, duration } = options;
  if ((storeClient as unknown) === undefined) throw new TypeError("storeClient is not set");
  if (!Number.isFinite(points)) throw new TypeError("points must be a finite number");
  if (!Number.isFinite(duration) || duration < 0) {
    throw new TypeError("duration must be a number of seconds, at least 0");
  }
}
