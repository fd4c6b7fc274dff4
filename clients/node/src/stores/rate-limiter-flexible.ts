/**
 * A limiter for rate-limiter-flexible, also for its wrappers and as an `insuranceLimiter`:
 *
 * ```ts
 * import { RateLimiterTollgate } from "tollgate/rate-limiter-flexible";
 *
 * const limiter = new RateLimiterTollgate({ storeClient: client, points: 10, duration: 1 });
 * await limiter.consume(req.ip);
 * ```
 *
 * Points are counted as the library counts them: also those of denied calls, so that
 * `consumedPoints` grows past `points`.
 */
import { RateLimiterCompatibleAbstract, RateLimiterRes } from "rate-limiter-flexible";
import type { RateLimiterLike } from "rate-limiter-flexible";

import { UnavailableError } from "../errors.js";
import type { UnavailablePolicy } from "../types.js";
import { CallOrder } from "./call-order.js";
import { PointCounters, pointsOf } from "./points.js";
import type { PointCount } from "./points.js";
import { validate } from "./rate-limiter-flexible-options.js";
import type { CallOptions, RateLimiterTollgateOptions } from "./rate-limiter-flexible-options.js";
import { boundedKey, isDecided, policyOf } from "./shared.js";
import type { StorePolicy } from "./shared.js";

export type { CallOptions, RateLimiterTollgateOptions };
export { RateLimiterRes };

type Key = string | number;
/** A number, or the digits of one, as the library takes them. */
type Points = number | string;

/** Longer than the longest window, to which it is reduced. */
const FOREVER_MS = Number.MAX_SAFE_INTEGER;
/** What is left of "for ever" in the first year of it: then the library says -1. */
const ENDLESS_MS = 9 * 365 * 24 * 3600 * 1000;

export class RateLimiterTollgate extends RateLimiterCompatibleAbstract {
  points: number;
  duration: number;
  blockOnConsumed: number;
  execEvenlyMinDelayMs: number;
  insuranceLimiter: RateLimiterLike | undefined;
  readonly #counters: PointCounters;
  readonly #policy: StorePolicy;
  readonly #order = new CallOrder();

  constructor(options: RateLimiterTollgateOptions) {
    super();
    validate(options);

    // The base class has accessors that throw, to be replaced by each limiter.
    const { keyPrefix = "rlflx", blockDuration = 0, execEvenly = false } = options;
    Object.defineProperties(this, {
      keyPrefix: { value: keyPrefix, writable: true, enumerable: true },
      blockDuration: { value: blockDuration, writable: true, enumerable: true },
      execEvenly: { value: execEvenly, writable: true, enumerable: true },
    });

    const { points, duration, insuranceLimiter, name = "rate-limiter-flexible" } = options;
    this.points = points;
    this.duration = duration;
    this.blockOnConsumed = options.blockOnConsumed ?? 0;
    const evenDelayMs = points > 0 ? Math.ceil((duration * 1000) / points) : 0;
    this.execEvenlyMinDelayMs = options.execEvenlyMinDelayMs ?? evenDelayMs;
    this.#counters = new PointCounters(options.storeClient, name);
    this.#policy = policyOf(options);

    this.insuranceLimiter = insuranceLimiter;
    if (insuranceLimiter !== undefined) {
      insuranceLimiter.blockDuration = blockDuration;
      insuranceLimiter.execEvenly = execEvenly;
    }
  }

  get msDuration(): number {
    return this.duration * 1000;
  }

  get msBlockDuration(): number {
    return this.blockDuration * 1000;
  }

  /** The key as it is stored. */
  getKey(key: Key): string {
    return this.keyPrefix.length > 0 ? `${this.keyPrefix}:${key}` : String(key);
  }

  /** Rejects with a `RateLimiterRes` if the points are used up, with an `Error` in an outage. */
  override async consume(
    key: Key,
    points: Points = 1,
    options: CallOptions = {},
  ): Promise<RateLimiterRes> {
    const units = pointsOf(points);
    if (units < 0) return this.reward(key, -units, options);
    return this.#insured(
      this.#order.after(this.getKey(key), async () =>
        this.#consume(await this.#key(key), units, this.#windowMs(options)),
      ),
      (insurance) => insurance.consume(key, units, options),
    );
  }

  override async penalty(
    key: Key,
    points: Points = 1,
    options: CallOptions = {},
  ): Promise<RateLimiterRes> {
    const units = pointsOf(points);
    if (units < 0) return this.reward(key, -units, options);
    return this.#insured(
      this.#order.after(this.getKey(key), async () => {
        const ms = this.#windowMs(options);
        return this.#res(await this.#counters.add(await this.#key(key), units, ms), units);
      }),
      (insurance) => insurance.penalty(key, units, options),
    );
  }

  /** Returns points, at most those that are consumed. */
  override async reward(
    key: Key,
    points: Points = 1,
    options: CallOptions = {},
  ): Promise<RateLimiterRes> {
    const units = pointsOf(points);
    if (units < 0) return this.penalty(key, -units, options);
    return this.#insured(
      this.#order.alone(this.getKey(key), async () => {
        const ms = this.#windowMs(options);
        const count = await this.#counters.subtract(await this.#key(key), units, ms);
        return this.#res(count ?? { consumed: 0, windowMs: 0, blockedMs: 0 });
      }),
      (insurance) => insurance.reward(key, units, options),
    );
  }

  override async get(key: Key, options: CallOptions = {}): Promise<RateLimiterRes | null> {
    return this.#insured(
      this.#order.after(this.getKey(key), async () => {
        const count = await this.#counters.get(await this.#key(key), this.#windowMs(options));
        return count === undefined ? null : this.#res(count);
      }),
      (insurance) => insurance.get(key, options),
    );
  }

  /** Sets the consumed points. More than `points` also block the key for `secDuration`. */
  override async set(
    key: Key,
    points: Points,
    secDuration: number,
    options: CallOptions = {},
  ): Promise<RateLimiterRes> {
    const units = pointsOf(points);
    return this.#insured(
      this.#order.alone(this.getKey(key), async () => {
        const sec = secDuration >= 0 ? secDuration : this.duration;
        const blockMs = units > this.points ? durationMs(sec) : 0;
        await this.#counters.set(await this.#key(key), units, this.#windowMs(options), blockMs);
        return new RateLimiterRes(0, sec > 0 ? sec * 1000 : -1, units);
      }),
      (insurance) => insurance.set(key, units, secDuration, options),
    );
  }

  /** Denies everything for `secDuration` from now. 0 means ten years. */
  override async block(
    key: Key,
    secDuration: number,
    options: CallOptions = {},
  ): Promise<RateLimiterRes> {
    return this.#insured(
      this.#order.alone(this.getKey(key), async () => {
        const blockMs = durationMs(secDuration);
        await this.#counters.set(await this.#key(key), 0, this.#windowMs(options), blockMs);
        return new RateLimiterRes(0, secDuration > 0 ? blockMs : -1, this.#blockedPoints());
      }),
      (insurance) => insurance.block(key, secDuration, options),
    );
  }

  /** Forgets the key, and its block. Resolves to whether there was something to forget. */
  override async delete(key: Key, options: CallOptions = {}): Promise<boolean> {
    return this.#insured(
      this.#order.alone(this.getKey(key), async () =>
        this.#counters.delete(await this.#key(key), this.#windowMs(options)),
      ),
      (insurance) => insurance.delete(key, options),
    );
  }

  async #consume(key: string, points: number, ms: number): Promise<RateLimiterRes> {
    const decision = await this.#counters.consume(key, points, ms);
    if (!isDecided(decision) && this.#policy !== "error") return this.#undecided(this.#policy);

    const count = this.#counters.count(decision);
    const res = this.#res(count, points);
    if (count.blockedMs > 0) return denied(res);
    if (count.consumed <= this.points) return this.#evenly(res);
    if (!this.#startsBlock(count.consumed, points)) return denied(res);

    // The library replaces the rest of the window by the block, whichever is longer.
    const blockedMs = this.msBlockDuration;
    await this.#counters.block(key, blockedMs);
    if (blockedMs < count.windowMs) await this.#counters.forget(key, ms);
    return denied(this.#res({ ...count, blockedMs }, points));
  }

  /** Whether this call has consumed the point at which blocks begin. */
  #startsBlock(consumed: number, points: number): boolean {
    const threshold = this.#blockedPoints();
    return this.blockDuration > 0 && consumed >= threshold && consumed - points < threshold;
  }

  #blockedPoints(): number {
    return Math.max(this.blockOnConsumed, this.points + 1);
  }

  #res(count: PointCount, points = 0): RateLimiterRes {
    const isBlocked = count.blockedMs > 0;
    const consumed = isBlocked ? Math.max(count.consumed, this.#blockedPoints()) : count.consumed;
    const remaining = Math.max(this.points - consumed, 0);
    const isFirst = points > 0 && consumed === points;
    const waitMs = isBlocked ? count.blockedMs : count.windowMs;
    return new RateLimiterRes(remaining, waitMs > ENDLESS_MS ? -1 : waitMs, consumed, isFirst);
  }

  #undecided(policy: UnavailablePolicy): Promise<RateLimiterRes> {
    if (policy === "allow") return Promise.resolve(new RateLimiterRes(this.points, 0, 0));
    return denied(new RateLimiterRes(0, this.msDuration, this.#blockedPoints()));
  }

  /** Delays a call so that the calls of a window are spread over it, if `execEvenly` is set. */
  async #evenly(res: RateLimiterRes): Promise<RateLimiterRes> {
    const { remainingPoints, consumedPoints, msBeforeNext, isFirstInDuration } = res;
    if (!this.execEvenly || isFirstInDuration || msBeforeNext <= 0) return res;

    const even = Math.ceil(msBeforeNext / (remainingPoints + 2));
    const minimum = this.execEvenlyMinDelayMs;
    const delayMs = even < minimum ? consumedPoints * minimum : even;
    await new Promise((resolve) => setTimeout(resolve, delayMs));
    return new RateLimiterRes(remainingPoints, Math.max(msBeforeNext - delayMs, 0), consumedPoints);
  }

  #key(key: Key): Promise<string> {
    return boundedKey(this.getKey(key));
  }

  #windowMs({ customDuration }: CallOptions): number {
    const custom = customDuration !== undefined && customDuration >= 0;
    return durationMs(custom ? customDuration : this.duration);
  }

  /** Asks the insurance limiter if the service is unavailable, and only then. */
  async #insured<T>(
    call: Promise<T>,
    insured: (insurance: RateLimiterLike) => Promise<T>,
  ): Promise<T> {
    try {
      return await call;
    } catch (error) {
      const { insuranceLimiter } = this;
      if (insuranceLimiter === undefined || !(error instanceof UnavailableError)) throw error;
      return insured(insuranceLimiter);
    }
  }
}

/** A denial is a rejection that is not an error: this is how the library tells them apart. */
function denied(res: RateLimiterRes): Promise<never> {
  // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors
  return Promise.reject(res);
}

function durationMs(sec: number): number {
  return sec > 0 ? sec * 1000 : FOREVER_MS;
}
