import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";

import express from "express";
import { type Options, rateLimit } from "express-rate-limit";

import { TollgateStore, type TollgateStoreOptions } from "../../src/stores/express-rate-limit.js";
import {
  addressOf,
  clientOfKilledService,
  countStatuses,
  sharedClient,
  uniqueName,
} from "./setup.js";

interface App {
  url: string;
  /** What express-rate-limit has found wrong with the store or the options. */
  complaints: unknown[];
  get(path?: string): Promise<Response>;
  resetKey(key: string): Promise<void>;
}

/** An application with one limiter. `/fail` answers 500. */
async function startApp(
  t: TestContext,
  store: Partial<TollgateStoreOptions>,
  options: Partial<Options>,
): Promise<App> {
  const complaints: unknown[] = [];
  const log = (...args: unknown[]): void => {
    complaints.push(...args);
  };
  const client = store.client ?? sharedClient(t);
  const limiter = rateLimit({
    windowMs: 60_000,
    standardHeaders: "draft-8",
    store: new TollgateStore({ name: uniqueName(), ...store, client }),
    logger: { error: log, warn: log },
    ...options,
  });

  const app = express();
  app.set("env", "test");
  app.use(limiter);
  app.get("/fail", (_request, response) => void response.sendStatus(500));
  app.get("/", (_request, response) => void response.send("ok"));
  const url = await addressOf(t, app.listen(0, "127.0.0.1"));
  const get = (path = "/"): Promise<Response> => fetch(`${url}${path}`);
  // The type of express-rate-limit hides that this is the promise of the store.
  const resetKey = limiter.resetKey as (key: string) => Promise<void>;
  return { url, complaints, get, resetKey };
}

test("requests beyond the limit are denied, and the headers say so", async (t) => {
  const app = await startApp(t, {}, { limit: 2 });

  const first = await app.get();
  assert.equal(first.status, 200);
  assert.equal(first.headers.get("x-ratelimit-remaining"), "1");
  assert.match(first.headers.get("ratelimit") ?? "", /^"2-in-1min"; r=1; t=60$/);

  assert.equal((await app.get()).headers.get("x-ratelimit-remaining"), "0");

  const denied = await app.get();
  assert.equal(denied.status, 429);
  assert.equal(denied.headers.get("x-ratelimit-remaining"), "0");
  const retryAfter = Number(denied.headers.get("retry-after"));
  assert.ok(retryAfter > 0 && retryAfter <= 60, `retry-after: ${retryAfter}`);
  assert.deepEqual(app.complaints, []);
});

const algorithms = ["fixed_window", "sliding_window", "sliding_log", "token_bucket"] as const;
for (const algorithm of algorithms) {
  test(`two instances with one limit admit exactly the limit: ${algorithm}`, async (t) => {
    // A window that no machine is slow enough to see the end of, or a refill of.
    const options = { limit: 50, windowMs: 24 * 3600 * 1000 };
    const name = uniqueName();
    const apps = await Promise.all([
      startApp(t, { name, algorithm }, options),
      startApp(t, { name, algorithm }, options),
    ]);

    const requests = Array.from({ length: 200 }, (_, i) => apps[i % 2]!.get());
    const statuses = (await Promise.all(requests)).map(({ status }) => status);

    assert.deepEqual(countStatuses(statuses), { 200: 50, 429: 150 });
    assert.deepEqual(apps.flatMap(({ complaints }) => complaints), []);
  });
}

test("a limit by function is compared with a count that the instances share", async (t) => {
  const name = uniqueName();
  const options = {
    limit: (request: { query: unknown }) => Number((request.query as { limit: string }).limit),
  };
  const apps = await Promise.all([startApp(t, { name }, options), startApp(t, { name }, options)]);

  const statusOf = async (app: App, limit: number) => (await app.get(`/?limit=${limit}`)).status;
  assert.equal(await statusOf(apps[0], 1), 200);
  assert.equal(await statusOf(apps[1], 1), 429);
  assert.equal(await statusOf(apps[1], 3), 200);
  assert.equal(await statusOf(apps[0], 3), 429);
  assert.deepEqual(apps.flatMap(({ complaints }) => complaints), []);
});

test("a limit by function admits exactly the limit at once", async (t) => {
  const name = uniqueName();
  const options = { limit: () => Promise.resolve(30), windowMs: 24 * 3600 * 1000 };
  const apps = await Promise.all([startApp(t, { name }, options), startApp(t, { name }, options)]);

  const requests = Array.from({ length: 100 }, (_, i) => apps[i % 2]!.get());
  const statuses = (await Promise.all(requests)).map(({ status }) => status);
  assert.deepEqual(countStatuses(statuses), { 200: 30, 429: 70 });
});

test("a limit of 0 denies everything", async (t) => {
  const app = await startApp(t, {}, { limit: 0 });
  assert.equal((await app.get()).status, 429);
});

test("skipped requests give their hit back, and denied ones no more than theirs", async (t) => {
  const store = new TollgateStore({ client: sharedClient(t), name: uniqueName() });
  const decrements: string[] = [];
  const decrement = store.decrement.bind(store);
  let decremented = Promise.resolve();
  store.decrement = (key) => {
    decrements.push(key);
    return (decremented = decrement(key));
  };
  const app = await startApp(t, {}, { limit: 2, skipFailedRequests: true, store });

  // The response arrives before the hit is taken back.
  const settled = async (path: string, count: number) => {
    const { status } = await app.get(path);
    while (decrements.length < count) await new Promise(setImmediate);
    await decremented;
    return status;
  };
  assert.equal(await settled("/fail", 1), 500);
  assert.equal(await settled("/fail", 2), 500);
  assert.equal(await settled("/", 2), 200);
  assert.equal(await settled("/", 2), 200);
  assert.equal(await settled("/", 3), 429);
  assert.equal(await settled("/", 4), 429);
  assert.deepEqual(app.complaints, []);
});

test("a reset key starts again", async (t) => {
  const app = await startApp(t, {}, { limit: 1, keyGenerator: () => "ann" });
  assert.deepEqual([(await app.get()).status, (await app.get()).status], [200, 429]);

  await app.resetKey("ann");
  assert.equal((await app.get()).status, 200);
});

test("the store counts, reads, decrements and resets a key", async (t) => {
  const store = new TollgateStore({ client: sharedClient(t), name: uniqueName() });
  store.init({ windowMs: 60_000 });

  assert.equal(await store.get("ann"), undefined);
  for (const hits of [1, 2, 3]) assert.equal((await store.increment("ann")).totalHits, hits);
  assert.equal((await store.increment("bob")).totalHits, 1);

  await store.decrement("ann");
  const before = Date.now();
  const info = await store.get("ann");
  assert.equal(info?.totalHits, 2);
  assert.ok(info.resetTime instanceof Date);
  assert.ok(info.resetTime.getTime() <= before + 60_000 + (Date.now() - before));

  await store.decrement("bob");
  await store.decrement("bob");
  assert.equal((await store.increment("bob")).totalHits, 1);

  await store.resetKey("ann");
  assert.equal(await store.get("ann"), undefined);
  assert.equal((await store.increment("ann")).totalHits, 1);
});

test("a new window starts with no hits", async (t) => {
  const store = new TollgateStore({ client: sharedClient(t), name: uniqueName() });
  store.init({ windowMs: 1 });

  const first = await store.increment("ann");
  while (Date.now() <= first.resetTime.getTime() + 1) await new Promise(setImmediate);
  assert.equal((await store.increment("ann")).totalHits, 1);
});

test("any text is a key: long, empty or not Unicode", async (t) => {
  const store = new TollgateStore({ client: sharedClient(t), name: uniqueName() });
  store.init({ windowMs: 60_000, limit: 10 });

  const long = "x".repeat(5000);
  for (const key of [long, `${long}y`, "", "\ud800", "ключ ✓"]) {
    assert.equal((await store.increment(key)).totalHits, 1, key.slice(0, 10));
    assert.equal((await store.increment(key)).totalHits, 2, key.slice(0, 10));
  }
});

test("a bucket cannot count without a limit, and says what can", async (t) => {
  const client = sharedClient(t);
  const store = new TollgateStore({ client, algorithm: "token_bucket" });
  store.init({ windowMs: 60_000, limit: () => 5 });
  await assert.rejects(store.increment("ann"), /token_bucket.*use fixed_window or sliding_window/);
});

test("the status of the service's error is not that of the response", async (t) => {
  t.mock.method(console, "error", () => undefined);
  const app = await startApp(t, { name: "not a name" }, { limit: 1 });
  assert.equal((await app.get()).status, 500);
});

test("while the service is unavailable, the application decides", async (t) => {
  const client = await clientOfKilledService(t);
  t.mock.method(console, "error", () => undefined);

  const rows = [
    { expected: 500, store: {}, options: {} },
    { expected: 200, store: {}, options: { passOnStoreError: true } },
    { expected: 200, store: { onUnavailable: "allow" as const }, options: {} },
    { expected: 429, store: { onUnavailable: "deny" as const }, options: {} },
    { expected: 429, store: { onUnavailable: "deny" as const }, options: { limit: () => 9 } },
  ];
  for (const { expected, store, options } of rows) {
    const app = await startApp(t, { client, ...store }, { limit: 5, ...options });
    assert.equal((await app.get()).status, expected, JSON.stringify({ store, options }));
  }
});

test("a key whose hits were all taken back has none", async (t) => {
  for (const algorithm of ["fixed_window", "sliding_window"] as const) {
    const store = new TollgateStore({ client: sharedClient(t), name: uniqueName(), algorithm });
    store.init({ windowMs: 60_000, limit: 5 });
    assert.equal(await store.get("ann"), undefined);
    await store.increment("ann");
    assert.equal((await store.get("ann"))?.totalHits, 1);
    await store.decrement("ann");
    // A sliding window does not know whether there were hits.
    const hits = algorithm === "fixed_window" ? 0 : undefined;
    assert.equal((await store.get("ann"))?.totalHits, hits);
    await store.resetKey("ann");
    assert.equal(await store.get("ann"), undefined);
  }
});
