/** The client against the real service. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Tollgate, TollgateError } from "../src/index.js";
import { startService } from "./support/service.js";

const window = { algorithm: "fixed_window", window: "1h" };
const bucket = { algorithm: "token_bucket", refill_rate: "1/h" };
const concurrency = { algorithm: "concurrency", permit_timeout: "1m" };

const service = await startService(
  { after },
  {
    config: {
      limits: [
        { name: "api", key: ["user"], ...window, limit: 3 },
        { name: "route", key: ["tenant", "route"], ...window, limit: 2 },
        { name: "tokens", key: ["user"], ...bucket, capacity: 1000 },
        { name: "in-flight", key: ["user"], ...concurrency, limit: 1 },
      ],
    },
  },
);
const limiter = new Tollgate({ url: service.url, timeoutMs: 10_000 });
after(() => limiter.close());

test("a check is charged, and denied when nothing is left", async () => {
  const decision = await limiter.check("api", "ann");
  assert.equal(decision.allowed, true);
  assert.equal(decision.source, "store");
  assert.equal(decision.degraded, false);
  assert.equal(decision.waitMs, 0);
  assert.equal(decision.retryAfterMs, null);
  const [outcome] = decision.limits;
  assert.equal(outcome?.name, "api");
  assert.equal(outcome.limit, 3);
  assert.equal(outcome.remaining, 2);
  assert.ok(outcome.resetAfterMs > 3_500_000 && outcome.resetAfterMs <= 3_600_000);

  const denied = await limiter.check("api", "ann", { cost: 3 });
  assert.equal(denied.allowed, false);
  assert.equal(denied.limits[0]?.remaining, 2);
  assert.ok(denied.retryAfterMs !== null && denied.retryAfterMs > 3_500_000);

  const never = await limiter.check("api", "ann", { cost: 4 });
  assert.equal(never.limits[0]?.never, true);
  assert.equal(never.retryAfterMs, null);
});

test("half a character in a key spoils nothing, and is counted", async () => {
  const [half, other, backslash] = await Promise.all([
    limiter.check("api", "\ud800", { cost: 2 }),
    limiter.check("api", "whole 😀"),
    limiter.check("api", "\\ud800", { cost: 3 }),
  ]);
  assert.deepEqual([half.allowed, other.allowed, backslash.allowed], [true, true, true]);
  const replaced = await limiter.check("api", "\ufffd", { cost: 2 });
  assert.equal(replaced.allowed, false);
});

test("a decision is plain JSON, and brings the header fields of a response", async () => {
  const decision = await limiter.check("api", "json");
  const { allowed, limits, ...rest } = JSON.parse(JSON.stringify(decision)) as typeof decision;
  assert.equal(allowed, true);
  assert.equal(limits.length, 1);
  assert.deepEqual(rest, { source: "store", degraded: false, waitMs: 0, retryAfterMs: null });

  const headers = decision.headers();
  assert.equal(headers["ratelimit-policy"], '"api";q=3;w=3600');
  assert.equal(headers.ratelimit, '"api";r=2;t=3600');
  assert.equal(headers["x-ratelimit-limit"], "3");
  assert.equal(headers["x-ratelimit-remaining"], "2");
  assert.ok(Number(headers["x-ratelimit-reset"]) > Date.now() / 1000);
  assert.equal(headers["retry-after"], undefined);

  const denied = await limiter.check("api", "json", { cost: 3 });
  assert.equal(denied.headers()["retry-after"], "3600");
});

test("keys may be values or attributes", async () => {
  assert.equal((await limiter.check("api", 42)).limits[0]?.remaining, 2);
  assert.equal((await limiter.check("api", "42")).limits[0]?.remaining, 1);
  assert.equal((await limiter.check("api", { user: 42 })).limits[0]?.remaining, 0);

  const key = { tenant: "acme", route: "/reports" };
  assert.equal((await limiter.check("route", key)).limits[0]?.remaining, 1);
  const attributes = { tenant: "acme" };
  const split = await limiter.check("route", { route: "/reports" }, { attributes });
  assert.equal(split.limits[0]?.remaining, 0);
});

test("several limits pass together or not at all", async () => {
  const demands = [
    { limit: "api", key: "bob" },
    { limit: "tokens", key: "bob", cost: 600 },
  ];
  assert.equal((await limiter.check(demands)).allowed, true);
  const denied = await limiter.check(demands);
  assert.equal(denied.allowed, false);
  assert.deepEqual(
    denied.limits.map((limit) => [limit.name, limit.remaining]),
    [
      ["api", 2],
      ["tokens", 400],
    ],
  );
});

test("limits can be brought along, by name or as objects", async () => {
  const chat = { name: "chat", algorithm: "token_bucket", capacity: 5, refillRate: "1/h" } as const;
  const burst = { name: "burst", algorithm: "fixed_window", limit: 2, window: 3_600_000 } as const;
  const client = new Tollgate({ url: service.url, timeoutMs: 10_000, limits: [chat] });
  after(() => client.close());

  assert.equal((await client.check("chat", "ann", { cost: 2 })).limits[0]?.remaining, 3);
  assert.equal((await client.check(chat, "ann")).limits[0]?.remaining, 2);
  assert.equal((await limiter.check(chat, "ann")).limits[0]?.remaining, 1);
  assert.equal((await client.check(burst, "ann")).limits[0]?.remaining, 1);
  const both = await client.check([{ limit: "chat", key: "x" }, { limit: burst, key: "x" }]);
  assert.deepEqual(both.limits.map((limit) => limit.name), ["chat", "burst"]);
});

test("peek tells what a counter contains and charges nothing", async () => {
  await limiter.check("api", "peek", { cost: 2 });
  for (let time = 0; time < 2; time += 1) {
    const peek = await limiter.peek("api", "peek");
    assert.equal(peek.allowed, true);
    assert.equal(peek.limits[0]?.algorithm, "fixed_window");
    assert.equal(peek.limits[0].used, 2);
    assert.equal(peek.limits[0].window?.lengthMs, 3_600_000);
    assert.ok(peek.limits[0].window.startMs > 0);
  }
});

test("count charges beyond the limit, refund gives back", async () => {
  assert.equal((await limiter.count("api", "debt", { cost: 5 })).allowed, false);
  assert.equal((await limiter.peek("api", "debt")).limits[0]?.used, 5);
  await limiter.refund("api", "debt", { cost: 4 });
  assert.equal((await limiter.peek("api", "debt")).limits[0]?.used, 1);
});

test("reset forgets what a key has used", async () => {
  await limiter.check("api", "reset", { cost: 3 });
  await limiter.reset("api", "reset");
  assert.equal((await limiter.peek("api", "reset")).limits[0]?.used, 0);
});

test("a reservation is settled with what was used", async () => {
  const reserved = await limiter.reserve("tokens", "llm", { cost: 100, ttl: "2m" });
  assert.equal(reserved.allowed, true);
  assert.deepEqual(await limiter.settle(reserved, 130), { charged: 130, reservation: "open" });
  assert.deepEqual(await limiter.settle(reserved.reservation ?? "", 130), {
    charged: 130,
    reservation: "settled",
  });

  const cancelled = await limiter.reserve("tokens", "llm", { cost: 100, ttl: 60_000 });
  assert.equal((await limiter.cancel(cancelled)).reservation, "open");
  assert.equal((await limiter.peek("tokens", "llm")).limits[0]?.remaining, 870);
});

test("a permit is held until it is released", async () => {
  const first = await limiter.acquire("in-flight", "ann");
  assert.equal(typeof first.permit, "string");
  assert.equal((await limiter.acquire("in-flight", "ann")).allowed, false);
  assert.equal(await limiter.release(first), true);
  assert.equal(await limiter.release(first), false);
  assert.equal((await limiter.acquire("in-flight", "ann")).allowed, true);
});

test("over HTTP nothing can be decided without waiting", () => {
  assert.equal(limiter.tryCheck("api", "ann"), undefined);
});

test("a wrong request is an error, whatever the unavailable policy is", async () => {
  const detail = /unknown limit "nope"; expected one of api/;
  await assert.rejects(limiter.check("nope", "ann"), (error: unknown) => {
    assert.ok(error instanceof TollgateError);
    assert.equal(error.name, "TollgateError");
    assert.equal(error.code, "unknown-limit");
    assert.equal(error.status, 422);
    assert.match(error.detail, detail);
    return true;
  });
  const wrongPath = new Tollgate({ url: `${service.url}/nothing/here/`, timeoutMs: 10_000 });
  await assert.rejects(wrongPath.check("api", "ann"), { code: "not-found", status: 404 });
  await wrongPath.close();

  // An error of one operation does not affect those that leave with it.
  const mixed = [limiter.check("nope", "x"), limiter.check("api", "x"), limiter.release("nope")];
  const results = await Promise.allSettled(mixed);
  assert.deepEqual(results.map((result) => result.status), ["rejected", "fulfilled", "rejected"]);
});

test("a closed client says so", async () => {
  const client = new Tollgate({ url: service.url });
  await client.close();
  await client.close();
  await assert.rejects(client.check("api", "ann"), { code: "closed" });
  await assert.rejects(client.release("x"), { code: "closed" });
});
