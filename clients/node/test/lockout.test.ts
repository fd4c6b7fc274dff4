/** Lockouts with both engines, on memory and on Redis. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { type Decision, type LimitOptions, Tollgate } from "../src/index.js";
import { createTestLimiter } from "../src/testing.js";
import { open, skip } from "./support/native.js";
import { startRedis } from "./support/redis.js";
import { startService } from "./support/service.js";

const LOGIN: LimitOptions = {
  name: "login",
  algorithm: "sliding_log",
  limit: 1,
  window: "1m",
  lockout: { after: 2, within: "10m", for: 900_000, factor: 4, max: "24h" },
};

const ENGINES: Record<string, (context: TestContext) => Promise<Tollgate>> = {
  "in process, memory": (context) => open(context, { limits: [LOGIN] }),
  "in process, Redis": async (context) => {
    const redis = await startRedis(context);
    return open(context, { redis: redis.url, storeTimeout: "10s", limits: [LOGIN] });
  },
  "over HTTP": async (context) => {
    const { url } = await startService(context);
    const limiter = new Tollgate({ url, timeoutMs: 10_000, limits: [LOGIN] });
    context.after(() => limiter.close());
    return limiter;
  },
};

/** What must be the same with every engine: all but the times. */
function shape(decision: Decision): unknown {
  const limits = decision.limits.map(({ resetAfterMs, retryAfterMs, ...others }) => {
    assert.ok(resetAfterMs > 0);
    return { ...others, isDenied: retryAfterMs !== null };
  });
  return { ...decision, retryAfterMs: undefined, limits };
}

for (const [name, start] of Object.entries(ENGINES)) {
  const isSkipped = name === "over HTTP" ? false : skip;
  test(`a key that is denied too often is locked out: ${name}`, { skip: isSkipped }, async (t) => {
    const limiter = await start(t);
    const outcome = { name: "login", limit: 1, remaining: 0 };
    const decision = { source: "store", degraded: false, waitMs: 0, retryAfterMs: undefined };
    const expected = [
      { ...decision, allowed: true, limits: [{ ...outcome, isDenied: false }] },
      { ...decision, allowed: false, limits: [{ ...outcome, isDenied: true }] },
      { ...decision, allowed: false, limits: [{ ...outcome, isDenied: true, lockedOut: true }] },
    ];
    for (const shapeOfNext of expected) {
      assert.deepEqual(shape(await limiter.check("login", "ann")), shapeOfNext);
    }
    const locked = await limiter.check("login", "ann");
    assert.equal(locked.limits[0]?.lockedOut, true);
    assert.ok((locked.retryAfterMs ?? 0) > 800_000, "the rest of the lockout");
    assert.equal((await limiter.check(LOGIN, "ann")).limits[0]?.lockedOut, true);
    assert.equal((await limiter.check("login", "bob")).allowed, true);

    const { lockout } = (await limiter.peek("login", "ann")).limits[0] ?? {};
    assert.deepEqual([lockout?.denials, lockout?.level], [0, 1]);
    assert.ok((lockout?.lockedMs ?? 0) > 800_000);

    await limiter.reset("login", "ann");
    assert.equal((await limiter.check("login", "ann")).allowed, true);
  });
}

test("each further lockout lasts longer, up to the longest", { skip }, async () => {
  const { limiter, clock } = await createTestLimiter({ limits: [LOGIN] });
  const lockMs: (number | null | undefined)[] = [];
  for (let time = 0; time < 3; time += 1) {
    for (const isAllowed of [true, false, false]) {
      const decision = limiter.tryCheck("login", "ann");
      assert.equal(decision?.allowed, isAllowed);
      if (decision.limits[0]?.lockedOut === true) lockMs.push(decision.retryAfterMs);
    }
    clock.advance(lockMs.at(-1) ?? 0);
  }
  assert.deepEqual(lockMs, [900_000, 3_600_000, 14_400_000]);
  await limiter.close();
});
