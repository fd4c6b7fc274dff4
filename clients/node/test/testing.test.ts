import assert from "node:assert/strict";
import { test } from "node:test";
import { createTestLimiter } from "../src/testing.js";
import { skip } from "./support/native.js";

test("time passes when the test says so", { skip }, async (context) => {
  const { limiter, clock } = await createTestLimiter({
    limits: [
      { name: "api", algorithm: "fixed_window", limit: 2, window: "1m" },
      { name: "bucket", algorithm: "token_bucket", capacity: 10, refillRate: "1/s" },
    ],
  });
  context.after(() => limiter.close());

  assert.equal((await limiter.check("api", "ann", { cost: 2 })).allowed, true);
  const denied = await limiter.check("api", "ann");
  assert.equal(denied.allowed, false);
  assert.equal(denied.retryAfterMs, 60_000);
  clock.advance(59_999);
  assert.equal((await limiter.check("api", "ann")).retryAfterMs, 1);
  clock.advance(1);
  assert.equal((await limiter.check("api", "ann")).allowed, true);

  await limiter.check("bucket", "ann", { cost: 10 });
  clock.advance("3s");
  assert.equal((await limiter.peek("bucket", "ann")).limits[0]?.remaining, 3);
});

test("the clock of the headers is that of the limits", { skip }, async (context) => {
  const { limiter, clock } = await createTestLimiter({
    limits: [{ name: "api", algorithm: "fixed_window", limit: 2, window: "1m" }],
  });
  context.after(() => limiter.close());
  const start = clock.now();
  clock.advance("1h");
  assert.equal(clock.now() - start, 3_600_000);
  const fromMemory = limiter.tryCheck("api", "ann")?.headers();
  const fromCore = (await limiter.peek("api", "ann")).headers();
  assert.equal(fromMemory?.["x-ratelimit-reset"], String(clock.now() / 1000 + 60));
  assert.equal(fromCore["x-ratelimit-reset"], fromMemory["x-ratelimit-reset"]);
});

test("limiters of different tests do not share counters", { skip }, async (context) => {
  for (let time = 0; time < 2; time += 1) {
    const { limiter } = await createTestLimiter({
      limits: [{ name: "api", algorithm: "fixed_window", limit: 2, window: "1m" }],
    });
    context.after(() => limiter.close());
    assert.equal((await limiter.check("api", "ann")).limits[0]?.remaining, 1);
  }
});
