/**
 * A store for express-rate-limit:
 *
 * ```ts
 * import { rateLimit } from "express-rate-limit";
 * import { TollgateStore } from "tollgate/express-rate-limit";
 *
 * app.use(rateLimit({ windowMs: 60_000, limit: 100, store: new TollgateStore({ client }) }));
 * ```
 *
 * A limit that is a number is decided by the service: a denied request is charged nothing. Limits
 * that a function computes, and limiters that skip requests by their response, are counted.
 */
import type { Store } from "express-rate-limit";

import { HitStore } from "./hits.js";
import type { HitStoreOptions } from "./hits.js";

export type TollgateStoreOptions = HitStoreOptions;

export class TollgateStore extends HitStore implements Store {
  constructor(options: TollgateStoreOptions) {
    super(options, { name: "express-rate-limit", prefix: "rl:" });
  }
}
