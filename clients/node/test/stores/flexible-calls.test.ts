// Blocks, the order of calls and the forms of points, as rate-limiter-flexible has them.
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";

import { RLWrapperBlackAndWhite } from "rate-limiter-flexible";

import type {
  RateLimiterTollgate,
  RateLimiterTollgateOptions,
} from "../../src/stores/rate-limiter-flexible.js";
import { open, skip } from "../support/native.js";
import { assertWithin, denialOf, limiterOf } from "./flexible.js";
import { uniqueName } from "./setup.js";

/** On the service, and in this process, where a check needs no promise. */
async function limitersOf(
  t: TestContext,
  options: Partial<RateLimiterTollgateOptions>,
): Promise<RateLimiterTollgate[]> {
  const limiters = [limiterOf(t, options)];
  if (skip === false) limiters.push(limiterOf(t, { ...options, storeClient: await open(t, {}) }));
  return limiters;
}

test("blocking a blocked key again never admits a call", async (t) => {
  for (const limiter of await limitersOf(t, { points: 1_000_000 })) {
    await limiter.block("ann", 3600);
    for (let round = 0; round < 20; round += 1) {
      // Longer, shorter and the same.
      const block = limiter.block("ann", 60 * (1 + ((round * 7) % 20)));
      const calls = Array.from({ length: 10 }, () => limiter.consume("ann"));
      const results = await Promise.allSettled(calls);
      await block;
      assert.ok(results.every(({ status }) => status === "rejected"));
    }

    await limiter.block("ann", 3600);
    await limiter.block("ann", 60);
    assertWithin((await denialOf(limiter.consume("ann"))).msBeforeNext, 1, 60_000);
    await Promise.all([30, 3600, 20, 10].map((sec) => limiter.block("ann", sec)));
    assertWithin((await denialOf(limiter.consume("ann"))).msBeforeNext, 1, 10_000);
  }
});

test("setting points never admits a call of another process", async (t) => {
  const clients = skip === false ? [undefined, await open(t, {})] : [undefined];
  for (const storeClient of clients) {
    const options = { points: 5, name: uniqueName(), ...(storeClient && { storeClient }) };
    const [limiter, other] = [limiterOf(t, options), limiterOf(t, options)];
    await limiter.consume("ann", 5);
    for (let round = 0; round < 20; round += 1) {
      const set = limiter.set("ann", 5, 60);
      const calls = Array.from({ length: 10 }, () => other.consume("ann"));
      const results = await Promise.allSettled(calls);
      await set;
      assert.ok(results.every(({ status }) => status === "rejected"), `round ${round}`);
    }
    assert.ok(((await limiter.get("ann"))?.msBeforeNext ?? 0) > 5_000, "it is not blocked");
  }
});

test("calls that are not awaited keep their order", async (t) => {
  for (const limiter of await limitersOf(t, { points: 5 })) {
    void limiter.block("ann", 60);
    await denialOf(limiter.consume("ann"));
    void limiter.delete("ann");
    assert.equal((await limiter.consume("ann", 2)).consumedPoints, 2);
    void limiter.set("ann", 4, 60);
    assert.equal((await limiter.penalty("ann")).consumedPoints, 5);
    void limiter.reward("ann", 3);
    assert.equal((await limiter.get("ann"))?.consumedPoints, 2);

    const isBlackListed = () => true;
    const wrapped = new RLWrapperBlackAndWhite({ limiter, isBlackListed, runActionAnyway: true });
    await wrapped.block("bob", 30);
    assertWithin((await wrapped.get("bob"))?.msBeforeNext ?? 0, 1_000, 30_000);
    await wrapped.penalty("eve", 1);
    assert.equal((await wrapped.get("eve"))?.consumedPoints, 1);
  }
});

test("points may be written as text, as in the original", async (t) => {
  const limiter = limiterOf(t, { points: 10 });
  assert.equal((await limiter.consume("ann", "2")).consumedPoints, 2);
  assert.equal((await limiter.penalty("ann", "3")).consumedPoints, 5);
  for (const wrong of ["0", "-1", "1.5", "2x", "", 1.5, NaN, null, ["2"], {}, 2 ** 53]) {
    await assert.rejects(limiter.consume("ann", wrong as never), /points must be a whole number/);
    await assert.rejects(limiter.penalty("ann", wrong as never), /points must be a whole number/);
  }
  assert.equal((await limiter.get("ann"))?.consumedPoints, 5);
});

test("a block for ever is told as in the original", async (t) => {
  const limiter = limiterOf(t);
  const blocked = await limiter.block("ann", 0);
  assert.deepEqual([blocked.msBeforeNext, blocked.consumedPoints], [-1, 3]);
  const found = await limiter.get("ann");
  assert.deepEqual([found?.msBeforeNext, found?.consumedPoints], [-1, 3]);
  assert.equal((await denialOf(limiter.consume("ann"))).msBeforeNext, -1);
  await limiter.block("ann", 60);
  assertWithin((await limiter.get("ann"))?.msBeforeNext ?? 0, 1, 60_000);
});
