/**
 * A storage for @nestjs/throttler:
 *
 * ```ts
 * import { TollgateThrottlerStorage } from "tollgate/nestjs-throttler";
 *
 * ThrottlerModule.forRoot({
 *   throttlers: [{ ttl: 60_000, limit: 100 }],
 *   storage: new TollgateThrottlerStorage({ client }),
 * });
 * ```
 *
 * The guard of the library asks one throttler after another, and a request that the last one
 * denies was charged to the others. The guard of `tollgate/nest` asks all of them at once.
 */
import type { ThrottlerStorage } from "@nestjs/throttler";

import { BlockLimit } from "./block.js";
import {
  boundedKey,
  isDecidable,
  isDecided,
  limitName,
  limitOf,
  outcomeOf,
  requireDecided,
  requireStoreOptions,
  waitMs,
} from "./shared.js";
import type { StoreAlgorithm, StoreClient, StoreOptions } from "./shared.js";

/** `name` is a prefix here: the name of each throttler follows it. */
export type TollgateThrottlerStorageOptions = StoreOptions;

/** Times are in seconds. */
export interface ThrottlerRecord {
  totalHits: number;
  timeToExpire: number;
  isBlocked: boolean;
  timeToBlockExpire: number;
}

export class TollgateThrottlerStorage implements ThrottlerStorage {
  readonly #options: StoreOptions;
  readonly #client: StoreClient;
  readonly #algorithm: StoreAlgorithm;

  constructor(options: TollgateThrottlerStorageOptions) {
    requireStoreOptions(options, "TollgateThrottlerStorage");
    this.#options = options;
    this.#client = options.client;
    // The library forgets each request `ttl` after it was made: a log.
    this.#algorithm = options.algorithm ?? "sliding_log";
  }

  /** `ttl` and `blockDuration` are in milliseconds. */
  async increment(
    key: string,
    ttl: number,
    limit: number,
    blockDuration: number,
    throttlerName: string,
  ): Promise<ThrottlerRecord> {
    const units = Math.floor(limit);
    if (!isDecidable(units)) return blocked(1, ttl, Math.max(ttl, blockDuration));

    const name = limitName(`${this.#options.name ?? "throttler"}:${throttlerName}`);
    const kind = { name, algorithm: this.#algorithm, consistency: this.#options.consistency };
    const main = limitOf(kind, units, ttl);
    const blocks = blockDuration > 0 ? new BlockLimit(this.#client, name) : undefined;
    const storedKey = await boundedKey(`${throttlerName}:${key}`);
    const demands = [{ limit: main, key: storedKey }];
    const decision = await this.#client.check(
      blocks === undefined ? demands : [...demands, blocks.demand(storedKey)],
    );

    const { onUnavailable = "error" } = this.#options;
    if (!isDecided(decision) && onUnavailable !== "error") {
      return onUnavailable === "allow" ? allowed(0, ttl) : blocked(units + 1, ttl, ttl);
    }

    const outcome = outcomeOf(requireDecided(decision), name);
    if (decision.allowed) return allowed(units - outcome.remaining, outcome.resetAfterMs);
    if (blocks === undefined) return blocked(units + 1, outcome.resetAfterMs, waitMs(outcome));

    const blockedMs = blocks.remainingMs(decision);
    if (blockedMs > 0) return blocked(units + 1, outcome.resetAfterMs, blockedMs);

    // The first denial starts the block. After it, the key starts again with no hits.
    await blocks.extend(storedKey, blockDuration);
    await this.#client.reset(main, storedKey);
    return blocked(units + 1, outcome.resetAfterMs, blockDuration);
  }
}

function allowed(totalHits: number, resetMs: number): ThrottlerRecord {
  const timeToExpire = seconds(resetMs);
  return { totalHits, timeToExpire, isBlocked: false, timeToBlockExpire: 0 };
}

function blocked(totalHits: number, resetMs: number, blockedMs: number): ThrottlerRecord {
  const timeToBlockExpire = seconds(blockedMs);
  return { totalHits, timeToExpire: seconds(resetMs), isBlocked: true, timeToBlockExpire };
}

function seconds(ms: number): number {
  return Math.ceil(ms / 1000);
}
