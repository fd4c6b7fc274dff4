/** Wrong options are found where they are written, before any request. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { tollgate as express } from "../src/adapters/express.js";
import { tollgate as hono } from "../src/adapters/hono.js";
import { tollgate as koa } from "../src/adapters/koa.js";
import { TollgateModule } from "../src/adapters/nest.js";
import { limitAction, tollgateProxy, withTollgate } from "../src/adapters/next.js";
import { Tollgate } from "../src/index.js";
import type { Engine } from "../src/engine.js";
import { TollgateStore } from "../src/stores/express-rate-limit.js";
import { tollgateStore } from "../src/stores/fastify-rate-limit.js";
import { tollgateBinding, TollgateStore as HonoStore } from "../src/stores/hono-rate-limiter.js";
import { TollgateThrottlerStorage } from "../src/stores/nestjs-throttler.js";
import { RateLimiterTollgate } from "../src/stores/rate-limiter-flexible.js";
import { Ratelimit } from "../src/stores/upstash.js";
import { createTestLimiter } from "../src/testing.js";
import { startFaultyService } from "./support/faulty-service.js";
import { open, skip } from "./support/native.js";
import { startService } from "./support/service.js";
import { until } from "./support/wait.js";

const engine: Engine = {
  send: () => Promise.reject(new Error("not part of this test")),
  close: () => Promise.resolve(),
};
const client = new Tollgate({ engine });
const API = { name: "api", algorithm: "fixed_window", limit: 5, window: "1h" } as const;

/** Everything that takes options, with options that are right. */
const PLACES: Record<string, [make: (options: never) => unknown, right: object]> = {
  "new Tollgate": [(options) => new Tollgate(options), { url: "http://127.0.0.1:1" }],
  "Tollgate.inProcess": [(options) => Tollgate.inProcess(options), { limits: [API] }],
  createTestLimiter: [(options) => createTestLimiter(options), { limits: [API] }],
  express: [(options) => express(options), { client, limits: API.name }],
  hono: [(options) => hono(options), { client, limits: API.name }],
  koa: [(options) => koa(options), { client, limits: API.name }],
  nest: [(options) => TollgateModule.forRoot(options), { client, limits: API.name }],
  "next proxy": [(options) => tollgateProxy(options), { client, limits: API.name }],
  "next route": [(options) => withTollgate(options, () => new Response()), { client, limits: "a" }],
  "next action": [
    (options) => limitAction(options, () => Promise.resolve()),
    { client, limits: "a" },
  ],
  "express-rate-limit": [(options) => new TollgateStore(options), { client }],
  "hono-rate-limiter": [(options) => new HonoStore(options), { client }],
  "hono binding": [(options) => tollgateBinding(options), { client, limit: "a" }],
  "@fastify/rate-limit": [(options) => tollgateStore(options), { client }],
  "@nestjs/throttler": [(options) => new TollgateThrottlerStorage(options), { client }],
  "rate-limiter-flexible": [
    (options) => new RateLimiterTollgate(options),
    { storeClient: client, points: 1, duration: 1 },
  ],
  upstash: [
    (options) => new Ratelimit(options),
    { client, limiter: Ratelimit.fixedWindow(1, "1 s") },
  ],
};

for (const [place, [make, right]] of Object.entries(PLACES)) {
  test(`an unknown option of ${place} is an error with a suggestion`, async () => {
    const made = (options: unknown): Promise<unknown> =>
      Promise.resolve().then(() => make(options as never));
    for (const name of Object.keys(right)) {
      const typo = `${name.slice(0, -1)}${name.at(-1) === "x" ? "y" : "x"}`;
      await assert.rejects(made({ ...right, [typo]: 1 }), /unknown option .* did you mean/, name);
    }
    for (const value of [1, undefined, null]) {
      const nonsense = made({ ...right, nonsense: value });
      await assert.rejects(nonsense, /option "nonsense"; expected one of/);
    }
    for (const nothing of [undefined, null, "api", []]) {
      await assert.rejects(made(nothing), /must be an object with/);
    }
  });
}

test("an unknown option is an error whatever its value", async () => {
  const redisUrl = process.env.NO_SUCH_VARIABLE;
  const options = { redisUrl, limits: [API] } as object;
  await assert.rejects(Tollgate.inProcess(options), /"redisUrl"; did you mean "redis"\?/);
  const limits = [{ ...API, onStoreFailures: undefined }];
  assert.throws(() => new Tollgate({ url: "http://127.0.0.1:1", limits }), /mean "onStoreFailure"/);
  await assert.rejects(client.check("api", "ann", { cots: undefined } as object), /mean "cost"/);
});

test("options of other libraries get their name here", () => {
  const guard = (options: object) => () => express({ client, limits: "api", ...options });
  const entry = (options: object) => guard({ limits: [{ limit: "api", ...options }] });
  assert.throws(guard({ keyGenerator: () => "" }), /did you mean the "key" of an entry of "lim/);
  assert.throws(guard({ windowMs: 1 }), /did you mean the "window" of a limit in "limits"\?/);
  assert.throws(guard({ max: 1 }), /did you mean the "limit" of a limit in "limits"\?/);
  assert.throws(guard({ handler: () => 1 }), /did you mean "onDenied"\?/);
  assert.throws(guard({ clientAddress: { trustProxy: 1 } }), /did you mean "trustedProxies"\?/);
  assert.throws(entry({ keyGenerator: () => "" }), /did you mean "key"\?/);
  assert.throws(entry({ max: 5 }), /did you mean "limit"\?/);
  assert.throws(guard({ limits: [API] }), /write \{ limit: \{"name":"api"/);
  assert.throws(guard({ limits: { limit: { ...API, windowMs: 1 } } }), /did you mean "window"\?/);
  assert.throws(guard({ limits: { limit: "api", key: "ann" } }), /key must be a function/);
  const ignored = ["customIncrTtlLuaScript", "rejectIfRedisNotReady", "inMemoryBlockDuration"];
  for (const option of ignored) {
    const options = { storeClient: client, points: 1, duration: 1, [option]: 1 };
    assert.throws(() => new RateLimiterTollgate(options), new RegExp(`unknown option "${option}"`));
  }
});

test("limits that are not a list are an error", async () => {
  for (const limits of [null, "api", {}, 5]) {
    const options = { url: "http://127.0.0.1:1", limits: limits as never };
    assert.throws(() => new Tollgate(options), /limits must be a list of limits, but it is/);
    const message = /limits must be a list of limits, but it is/;
    await assert.rejects(Tollgate.inProcess({ limits: limits as never }), message);
  }
  for (const limits of [null, undefined, 5]) {
    const guard = () => express({ client, limits: limits as never });
    assert.throws(guard, /an entry of `limits` must be an object/);
    const module = () => TollgateModule.forRoot({ client, limits: limits as never });
    assert.throws(module, /`limits` must be/);
  }
  await assert.rejects(Tollgate.inProcess({ redis: "" }), /redis must be the address of a server/);
  await assert.rejects(Tollgate.inProcess({ redis: null as never }), /redis must be the address/);
});

test("an option of a call that is not known is an error", async () => {
  const wrong = { cots: 5 } as object;
  await assert.rejects(client.check("api", "ann", wrong), /"cots"; did you mean "cost"\?/);
  assert.throws(() => client.tryCheck("api", "ann", wrong), /did you mean "cost"/);
  const demand = { limit: "api", key: "ann", ...wrong };
  await assert.rejects(client.check([demand]), /a demand: unknown option "cots"/);
  assert.throws(() => client.tryCheck([demand]), /a demand: unknown option "cots"/);
});

test("in process, an unknown limit is found when a guard is built", { skip }, async (t) => {
  const limiter = await open(t, { limits: [API] });
  const guard = (limits: string) => () => express({ client: limiter, limits });
  assert.doesNotThrow(guard("api"));
  assert.throws(guard("aip"), { code: "unknown-limit", message: /"aip"; did you mean "api"\?/ });
  assert.throws(guard("login"), /unknown limit "login"; configured limits: api/);
  assert.throws(() => tollgateBinding({ client: limiter, limit: "aip" }), /did you mean "api"/);

  const { limiter: tested } = await createTestLimiter({ limits: [API] });
  assert.throws(() => express({ client: tested, limits: "aip" }), /did you mean "api"/);
  await tested.close();
});

test("over HTTP, a limit that does not exist is told when the service answers", async (t) => {
  const limits = [{ ...API, key: ["user"] }];
  const service = await startService(t, { config: { limits } });
  const told: string[] = [];
  const onWarning = (message: string): void => void told.push(message);
  const limiter = new Tollgate({ url: service.url, timeoutMs: 30_000, onWarning });
  t.after(() => limiter.close());
  express({ client: limiter, limits: "api" });
  express({ client: limiter, limits: "aip" });
  await until("a warning", () => told[0]);
  assert.match(told.join(), /unknown limit "aip"; did you mean "api"\?: requests that ask it fail/);
  assert.equal(told.length, 1);

  // A service that is something else is not asked for ever.
  let asked = 0;
  const url = await startFaultyService(t, ({ answerAll }) => {
    asked += 1;
    answerAll(422, { code: "unknown-operation", detail: "unknown" });
  });
  const other = new Tollgate({ url, timeoutMs: 30_000, onWarning });
  t.after(() => other.close());
  for (const key of ["a", "b"]) await assert.rejects(other.check("api", key), { status: 422 });
  assert.equal(asked, 2);
});
