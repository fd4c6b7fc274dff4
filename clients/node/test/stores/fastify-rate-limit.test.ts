import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";

import rateLimit, { type RateLimitPluginOptions } from "@fastify/rate-limit";
import Fastify, { type FastifyInstance } from "fastify";

import { tollgateStore, type TollgateStoreOptions } from "../../src/stores/fastify-rate-limit.js";
import { clientOfKilledService, countStatuses, sharedClient, uniqueName } from "./setup.js";

const DAY_MS = 24 * 3600 * 1000;

async function appOf(
  t: TestContext,
  options: RateLimitPluginOptions,
  store: Partial<TollgateStoreOptions> = {},
): Promise<FastifyInstance> {
  const app = Fastify();
  t.after(() => app.close());
  const client = store.client ?? sharedClient(t);
  await app.register(rateLimit, {
    timeWindow: DAY_MS,
    store: tollgateStore({ name: uniqueName(), ...store, client }),
    ...options,
  });
  return app;
}

async function helloApp(...args: Parameters<typeof appOf>): Promise<FastifyInstance> {
  const app = await appOf(...args);
  app.get("/", () => "ok");
  return app;
}

async function statusesOf(app: FastifyInstance, paths: string[]): Promise<number[]> {
  const statuses = [];
  for (const path of paths) statuses.push((await app.inject(path)).statusCode);
  return statuses;
}

const rows: [string, RateLimitPluginOptions][] = [
  ["decided by the service", { max: 20 }],
  ["with a function", { max: () => 20 }],
  ["with a ban", { max: 20, ban: 1000 }],
  ["with continueExceeding", { max: 20, continueExceeding: true }],
];
for (const [what, options] of rows) {
  test(`two instances admit exactly the limit: ${what}`, async (t) => {
    const name = uniqueName();
    const apps = [await helloApp(t, options, { name }), await helloApp(t, options, { name })];

    const requests = Array.from({ length: 60 }, (_, i) => apps[i % 2]!.inject("/"));
    const statuses = (await Promise.all(requests)).map(({ statusCode }) => statusCode);
    assert.deepEqual(countStatuses(statuses), { 200: 20, 429: 40 });
  });
}

test("the headers tell what is left", async (t) => {
  const app = await helloApp(t, { max: 2, timeWindow: 60_000 });
  const { headers } = await app.inject("/");
  assert.equal(headers["x-ratelimit-limit"], "2");
  assert.equal(headers["x-ratelimit-remaining"], "1");
  assert.equal(headers["x-ratelimit-reset"], "60");

  assert.equal((await app.inject("/")).headers["x-ratelimit-remaining"], "0");
  const denied = await app.inject("/");
  assert.equal(denied.statusCode, 429);
  assert.equal(denied.headers["x-ratelimit-remaining"], "0");
  assert.ok(Number(denied.headers["retry-after"]) <= 60);
});

test("a ban follows requests beyond the limit", async (t) => {
  const app = await helloApp(t, { max: 1, ban: 2 });
  assert.deepEqual(await statusesOf(app, ["/", "/", "/", "/", "/"]), [200, 429, 429, 403, 403]);
});

test("exponential backoff doubles the wait with each denied request", async (t) => {
  const app = await helloApp(t, { max: 1, timeWindow: 60_000, exponentialBackoff: true });
  await app.inject("/");
  for (const seconds of ["60", "120", "240"]) {
    assert.equal((await app.inject("/")).headers["retry-after"], seconds);
  }
});

test("continueExceeding starts the window again with each denied request", async (t) => {
  const app = await helloApp(t, { max: 1, ban: 2, timeWindow: 60_000, continueExceeding: true });
  await app.inject("/");
  for (const status of [429, 429, 403]) {
    const denied = await app.inject("/");
    assert.equal(denied.statusCode, status);
    assert.equal(denied.headers["retry-after"], "60");
  }
});

test("routes have counters of their own, and groups share one", async (t) => {
  const app = await appOf(t, { max: 1 });
  const route = (url: string, groupId?: string) => {
    const group = groupId === undefined ? {} : { groupId };
    app.get(url, { config: { rateLimit: { max: 1, ...group } } }, () => "ok");
  };
  route("/a");
  route("/b");
  route("/send", "otp");
  route("/resend", "otp");

  const paths = ["/a", "/b", "/a", "/send", "/resend"];
  assert.deepEqual(await statusesOf(app, paths), [200, 200, 429, 200, 429]);
});

test("a limiter can be read without counting", async (t) => {
  const app = await appOf(t, { global: false, max: 2 });
  const limiter = app.createRateLimit();
  app.get("/read", (request) => limiter(request, { increment: false }));
  app.get("/count", (request) => limiter(request));

  const remaining = [];
  for (const path of ["/read", "/count", "/read", "/count", "/read"]) {
    const response = await app.inject(path);
    remaining.push(response.json<{ remaining: number }>().remaining);
  }
  assert.deepEqual(remaining, [2, 1, 1, 0, 0]);
});

test("the status of the service's error is not that of the response", async (t) => {
  const app = await helloApp(t, { max: 1 }, { name: "not a name" });
  assert.equal((await app.inject("/")).statusCode, 500);
});

test("an outage is an error, unless the options say otherwise", async (t) => {
  const client = await clientOfKilledService(t);
  const statusOf = async (
    options: RateLimitPluginOptions,
    onUnavailable: "error" | "allow" | "deny" = "error",
  ) => (await (await helloApp(t, options, { client, onUnavailable })).inject("/")).statusCode;

  assert.equal(await statusOf({ max: 1 }), 500);
  assert.equal(await statusOf({ max: 1, ban: 1, continueExceeding: true }), 500);
  assert.equal(await statusOf({ max: 1, skipOnError: true }), 200);
  assert.equal(await statusOf({ max: 1 }, "allow"), 200);
  assert.equal(await statusOf({ max: 1 }, "deny"), 429);
});
