/** Counts the points of a key in a window, and blocks keys: what rate-limiter-flexible needs. */
import { shown } from "../shown.js";
import type { Decision, LimitOptions } from "../types.js";
import { BlockLimit } from "./block.js";
import { countedUnits, countingLimitOf, outcomeOf, requireDecided } from "./shared.js";
import type { StoreClient } from "./shared.js";

/** How long a key is blocked at most while its points are replaced. */
const SET_MS = 5_000;

/** What is known about a key. */
export interface PointCount {
  consumed: number;
  /** Until the window ends. */
  windowMs: number;
  /** Until the block ends; 0 if the key is not blocked. */
  blockedMs: number;
}

/** The counters of one limiter. `ms` is the length of the window. */
export class PointCounters {
  readonly #client: StoreClient;
  readonly #name: string;
  readonly #blocks: BlockLimit;

  constructor(client: StoreClient, name: string) {
    this.#client = client;
    this.#name = name;
    this.#blocks = new BlockLimit(client, name);
  }

  /** Adds points, unless the key is blocked. Returns the decision as well, to tell outages. */
  async consume(key: string, points: number, ms: number): Promise<Decision> {
    const main = { limit: this.#limit(ms), key, cost: points };
    return this.#client.check([main, this.#blocks.demand(key)]);
  }

  /** Reads the decision of `consume`. */
  count(decision: Decision): PointCount {
    const outcome = outcomeOf(requireDecided(decision), this.#name);
    const blockedMs = this.#blocks.remainingMs(decision);
    return { consumed: countedUnits(outcome), windowMs: outcome.resetAfterMs, blockedMs };
  }

  /** Adds points, blocked or not. */
  async add(key: string, points: number, ms: number): Promise<PointCount> {
    const decision = await this.#client.check(this.#limit(ms), key, { cost: points });
    const outcome = outcomeOf(requireDecided(decision), this.#name);
    return { consumed: countedUnits(outcome), windowMs: outcome.resetAfterMs, blockedMs: 0 };
  }

  /** Takes points back, at most those that were added. */
  async subtract(key: string, points: number, ms: number): Promise<PointCount | undefined> {
    await this.#client.refund(this.#limit(ms), key, { cost: points });
    return this.get(key, ms);
  }

  /** `undefined` if nothing is known about the key. */
  async get(key: string, ms: number): Promise<PointCount | undefined> {
    const main = { limit: this.#limit(ms), key, cost: 0 };
    const peek = requireDecided(await this.#client.peek([main, this.#blocks.demand(key)]));

    const { used = 0, window, resetAfterMs } = outcomeOf(peek, this.#name);
    const blockedMs = this.#blocks.remainingMs(peek);
    if (window === undefined && blockedMs === 0) return undefined;
    return { consumed: used, windowMs: resetAfterMs, blockedMs };
  }

  /** Replaces the points, and the block: none if `blockMs` is 0. */
  async set(key: string, points: number, ms: number, blockMs: number): Promise<void> {
    // A key without points and without a block would be admitted.
    if (blockMs > 0) await this.#blocks.set(key, blockMs);
    else await this.#blocks.extend(key, SET_MS);
    await this.forget(key, ms);
    if (points > 0) await this.add(key, points, ms);
    if (blockMs === 0) await this.#blocks.clear(key);
  }

  /** Blocks the key for at least this long. */
  async block(key: string, blockMs: number): Promise<void> {
    await this.#blocks.extend(key, blockMs);
  }

  /** Forgets the points, but not the block. */
  async forget(key: string, ms: number): Promise<void> {
    await this.#client.reset(this.#limit(ms), key);
  }

  /** Forgets everything. Resolves to whether there was something to forget. */
  async delete(key: string, ms: number): Promise<boolean> {
    const count = await this.get(key, ms);
    await Promise.all([this.forget(key, ms), this.#blocks.clear(key)]);
    return count !== undefined;
  }

  #limit(ms: number): LimitOptions {
    return countingLimitOf({ name: this.#name, algorithm: "fixed_window" }, ms);
  }
}

/** Points as the library takes them: a whole number, or the digits of a positive one. */
export function pointsOf(points: unknown): number {
  if (typeof points === "string" && /^[1-9]\d*$/.test(points)) return pointsOf(Number(points));
  if (typeof points === "number" && Number.isSafeInteger(points)) return points;
  throw new TypeError(`points must be a whole number, but it is ${shown(points)}`);
}
