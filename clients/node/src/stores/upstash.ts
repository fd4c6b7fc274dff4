/**
 * `Ratelimit` in the shape of @upstash/ratelimit:
 *
 * ```ts
 * import { Ratelimit } from "tollgate/upstash";
 *
 * const ratelimit = new Ratelimit({ client, limiter: Ratelimit.slidingWindow(10, "10 s") });
 * const { success } = await ratelimit.limit(userId);
 * ```
 */
import { UnavailableError } from "../errors.js";
import { shown } from "../shown.js";
import type { LimitOptions, LimitOutcome } from "../types.js";
import { DenialCache } from "./denial-cache.js";
import { type Duration, durationMs } from "./upstash-duration.js";
import {
  boundedKey,
  countingLimitOf,
  isDecidable,
  limitOf,
  outcomeOf,
  requireDecided,
  requireStoreOptions,
  waitMs,
} from "./shared.js";
import type { StoreAlgorithm, StoreClient, StoreOptions } from "./shared.js";

export type { Duration };

/** What the static methods return. */
export interface Limiter {
  algorithm: StoreAlgorithm;
  /** The largest number of requests at once. */
  tokens: number;
  /** Tokens per window: the same, except for buckets. */
  rate: number;
  windowMs: number;
  consistency?: "leased";
}

export interface RatelimitConfig extends Omit<StoreOptions, "algorithm"> {
  limiter: Limiter;
  /** Prefix of every key. */
  prefix?: string;
  /**
   * After this time in milliseconds, or in an outage, requests pass with the reason `"timeout"`;
   * 5,000 by default. 0 waits for the client and throws its errors. `onUnavailable` takes
   * precedence.
   */
  timeout?: number;
  /** Remembers denied identifiers until they may pass again; `false` asks every time. */
  ephemeralCache?: Map<string, number> | false;
  /** Asks for the limit of `setDynamicLimit` before each request. */
  dynamicLimits?: boolean;
}

export interface RatelimitResponse {
  success: boolean;
  limit: number;
  remaining: number;
  /** Unix time in milliseconds: of a denied request, when it may pass. */
  reset: number;
  /** Resolved: nothing happens in the background. */
  pending: Promise<unknown>;
  reason?: "timeout" | "cacheBlock" | "denyList";
}

export interface RequestOptions {
  /** Units to charge. A negative number gives units back. */
  rate?: number;
}

const NAMES = {
  limiter: true,
  prefix: true,
  timeout: true,
  ephemeralCache: true,
  dynamicLimits: true,
  // Of the original, and without an influence on decisions.
  analytics: true,
};

/** Options of the original that change decisions, and that there is nothing for here. */
const UNSUPPORTED = ["redis", "enableProtection", "denyListThreshold", "algorithm"];

export class Ratelimit {
  readonly #client: StoreClient;
  readonly #config: RatelimitConfig;
  readonly #name: string;
  readonly #prefix: string;
  readonly #timeoutMs: number;
  readonly #denials: DenialCache | undefined;

  constructor(config: RatelimitConfig) {
    const given = (config as unknown as Record<string, unknown> | undefined) ?? {};
    const unsupported = UNSUPPORTED.find((option) => given[option]);
    if (unsupported !== undefined) {
      throw new TypeError(`unsupported option \`${unsupported}\`; see docs/node-switch.md`);
    }
    requireStoreOptions(config, "Ratelimit", NAMES);


    this.#client = config.client;
    this.#config = config;
    this.#name = config.name ?? "upstash-ratelimit";
    this.#prefix = config.prefix ?? "@upstash/ratelimit";
    this.#timeoutMs = config.timeout ?? 5000;
    const { ephemeralCache } = config;
    this.#denials = ephemeralCache === false ? undefined : new DenialCache(ephemeralCache);
  }

  static fixedWindow(tokens: number, window: Duration): Limiter {
    return { algorithm: "fixed_window", tokens, rate: tokens, windowMs: durationMs(window) };
  }

  static slidingWindow(tokens: number, window: Duration): Limiter {
    return { algorithm: "sliding_window", tokens, rate: tokens, windowMs: durationMs(window) };
  }

  /** Refills continuously, not once per interval. */
  static tokenBucket(refillRate: number, interval: Duration, maxTokens: number): Limiter {
    const windowMs = durationMs(interval);
    return { algorithm: "token_bucket", tokens: maxTokens, rate: refillRate, windowMs };
  }

  /** Leased: mostly decided in memory, and exact. */
  static cachedFixedWindow(tokens: number, window: Duration): Limiter {
    return { ...Ratelimit.fixedWindow(tokens, window), consistency: "leased" };
  }

  limit = async (identifier: string, request?: RequestOptions): Promise<RatelimitResponse> => {
    const { onUnavailable } = this.#config;
    try {
      return await this.#inTime(this.#limit(identifier, rateOf(request)));
    } catch (error) {
      if (!(error instanceof UnavailableError) || onUnavailable === "error") throw error;
      if (onUnavailable !== undefined) return withoutDecision(onUnavailable === "allow");
      if (this.#timeoutMs > 0) return withoutDecision(true);
      throw error;
    }
  };

  /** Asks until the request may pass, at most for `timeout` milliseconds. */
  blockUntilReady = async (identifier: string, timeout: number): Promise<RatelimitResponse> => {
    if (timeout <= 0) throw new TypeError("timeout must be positive");
    const deadline = Date.now() + timeout;

    for (;;) {
      const response = await this.limit(identifier);
      const now = Date.now();
      if (response.success || now >= deadline) return response;
      await sleep(Math.max(Math.min(response.reset, deadline) - now, 1));
    }
  };

  getRemaining = async (
    identifier: string,
  ): Promise<{ remaining: number; reset: number; limit: number }> => {
    const tokens = await this.#tokens();
    const { limiter } = this.#config;
    if (!isDecidable(tokens)) {
      return { remaining: 0, reset: Date.now() + limiter.windowMs, limit: tokens };
    }

    const peek = await this.#client.peek(this.#limitOf(tokens), await this.#key(identifier));
    const outcome = outcomeOf(requireDecided(peek), this.#name);
    return { remaining: outcome.remaining, reset: resetAt(outcome), limit: tokens };
  };

  resetUsedTokens = async (identifier: string): Promise<void> => {
    const key = await this.#key(identifier);
    this.#denials?.delete(key);
    await this.#client.reset(this.#limitOf(Math.max(this.#config.limiter.tokens, 1)), key);
  };

  /** Replaces the limit in all processes with the same prefix and name; `false` ends that. */
  setDynamicLimit = async ({ limit }: { limit: number | false }): Promise<void> => {
    this.#requireDynamic("setDynamicLimit");
    // The number is kept in a counter, plus one: 0 is a limit, and no count is none.
    const counter = this.#dynamicCounter();
    await this.#client.reset(counter, this.#prefix);
    if (limit === false) return;
    requireDecided(await this.#client.check(counter, this.#prefix, { cost: limit + 1 }));
  };

  getDynamicLimit = async (): Promise<{ dynamicLimit: number | null }> => {
    this.#requireDynamic("getDynamicLimit");
    const counter = this.#dynamicCounter();
    const peek = requireDecided(await this.#client.peek(counter, this.#prefix, { cost: 0 }));
    const used = outcomeOf(peek, counter.name).used ?? 0;
    return { dynamicLimit: used > 0 ? used - 1 : null };
  };

  async #limit(identifier: string, rate: number): Promise<RatelimitResponse> {
    const key = await this.#key(identifier);
    const { limiter } = this.#config;
    const deniedUntil = rate > 0 ? this.#denials?.deniedUntil(key) : undefined;
    if (deniedUntil !== undefined) {
      return { ...denial(limiter.tokens, deniedUntil), reason: "cacheBlock" };
    }

    const tokens = await this.#tokens();
    if (!isDecidable(tokens)) return denial(tokens, Date.now() + limiter.windowMs);
    const limit = this.#limitOf(tokens);
    if (rate < 0) return this.#refund(limit, key, -rate, tokens);

    const decision = requireDecided(await this.#client.check(limit, key, { cost: rate }));
    const outcome = outcomeOf(decision, this.#name);
    const { remaining } = outcome;
    const reset = resetAt(outcome);
    // A request of one unit is denied until then; one of many says nothing about smaller ones.
    if (!decision.allowed && rate === 1) this.#denials?.add(key, reset);
    return { success: decision.allowed, limit: tokens, remaining, reset, pending: done() };
  }

  async #refund(limit: LimitOptions, key: string, units: number, tokens: number) {
    this.#denials?.delete(key);
    await this.#client.refund(limit, key, { cost: units });
    const peek = requireDecided(await this.#client.peek(limit, key, { cost: 0 }));
    const outcome = outcomeOf(peek, limit.name);
    const { remaining } = outcome;
    return { success: true, limit: tokens, remaining, reset: resetAt(outcome), pending: done() };
  }

  async #tokens(): Promise<number> {
    const { dynamicLimits, limiter } = this.#config;
    if (dynamicLimits !== true) return limiter.tokens;
    return (await this.getDynamicLimit()).dynamicLimit ?? limiter.tokens;
  }

  #limitOf(tokens: number): LimitOptions {
    const { algorithm, rate, windowMs, consistency } = this.#config.limiter;
    const kind = { name: this.#name, algorithm };
    const limit = limitOf(
      { ...kind, consistency: this.#config.consistency ?? consistency },
      tokens,
      windowMs,
    );
    return algorithm === "token_bucket" ? { ...limit, refillRate: `${rate}/${windowMs}ms` } : limit;
  }

  #dynamicCounter(): LimitOptions {
    const kind = { name: `${this.#name}:limit`, algorithm: "fixed_window" } as const;
    return countingLimitOf(kind, Number.MAX_SAFE_INTEGER);
  }

  #requireDynamic(method: string): void {
    if (this.#config.dynamicLimits === true) return;
    throw new Error(`${method} needs \`dynamicLimits: true\` in the options of Ratelimit`);
  }

  #key(identifier: string): Promise<string> {
    return boundedKey(`${this.#prefix}:${identifier}`);
  }

  /** The response, or one of `timeout`. */
  async #inTime(response: Promise<RatelimitResponse>): Promise<RatelimitResponse> {
    if (this.#timeoutMs <= 0) return response;

    let timer: ReturnType<typeof setTimeout> | undefined;
    const timeout = new Promise<RatelimitResponse>((resolve) => {
      timer = setTimeout(() => {
        resolve(withoutDecision(this.#config.onUnavailable !== "deny"));
      }, this.#timeoutMs);
    });
    try {
      return await Promise.race([response, timeout]);
    } finally {
      clearTimeout(timer);
    }
  }
}

/** The units of a request; 1 by default. */
function rateOf(request: RequestOptions | undefined): number {
  const rate: unknown = request?.rate;
  if (rate === undefined) return 1;
  if (typeof rate === "number" && Number.isSafeInteger(rate)) return rate;
  throw new TypeError(`rate must be a whole number, but it is ${shown(rate)}`);
}

function denial(limit: number, reset: number): RatelimitResponse {
  return { success: false, limit, remaining: 0, reset, pending: done() };
}

function withoutDecision(success: boolean): RatelimitResponse {
  return { success, limit: 0, remaining: 0, reset: 0, pending: done(), reason: "timeout" };
}

function resetAt(outcome: LimitOutcome): number {
  return Date.now() + waitMs(outcome);
}

function done(): Promise<void> {
  return Promise.resolve();
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
