/**
 * Blocks a key for a time. A block is a second limit for the same key: a token bucket that is so
 * deep in debt that it denies until the time is over. Limits of one request pass together or not
 * at all, so a blocked request is charged to nothing.
 */
import type { Demand, LimitOptions, LimitOutcome } from "../types.js";
import { outcomeOf, requireDecided, windowMs } from "./shared.js";
import type { StoreClient } from "./shared.js";

const UNITS_PER_MS = 1000;

/** One second. A key that is not blocked would have to be checked a million times in it. */
const CAPACITY = 1000 * UNITS_PER_MS;

/** The blocks of the keys of one limit. */
export class BlockLimit {
  readonly #client: StoreClient;
  readonly #limit: LimitOptions;

  constructor(client: StoreClient, name: string) {
    this.#client = client;
    this.#limit = {
      name: `${name}:block`,
      algorithm: "token_bucket",
      capacity: CAPACITY,
      refillRate: `${CAPACITY}/s`,
      // A lease would go on admitting while the key is blocked.
      consistency: "strict",
    };
  }

  /** Denies while the key is blocked. */
  demand(key: string): Demand {
    return { limit: this.#limit, key, cost: 1 };
  }

  /** How long a key is still blocked, in milliseconds; 0 if it is not. */
  remainingMs(decision: { limits: LimitOutcome[] }): number {
    return outcomeOf(decision, this.#limit.name).retryAfterMs ?? 0;
  }

  /** Blocks the key for at least this long from now. A longer block stays. */
  async extend(key: string, ms: number): Promise<void> {
    // The bound on the debt makes this a maximum, and not a sum, of blocks.
    const units = windowMs(ms) * UNITS_PER_MS;
    const limit = { ...this.#limit, debtMax: units - 1 };
    requireDecided(await this.#client.count(limit, key, { cost: CAPACITY + units }));
  }

  /**
   * Blocks the key for exactly this long from now. The key is blocked all the time: a longer block
   * is shortened by what it is too long.
   */
  async set(key: string, ms: number): Promise<void> {
    await this.extend(key, ms);
    const wanted = windowMs(ms);
    const found = this.remainingMs(requireDecided(await this.#client.peek([this.demand(key)])));
    if (found <= wanted) return;
    await this.#client.refund(this.#limit, key, { cost: (found - wanted) * UNITS_PER_MS });
    // Another process may have shortened the same block at the same time.
    await this.extend(key, ms);
  }

  /** Ends the block of the key. */
  async clear(key: string): Promise<void> {
    await this.#client.reset(this.#limit, key);
  }
}
