/** The store interface that express-rate-limit and hono-rate-limiter share: hits of a client. */
import type { LimitOptions, LimitOutcome } from "../types.js";
import {
  boundedKey,
  countedUnits,
  countingLimitOf,
  forMiddleware,
  isDecidable,
  isDecided,
  limitOf,
  outcomeOf,
  policyOf,
  requireDecided,
  requireStoreOptions,
  waitMs,
} from "./shared.js";
import type { LimitKind, StoreClient, StoreOptions, StorePolicy } from "./shared.js";

export interface HitStoreOptions extends StoreOptions {
  /** Prefix of every key. Give each limiter its own, or its own `name`. */
  prefix?: string;
}

/** What the middleware tells its store. */
export interface HitLimiterOptions {
  windowMs: number;
  limit?: unknown;
  skipFailedRequests?: boolean;
  skipSuccessfulRequests?: boolean;
}

export interface HitInfo {
  totalHits: number;
  resetTime: Date;
}

/** Defaults that differ between the libraries. */
export interface HitStoreDefaults {
  name: string;
  prefix: string;
}

const DEFAULT_WINDOW_MS = 60_000;

export class HitStore {
  /** Keys are shared with other processes. */
  readonly localKeys = false;
  /** What the middleware uses to recognise a key that is counted twice for one request. */
  readonly prefix: string;

  readonly #client: StoreClient;
  readonly #kind: LimitKind;
  readonly #policy: StorePolicy;
  #windowMs = DEFAULT_WINDOW_MS;
  /** The limit that the service decides; undefined if hits are counted and compared here. */
  #decidable: number | undefined;

  constructor(options: HitStoreOptions, defaults: HitStoreDefaults) {
    requireStoreOptions(options, "TollgateStore", { prefix: true });
    const { client, name, prefix, algorithm = "fixed_window", consistency } = options;
    this.#client = client;
    this.#kind = { name: name ?? defaults.name, algorithm, consistency };
    this.#policy = policyOf(options);
    this.prefix = prefix ?? (name === undefined ? defaults.prefix : `${name}:`);
  }

  init(options: HitLimiterOptions): void {
    this.#windowMs = options.windowMs;

    // The middleware takes every hit back that it skips, also the denied ones. The service charges
    // nothing for a denial, so there would be nothing to take back: count them all instead.
    const skips = options.skipFailedRequests === true || options.skipSuccessfulRequests === true;
    const limit = typeof options.limit === "number" ? options.limit : undefined;
    this.#decidable = !skips && isDecidable(limit) ? limit : undefined;
  }

  increment(key: string): Promise<HitInfo> {
    return forMiddleware(() => this.#increment(key));
  }

  get(key: string): Promise<HitInfo | undefined> {
    return forMiddleware(() => this.#get(key));
  }

  decrement(key: string): Promise<void> {
    return forMiddleware(async () => {
      await this.#client.refund(this.#limit(), await this.#key(key), { cost: 1 });
    });
  }

  resetKey(key: string): Promise<void> {
    return forMiddleware(async () => {
      await this.#client.reset(this.#limit(), await this.#key(key));
    });
  }

  async #increment(key: string): Promise<HitInfo> {
    const limit = this.#limit();
    const decision = await this.#client.check(limit, await this.#key(key));
    if (!isDecided(decision) && this.#policy !== "error") {
      return this.#undecided(this.#policy === "allow");
    }

    const outcome = outcomeOf(requireDecided(decision), limit.name);
    const allowed = decision.allowed;
    return { totalHits: this.#hits(outcome, allowed), resetTime: fromNow(waitMs(outcome)) };
  }

  async #get(key: string): Promise<HitInfo | undefined> {
    const limit = this.#limit();
    const peek = requireDecided(await this.#client.peek(limit, await this.#key(key)));

    const outcome = outcomeOf(peek, limit.name);
    const { used: totalHits = 0, window } = outcome;
    // A fixed window without hits had some, which were taken back. Others are always there.
    const isKnown = this.#kind.algorithm === "fixed_window" && window !== undefined;
    if (totalHits === 0 && !isKnown) return undefined;
    return { totalHits, resetTime: fromNow(waitMs(outcome)) };
  }

  #limit(): LimitOptions {
    return this.#decidable === undefined
      ? countingLimitOf(this.#kind, this.#windowMs)
      : limitOf(this.#kind, this.#decidable, this.#windowMs);
  }

  #key(key: string): Promise<string> {
    return boundedKey(`${this.prefix}${key}`);
  }

  /** The middleware denies if there are more hits than the limit, and wants at least one. */
  #hits(outcome: LimitOutcome, allowed: boolean): number {
    if (this.#decidable === undefined) return Math.max(countedUnits(outcome), 1);
    if (!allowed) return this.#decidable + 1;
    return Math.min(Math.max(this.#decidable - outcome.remaining, 1), this.#decidable);
  }

  #undecided(allowed: boolean): HitInfo {
    const denied = this.#decidable === undefined ? Number.MAX_SAFE_INTEGER : this.#decidable + 1;
    return { totalHits: allowed ? 1 : denied, resetTime: fromNow(this.#windowMs) };
  }
}

function fromNow(ms: number): Date {
  return new Date(Date.now() + ms);
}
