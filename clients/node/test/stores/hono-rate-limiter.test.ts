import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";

import { Hono } from "hono";
import { rateLimiter } from "hono-rate-limiter";

import { TollgateStore, tollgateBinding } from "../../src/stores/hono-rate-limiter.js";
import type { Tollgate } from "../../src/tollgate.js";
import { clientOfKilledService, countStatuses, sharedClient, uniqueName } from "./setup.js";

interface LimiterOptions {
  limit: number | (() => number);
  skipFailedRequests?: boolean;
}

const keyGenerator = (): string => "ann";

function appOf(store: TollgateStore, options: LimiterOptions): Hono {
  const app = new Hono();
  app.use(rateLimiter({ windowMs: 24 * 3600 * 1000, keyGenerator, ...options, store }));
  app.get("/", (c) => c.text("ok"));
  app.get("/fail", (c) => c.text("failed", 500));
  return app;
}

function storeOf(t: TestContext, name = uniqueName()): TollgateStore {
  return new TollgateStore({ client: sharedClient(t), name });
}

for (const limit of [20, () => 20]) {
  test(`two instances admit exactly a limit that is a ${typeof limit}`, async (t) => {
    const name = uniqueName();
    const apps = [appOf(storeOf(t, name), { limit }), appOf(storeOf(t, name), { limit })];

    const requests = Array.from({ length: 60 }, async (_, i) => apps[i % 2]!.request("/"));
    const statuses = (await Promise.all(requests)).map(({ status }) => status);
    assert.deepEqual(countStatuses(statuses), { 200: 20, 429: 40 });
  });
}

test("the headers tell what is left", async (t) => {
  const app = appOf(storeOf(t), { limit: 2 });
  assert.equal((await app.request("/")).headers.get("ratelimit-remaining"), "1");
  assert.equal((await app.request("/")).headers.get("ratelimit-remaining"), "0");

  const denied = await app.request("/");
  assert.equal(denied.status, 429);
  assert.ok(Number(denied.headers.get("retry-after")) > 0);
});

test("skipped requests give their hit back", async (t) => {
  const app = appOf(storeOf(t), { limit: 1, skipFailedRequests: true });
  const statuses = [];
  for (const path of ["/fail", "/fail", "/", "/"]) statuses.push((await app.request(path)).status);
  assert.deepEqual(statuses, [500, 500, 200, 429]);
});

test("an outage is an error, or follows the policy", async (t) => {
  t.mock.method(console, "error", () => undefined);
  const client = await clientOfKilledService(t);
  const statusOf = async (onUnavailable: "error" | "allow" | "deny") => {
    const store = new TollgateStore({ client, onUnavailable });
    return (await appOf(store, { limit: 1 }).request("/")).status;
  };
  assert.equal(await statusOf("error"), 500);
  assert.equal(await statusOf("allow"), 200);
  assert.equal(await statusOf("deny"), 429);
});

function bindingApp(client: Tollgate, name: string, onUnavailable?: "allow" | "deny"): Hono {
  const limit = {
    name,
    algorithm: "token_bucket" as const,
    capacity: 3,
    refillRate: "1/1d",
  };
  const policy = onUnavailable === undefined ? {} : { onUnavailable };
  const app = new Hono();
  app.use(rateLimiter({ binding: tollgateBinding({ client, limit, ...policy }), keyGenerator }));
  app.get("/", (c) => c.text("ok"));
  return app;
}

test("a binding takes a limit of any algorithm", async (t) => {
  const name = uniqueName();
  const apps = [bindingApp(sharedClient(t), name), bindingApp(sharedClient(t), name)];
  const requests = Array.from({ length: 12 }, async (_, i) => apps[i % 2]!.request("/"));
  const statuses = (await Promise.all(requests)).map(({ status }) => status);
  assert.deepEqual(countStatuses(statuses), { 200: 3, 429: 9 });
});

test("a binding in an outage", async (t) => {
  t.mock.method(console, "error", () => undefined);
  const client = await clientOfKilledService(t);
  assert.equal((await bindingApp(client, "outage").request("/")).status, 500);
  assert.equal((await bindingApp(client, "outage", "allow").request("/")).status, 200);
  assert.equal((await bindingApp(client, "outage", "deny").request("/")).status, 429);
});
