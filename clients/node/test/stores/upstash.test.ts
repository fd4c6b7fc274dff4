import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { type TestContext, test } from "node:test";

import { Ratelimit as Original } from "@upstash/ratelimit";

import { Ratelimit, type RatelimitConfig } from "../../src/stores/upstash.js";
import { clientOf, clientOfKilledService, sharedClient, uniqueName } from "./setup.js";

function ratelimitOf(t: TestContext, config: Partial<RatelimitConfig> = {}): Ratelimit {
  return new Ratelimit({
    limiter: Ratelimit.fixedWindow(2, "1 h"),
    name: uniqueName(),
    ...config,
    client: config.client ?? sharedClient(t),
  });
}

test("it has the methods of the original", () => {
  const statics = ["fixedWindow", "slidingWindow", "tokenBucket", "cachedFixedWindow"] as const;
  for (const name of statics) {
    assert.equal(typeof Original[name], "function");
    assert.equal(typeof Ratelimit[name], "function");
  }

  const original = new Original({ redis: {} as never, limiter: Original.fixedWindow(1, "1 s") });
  const ours = new Ratelimit({ client: {} as never, limiter: Ratelimit.fixedWindow(1, "1 s") });
  const internal = ["limiter", "getRatelimitResponse", "applyTimeout", "submitAnalytics", "getKey"];
  internal.push("getDefinedMembers");
  for (const [name, value] of Object.entries(original)) {
    if (typeof value !== "function" || internal.includes(name)) continue;
    assert.equal(typeof (ours as unknown as Record<string, unknown>)[name], "function", name);
  }
});

for (const [name, limiter] of Object.entries({
  fixedWindow: Ratelimit.fixedWindow(3, "1 d"),
  slidingWindow: Ratelimit.slidingWindow(3, "1d"),
  tokenBucket: Ratelimit.tokenBucket(1, "1 d", 3),
  cachedFixedWindow: Ratelimit.cachedFixedWindow(3, "1 d"),
})) {
  test(`two instances of ${name} admit exactly the limit`, async (t) => {
    const config = { limiter, name: uniqueName(), ephemeralCache: false as const };
    const instances = [ratelimitOf(t, config), ratelimitOf(t, config)];

    const calls = Array.from({ length: 20 }, (_, i) => instances[i % 2]!.limit("ann"));
    const responses = await Promise.all(calls);
    assert.equal(responses.filter(({ success }) => success).length, 3);
    assert.ok(responses.every((response) => response.limit === 3));
  });
}

test("a response tells what is left and when it resets", async (t) => {
  const { limit } = ratelimitOf(t);
  const before = Date.now();
  const response = await limit("ann");
  assert.deepEqual([response.success, response.limit, response.remaining], [true, 2, 1]);
  assert.ok(response.reset > before && response.reset <= Date.now() + 3_600_000);
  assert.equal(response.reason, undefined);
  await response.pending;
});

test("a rate charges more, and a negative one gives back", async (t) => {
  const ratelimit = ratelimitOf(t, { limiter: Ratelimit.slidingWindow(10, "1 h") });
  assert.equal((await ratelimit.limit("ann", { rate: 8 })).remaining, 2);
  assert.equal((await ratelimit.limit("ann", { rate: 3 })).success, false);
  assert.equal((await ratelimit.getRemaining("ann")).remaining, 2);

  const refunded = await ratelimit.limit("ann", { rate: -5 });
  assert.deepEqual([refunded.success, refunded.remaining], [true, 7]);
  assert.equal((await ratelimit.limit("ann", { rate: 7 })).success, true);
});

test("denied identifiers are remembered, and forgotten by a refund", async (t) => {
  const ratelimit = ratelimitOf(t, { limiter: Ratelimit.fixedWindow(1, "1 h") });
  await ratelimit.limit("ann");
  assert.equal((await ratelimit.limit("ann")).reason, undefined);

  const cached = await ratelimit.limit("ann");
  assert.deepEqual([cached.success, cached.reason], [false, "cacheBlock"]);
  assert.ok(cached.reset > Date.now());

  await ratelimit.limit("ann", { rate: -1 });
  assert.equal((await ratelimit.limit("ann")).success, true);
});

test("used tokens are reset", async (t) => {
  const ratelimit = ratelimitOf(t, { limiter: Ratelimit.fixedWindow(1, "1 h") });
  await ratelimit.limit("ann");
  await ratelimit.limit("ann");
  await ratelimit.resetUsedTokens("ann");
  assert.deepEqual((await ratelimit.getRemaining("ann")).remaining, 1);
  assert.equal((await ratelimit.limit("ann")).success, true);
});

test("a dynamic limit applies to all instances", async (t) => {
  const config = { name: uniqueName(), dynamicLimits: true, ephemeralCache: false as const };
  const one = ratelimitOf(t, config);
  const two = ratelimitOf(t, config);
  assert.deepEqual(await one.getDynamicLimit(), { dynamicLimit: null });

  await one.setDynamicLimit({ limit: 5 });
  assert.deepEqual(await two.getDynamicLimit(), { dynamicLimit: 5 });
  const response = await two.limit("ann");
  assert.deepEqual([response.limit, response.remaining], [5, 4]);

  await two.setDynamicLimit({ limit: 0 });
  assert.equal((await one.limit("ann")).success, false);
  assert.equal((await one.getRemaining("ann")).limit, 0);

  await one.setDynamicLimit({ limit: false });
  assert.equal((await two.limit("ann")).limit, 2);
});

test("a dynamic limit needs its option", async (t) => {
  await assert.rejects(ratelimitOf(t).setDynamicLimit({ limit: 1 }), /dynamicLimits: true/);
  await assert.rejects(ratelimitOf(t).getDynamicLimit(), /dynamicLimits: true/);
});

test("blockUntilReady waits for the next unit", async (t) => {
  const limiter = Ratelimit.tokenBucket(1, "1 ms", 1);
  const ratelimit = ratelimitOf(t, { limiter });
  assert.equal((await ratelimit.blockUntilReady("ann", 30_000)).success, true);
  assert.equal((await ratelimit.blockUntilReady("ann", 30_000)).success, true);
});

test("blockUntilReady ends with its timeout", async (t) => {
  const ratelimit = ratelimitOf(t, { limiter: Ratelimit.fixedWindow(1, "1 h") });
  await ratelimit.limit("ann");
  assert.equal((await ratelimit.blockUntilReady("ann", 1)).success, false);
  await assert.rejects(ratelimit.blockUntilReady("ann", 0), /positive/);
});

test("after the timeout, requests pass", async (t) => {
  const silent = createServer(() => undefined).listen(0, "127.0.0.1");
  await once(silent, "listening");
  t.after(() => silent.close());
  const { port } = silent.address() as { port: number };
  const client = clientOf(t, { url: `http://127.0.0.1:${port}` });

  const expected = { success: true, limit: 0, remaining: 0, reset: 0, reason: "timeout" };
  const { pending, ...response } = await ratelimitOf(t, { client, timeout: 1 }).limit("ann");
  assert.deepEqual(response, expected);
  await pending;
});

test("an outage follows the options", async (t) => {
  const client = await clientOfKilledService(t);
  assert.equal((await ratelimitOf(t, { client }).limit("ann")).reason, "timeout");
  await assert.rejects(ratelimitOf(t, { client, timeout: 0 }).limit("ann"), /unavailable/);
  await assert.rejects(ratelimitOf(t, { client, onUnavailable: "error" }).limit("ann"));

  const denied = await ratelimitOf(t, { client, onUnavailable: "deny" }).limit("ann");
  assert.deepEqual([denied.success, denied.reason], [false, "timeout"]);
});

test("options that cannot be honoured are errors", (t) => {
  for (const option of ["redis", "enableProtection"]) {
    assert.throws(() => ratelimitOf(t, { [option]: true }), new RegExp(option));
  }
  assert.throws(() => Ratelimit.fixedWindow(1, "10 years" as never), /invalid duration/);
});
