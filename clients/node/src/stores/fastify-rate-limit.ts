/**
 * A store for @fastify/rate-limit:
 *
 * ```ts
 * import { tollgateStore } from "tollgate/fastify-rate-limit";
 *
 * const store = tollgateStore({ client });
 * await app.register(rateLimit, { max: 100, timeWindow: "1 minute", store });
 * ```
 *
 * Without `ban`, `continueExceeding` and `exponentialBackoff` the service decides the limit. With
 * them, requests beyond the limit count, too.
 */
import { BlockLimit } from "./block.js";
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
  windowMs,
} from "./shared.js";
import type { LimitKind, StoreClient, StoreOptions, StorePolicy } from "./shared.js";

export interface TollgateStoreOptions extends StoreOptions {
  /** Prefix of every key. */
  nameSpace?: string;
}

/** What the plugin, or one of its routes, is configured with. */
export interface FastifyLimiterOptions {
  ban?: number;
  continueExceeding?: boolean;
  exponentialBackoff?: boolean;
  groupId?: string;
  routeInfo?: { method?: string | string[]; url?: string };
}

export interface HitCount {
  /** Requests in the window, including this one. */
  current: number;
  /** Milliseconds until the window ends. */
  ttl: number;
}

export type HitCallback = (error: Error | null, result?: HitCount) => void;

/** The store that the plugin makes of the class. */
export interface TollgateRateLimitStore {
  incr(key: string, callback: HitCallback, timeWindow: number, max: number): void;
  read(key: string, callback: HitCallback, timeWindow: number, max: number): void;
  child(routeOptions: object): TollgateRateLimitStore;
}

export type TollgateRateLimitStoreConstructor = new (options: object) => TollgateRateLimitStore;

/** The class that @fastify/rate-limit takes as its `store`. */
export function tollgateStore(options: TollgateStoreOptions): TollgateRateLimitStoreConstructor {
  requireStoreOptions(options, "tollgateStore", { nameSpace: true });
  const prefix = options.nameSpace ?? "fastify-rate-limit-";

  return class TollgateStore extends FastifyStore {
    constructor(limiter: object) {
      super(options, limiter, prefix);
    }
  };
}

/** Denied requests in a row are forgotten after a day without a first one. */
const VIOLATIONS_MS = 24 * 3600 * 1000;

class FastifyStore implements TollgateRateLimitStore {
  readonly #options: TollgateStoreOptions;
  readonly #limiter: FastifyLimiterOptions;
  readonly #prefix: string;
  readonly #client: StoreClient;
  readonly #kind: LimitKind;
  readonly #policy: StorePolicy;
  readonly #blocks: BlockLimit;

  constructor(options: TollgateStoreOptions, limiter: FastifyLimiterOptions, prefix: string) {
    const { client, name = "fastify-rate-limit", algorithm = "fixed_window" } = options;
    this.#options = options;
    this.#limiter = limiter;
    this.#prefix = prefix;
    this.#client = client;
    this.#kind = { name, algorithm, consistency: options.consistency };
    this.#policy = policyOf(options);
    this.#blocks = new BlockLimit(client, name);
  }

  incr(key: string, callback: HitCallback, timeWindow: number, max: number): void {
    answer(() => this.#increment(key, timeWindow, max), callback);
  }

  read(key: string, callback: HitCallback, timeWindow: number, max: number): void {
    answer(() => this.#read(key, timeWindow, max), callback);
  }

  /** The store of a route: its keys are its own, or those of its group. */
  child(routeOptions: FastifyLimiterOptions): TollgateRateLimitStore {
    const { groupId, routeInfo } = routeOptions;
    const method = [routeInfo?.method ?? ""].flat().join(",");
    const scope = groupId === undefined ? `${method}${routeInfo?.url ?? ""}` : "group";
    return new FastifyStore(this.#options, routeOptions, `${this.#prefix}${scope}-`);
  }

  async #increment(shortKey: string, ms: number, max: number): Promise<HitCount> {
    const key = await boundedKey(`${this.#prefix}${shortKey}`);
    const { continueExceeding, exponentialBackoff, ban } = this.#limiter;
    try {
      if (!isDecidable(max)) return await this.#counted(key, ms);
      if (continueExceeding === true || exponentialBackoff === true) {
        return await this.#extended(key, ms, max);
      }
      const bans = ban !== undefined && ban >= 0;
      return bans ? await this.#counted(key, ms) : await this.#decided(key, ms, max);
    } catch (error) {
      if (!(error instanceof PolicyApplies)) throw error;
      return { current: this.#policy === "allow" ? 0 : max + 1, ttl: windowMs(ms) };
    }
  }

  /** The service decides. It charges nothing for a denied request. */
  async #decided(key: string, ms: number, max: number): Promise<HitCount> {
    const decision = this.#checked(await this.#client.check(limitOf(this.#kind, max, ms), key));
    const outcome = outcomeOf(decision, this.#kind.name);
    const current = decision.allowed ? max - outcome.remaining : max + 1;
    return { current, ttl: waitMs(outcome) };
  }

  /** Every request counts. */
  async #counted(key: string, ms: number): Promise<HitCount> {
    const decision = this.#checked(await this.#client.check(countingLimitOf(this.#kind, ms), key));
    const outcome = outcomeOf(decision, this.#kind.name);
    return { current: countedUnits(outcome), ttl: outcome.resetAfterMs };
  }

  /** Each denied request extends the time for which further requests are denied. */
  async #extended(key: string, ms: number, max: number): Promise<HitCount> {
    const limit = limitOf(this.#kind, max, ms);
    const demands = [{ limit, key }, this.#blocks.demand(key)];
    const decision = this.#checked(await this.#client.check(demands));
    const outcome = outcomeOf(decision, limit.name);
    if (decision.allowed) return { current: max - outcome.remaining, ttl: outcome.resetAfterMs };

    const isFirst = this.#blocks.remainingMs(decision) === 0;
    const violations = await this.#addViolation(key, isFirst);
    const factor = this.#limiter.continueExceeding === true ? 1 : 2 ** (violations - 1);
    const ttl = windowMs(Math.min(ms * factor, Number.MAX_SAFE_INTEGER));
    await this.#blocks.extend(key, ttl);
    return { current: max + violations, ttl };
  }

  async #read(shortKey: string, ms: number, max: number): Promise<HitCount> {
    const key = await boundedKey(`${this.#prefix}${shortKey}`);
    const limit = isDecidable(max) ? limitOf(this.#kind, max, ms) : countingLimitOf(this.#kind, ms);
    const violations = this.#violations();
    const peek = requireDecided(
      await this.#client.peek([
        { limit, key, cost: 0 },
        { limit: violations, key, cost: 0 },
        this.#blocks.demand(key),
      ]),
    );

    const blockedMs = this.#blocks.remainingMs(peek);
    const { used = 0, resetAfterMs } = outcomeOf(peek, limit.name);
    if (blockedMs === 0) return { current: used, ttl: used > 0 ? resetAfterMs : 0 };
    return { current: max + (outcomeOf(peek, violations.name).used ?? 1), ttl: blockedMs };
  }

  /** Counts a denied request. The first one after an allowed request starts again at 1. */
  async #addViolation(key: string, isFirst: boolean): Promise<number> {
    const limit = this.#violations();
    if (isFirst) await this.#client.reset(limit, key);
    const decision = this.#checked(await this.#client.check(limit, key));
    return countedUnits(outcomeOf(decision, limit.name));
  }

  #violations() {
    const name = `${this.#kind.name}:over`;
    return countingLimitOf({ name, algorithm: "fixed_window" }, VIOLATIONS_MS);
  }

  #checked<D extends Parameters<typeof requireDecided>[0]>(decision: D): D {
    if (!isDecided(decision) && this.#policy !== "error") throw new PolicyApplies();
    return requireDecided(decision);
  }
}

/** No decision could be made, and the options say what to do then. */
class PolicyApplies extends Error {}

function answer(count: () => Promise<HitCount>, callback: HitCallback): void {
  forMiddleware(count).then(
    (result) => {
      callback(null, result);
    },
    (error: unknown) => {
      callback(error as Error);
    },
  );
}
