/**
 * A store and a binding for hono-rate-limiter:
 *
 * ```ts
 * import { rateLimiter } from "hono-rate-limiter";
 * import { TollgateStore } from "tollgate/hono-rate-limiter";
 *
 * const store = new TollgateStore({ client });
 * app.use(rateLimiter({ windowMs: 60_000, limit: 100, keyGenerator, store }));
 * ```
 */
import type { Env, Input } from "hono";
import type { Store } from "hono-rate-limiter";

import { type OptionNames, requireKnown } from "../option-names.js";
import type { LimitOptions } from "../types.js";
import { HitStore } from "./hits.js";
import type { HitStoreOptions } from "./hits.js";
import { boundedKey, isDecided, policyOf, requireDecided } from "./shared.js";
import type { StoreClient, StorePolicy } from "./shared.js";

export type TollgateStoreOptions = HitStoreOptions;

export class TollgateStore<
    E extends Env = Env,
    P extends string = string,
    I extends Input = Input,
  >
  extends HitStore
  implements Store<E, P, I>
{
  constructor(options: TollgateStoreOptions) {
    super(options, { name: "hono-rate-limiter", prefix: "hrl:" });
  }
}

export interface TollgateBindingOptions {
  client: StoreClient;
  /** The name of a configured limit, or a limit. All algorithms but `concurrency` make sense. */
  limit: string | LimitOptions;
  /** What to do while no decision can be made; `"error"` by default. */
  onUnavailable?: StorePolicy;
}

const BINDING_NAMES: OptionNames<TollgateBindingOptions> = {
  client: true,
  limit: true,
  onUnavailable: true,
};

/** The shape of Cloudflare's rate limit binding. */
export interface RateLimitBinding {
  limit(options: { key: string }): Promise<{ success: boolean }>;
}

/** For `rateLimiter({ binding: tollgateBinding({ client, limit: "api" }), keyGenerator })`. */
export function tollgateBinding(options: TollgateBindingOptions): RateLimitBinding {
  requireKnown(options, BINDING_NAMES, "tollgateBinding");
  const { client, limit } = options;
  const onUnavailable = policyOf(options);
  if (typeof limit === "string") client.requireLimits?.([limit]);

  return {
    async limit({ key }) {
      const decision = await client.check(limit, await boundedKey(key));
      if (!isDecided(decision) && onUnavailable !== "error") {
        return { success: onUnavailable === "allow" };
      }
      return { success: requireDecided(decision).allowed };
    },
  };
}
