/**
 * Loaded before the tests that @fastify/rate-limit ships for its Redis store. They run unchanged:
 * `redis` in their options becomes our store, and the Redis client a client of the service.
 */
import Module from "node:module";

import { tollgateStore } from "../../src/stores/fastify-rate-limit.js";
import { Tollgate } from "../../src/tollgate.js";

type Load = (request: string, ...rest: unknown[]) => unknown;

interface Settings {
  redis?: RedisStandIn;
  nameSpace?: string;
}

type Plugin = (app: unknown, settings: Settings) => Promise<void>;

/** Part of every key, so that `flushall` can forget them all. */
let generation = 0;

class RedisStandIn {
  readonly tollgate = new Tollgate({ url: process.env.TOLLGATE_URL ?? "", timeoutMs: 30_000 });
  #isOpen = true;

  /** A client that fails with the words of ioredis when it is closed. */
  readonly client = new Proxy(this.tollgate, {
    get: (target, method: keyof Tollgate) => {
      if (!this.#isOpen) throw new Error("Connection is closed.");
      return (target[method] as () => unknown).bind(target);
    },
  });

  flushall(): void {
    generation += 1;
  }

  async quit(): Promise<void> {
    this.#isOpen = false;
    await this.tollgate.close();
  }
}

function withOurStore(plugin: Plugin): Plugin {
  const wrapped: Plugin = (app, { redis, nameSpace = "", ...settings }) => {
    if (redis === undefined) return plugin(app, settings);
    const prefix = `${process.pid}:${generation}:${nameSpace}`;
    const store = tollgateStore({ client: redis.client, nameSpace: prefix });
    return plugin(app, { ...settings, store } as Settings);
  };
  // What fastify-plugin has attached to it.
  return Object.assign(wrapped, plugin);
}

const loader = Module as unknown as { _load: Load };
const load = loader._load.bind(loader);
loader._load = (request, ...rest) => {
  if (request === "ioredis") return RedisStandIn;
  const loaded = load(request, ...rest);
  return request === "../index" ? withOurStore(loaded as Plugin) : loaded;
};
