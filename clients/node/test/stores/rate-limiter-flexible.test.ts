import assert from "node:assert/strict";
import { test } from "node:test";

import {
  BurstyRateLimiter,
  RateLimiterMemory,
  RateLimiterQueue,
  RateLimiterRes,
  RateLimiterUnion,
  RLWrapperBlackAndWhite,
  RLWrapperTimeouts,
} from "rate-limiter-flexible";

import { assertWithin, denialOf, limiterOf } from "./flexible.js";
import { clientOfKilledService, sharedClient, uniqueName } from "./setup.js";

test("consumed points grow, also past the limit", async (t) => {
  const limiter = limiterOf(t);

  const first = await limiter.consume("ann");
  assertWithin(first.msBeforeNext, 1, 3_600_000);
  const { consumedPoints, remainingPoints, isFirstInDuration } = first;
  assert.deepEqual([consumedPoints, remainingPoints, isFirstInDuration], [1, 1, true]);

  const second = await limiter.consume("ann");
  assert.deepEqual([second.consumedPoints, second.isFirstInDuration], [2, false]);

  assert.equal((await denialOf(limiter.consume("ann"))).consumedPoints, 3);
  const denial = await denialOf(limiter.consume("ann", 5));
  assert.deepEqual([denial.consumedPoints, denial.remainingPoints], [8, 0]);
  assert.equal((await limiter.get("ann"))?.consumedPoints, 8);
});

test("two instances with one limit admit exactly the points", async (t) => {
  const options = { points: 50, name: uniqueName() };
  const limiters = [limiterOf(t, options), limiterOf(t, options)];

  const calls = Array.from({ length: 400 }, (_, i) => limiters[i % 2]!.consume("ann"));
  const results = await Promise.allSettled(calls);
  assert.equal(results.filter(({ status }) => status === "fulfilled").length, 50);
  for (const result of results) {
    if (result.status === "rejected") assert.ok(result.reason instanceof RateLimiterRes);
  }
});

test("an unused key is null", async (t) => {
  assert.equal(await limiterOf(t).get("ann"), null);
});

test("penalty and reward change the points and never deny", async (t) => {
  const limiter = limiterOf(t);
  assert.equal((await limiter.penalty("ann", 5)).consumedPoints, 5);

  const rewarded = await limiter.reward("ann", 4);
  assert.deepEqual([rewarded.consumedPoints, rewarded.remainingPoints], [1, 1]);
  assert.equal((await limiter.consume("ann")).consumedPoints, 2);
  assert.equal((await limiter.reward("ann", 100)).consumedPoints, 0);
});

test("a blocked key is denied until the block ends, and charged nothing", async (t) => {
  const limiter = limiterOf(t, { blockDuration: 7200 });
  await limiter.consume("ann", 2);
  assertWithin((await denialOf(limiter.consume("ann"))).msBeforeNext, 3_600_001, 7_200_000);

  const blocked = await denialOf(limiter.consume("ann"));
  assertWithin(blocked.msBeforeNext, 3_600_001, 7_200_000);
  assert.deepEqual([blocked.consumedPoints, blocked.remainingPoints], [3, 0]);

  const seen = await limiter.get("ann");
  assert.equal(seen?.consumedPoints, 3);
  assertWithin(seen.msBeforeNext, 3_600_001, 7_200_000);
});

test("keys are checked many times a millisecond without being blocked", async (t) => {
  const limiter = limiterOf(t, { points: 5000 });
  await Promise.all(Array.from({ length: 2000 }, () => limiter.consume("ann")));
  assert.equal((await limiter.get("ann"))?.consumedPoints, 2000);
});

test("a block by hand, longer and then shorter, and its end", async (t) => {
  const limiter = limiterOf(t);
  const blocked = await limiter.block("ann", 600);
  assert.deepEqual([blocked.msBeforeNext, blocked.consumedPoints], [600_000, 3]);
  assertWithin((await denialOf(limiter.consume("ann"))).msBeforeNext, 1, 600_000);

  await limiter.block("ann", 60);
  assertWithin((await denialOf(limiter.consume("ann"))).msBeforeNext, 1, 60_000);

  assert.equal(await limiter.delete("ann"), true);
  assert.equal((await limiter.consume("ann")).consumedPoints, 1);
});

test("delete says whether there was something to delete", async (t) => {
  const limiter = limiterOf(t);
  assert.equal(await limiter.delete("ann"), false);
  await limiter.consume("ann");
  assert.equal(await limiter.delete("ann"), true);
  assert.equal(await limiter.get("ann"), null);
});

test("set replaces the points", async (t) => {
  const limiter = limiterOf(t);
  await limiter.consume("ann", 2);
  await limiter.set("ann", 1, 3600);
  assert.equal((await limiter.consume("ann")).consumedPoints, 2);

  await limiter.set("ann", 10, 60);
  assertWithin((await denialOf(limiter.consume("ann"))).msBeforeNext, 1, 60_000);
});

test("a custom duration has a counter of its own", async (t) => {
  const limiter = limiterOf(t);
  const options = { customDuration: 60 };
  await limiter.consume("ann", 2, options);
  assertWithin((await denialOf(limiter.consume("ann", 1, options))).msBeforeNext, 1, 60_000);
  assert.equal((await limiter.consume("ann")).consumedPoints, 1);
});

test("key prefixes and names separate limiters", async (t) => {
  const storeClient = sharedClient(t);
  const name = uniqueName();
  const one = limiterOf(t, { storeClient, name, points: 1, keyPrefix: "one" });
  const two = limiterOf(t, { storeClient, name, points: 1, keyPrefix: "two" });
  await one.consume("ann");
  await two.consume("ann");
  await denialOf(one.consume("ann"));
});

test("the wrappers take it", async (t) => {
  const union = new RateLimiterUnion(
    limiterOf(t, { keyPrefix: "minute", points: 1 }),
    limiterOf(t, { keyPrefix: "hour", points: 5 }),
  );
  assert.deepEqual(Object.keys(await union.consume("ann")), ["minute", "hour"]);
  await assert.rejects(union.consume("ann"), (denials: Record<string, unknown>) => {
    return denials.minute instanceof RateLimiterRes && denials.hour === undefined;
  });

  const bursty = new BurstyRateLimiter(limiterOf(t, { points: 1 }), limiterOf(t, { points: 1 }));
  await bursty.consume("ann");
  await bursty.consume("ann");
  await denialOf(bursty.consume("ann"));

  const listed = new RLWrapperBlackAndWhite({
    limiter: limiterOf(t, { points: 1 }),
    whiteList: ["white"],
    blackList: ["black"],
  });
  await denialOf(listed.consume("black"));
  await listed.consume("white", 100);
  await listed.consume("ann");
  await denialOf(listed.consume("ann"));

  const timed = new RLWrapperTimeouts({ limiter: limiterOf(t, { points: 1 }), timeoutMs: 30_000 });
  await timed.consume("ann");
  await denialOf(timed.consume("ann"));

  const queue = new RateLimiterQueue(limiterOf(t, { points: 3 }));
  assert.equal(await queue.removeTokens(2), 1);
  assert.equal(await queue.getTokensRemaining(), 1);
});

test("an outage is an error, or what the insurance limiter says", async (t) => {
  const storeClient = await clientOfKilledService(t);
  const uninsured = limiterOf(t, { storeClient });
  for (const call of [
    uninsured.consume("ann"),
    uninsured.penalty("ann"),
    uninsured.reward("ann"),
    uninsured.get("ann"),
    uninsured.set("ann", 1, 1),
    uninsured.block("ann", 1),
    uninsured.delete("ann"),
  ]) {
    await assert.rejects(call, Error);
  }

  const insuranceLimiter = new RateLimiterMemory({ points: 1, duration: 3600 });
  const insured = limiterOf(t, { storeClient, insuranceLimiter, blockDuration: 600 });
  assert.equal(insuranceLimiter.blockDuration, 600);
  await insured.consume("ann");
  await denialOf(insured.consume("ann"));
  assert.equal(await insured.delete("ann"), true);
});

test("an outage follows a policy, if there is one", async (t) => {
  const storeClient = await clientOfKilledService(t);
  await limiterOf(t, { storeClient, onUnavailable: "allow" }).consume("ann");
  await denialOf(limiterOf(t, { storeClient, onUnavailable: "deny" }).consume("ann"));
});

test("a wrong request is an error, and not for the insurance limiter", async (t) => {
  const insuranceLimiter = new RateLimiterMemory({ points: 1, duration: 3600 });
  const limiter = limiterOf(t, { insuranceLimiter });
  await assert.rejects(limiter.consume("ann", 1.5), /whole number/);
});

test("it insures another limiter", async (t) => {
  const insuranceLimiter = limiterOf(t, { points: 1 });
  const storeClient = await clientOfKilledService(t);
  const limiter = limiterOf(t, { storeClient, insuranceLimiter, blockDuration: 60 });
  assert.equal(insuranceLimiter.blockDuration, 60);
  await limiter.consume("ann");
  await denialOf(limiter.consume("ann"));
});
