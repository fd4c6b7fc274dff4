/** The client on the real native module. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { type Demand, type LimitOptions, Tollgate } from "../src/index.js";
import { open, skip } from "./support/native.js";
import { temporaryDirectory } from "./support/process.js";
import { startRedis } from "./support/redis.js";
import { packageRoot } from "./support/service.js";
import { until } from "./support/wait.js";

const WINDOW = { algorithm: "fixed_window", window: "1h" } as const;
const BUCKET = { algorithm: "token_bucket", refillRate: "1/h" } as const;
const LIMITS: LimitOptions[] = [
  { name: "api", ...WINDOW, limit: 3 },
  { name: "tokens", ...BUCKET, capacity: 1000, unit: "tokens" },
  { name: "in-flight", algorithm: "concurrency", limit: 1, permitTimeout: "1m" },
];

test("every operation works in memory", { skip }, async (context) => {
  const limiter = await open(context, { limits: LIMITS });
  const first = limiter.tryCheck("api", "ann");
  assert.equal(first?.allowed, true);
  assert.equal(first.limits[0]?.remaining, 2);
  assert.equal((await limiter.check("api", "ann", { cost: 2 })).limits[0]?.remaining, 0);
  const denied = await limiter.check("api", "ann");
  assert.equal(denied.allowed, false);
  assert.ok((denied.retryAfterMs ?? 0) > 3_500_000);

  await limiter.refund("api", "ann", { cost: 2 });
  assert.equal((await limiter.peek("api", "ann")).limits[0]?.used, 1);
  await limiter.reset("api", "ann");
  assert.equal((await limiter.peek("api", "ann")).limits[0]?.used, 0);
  assert.equal((await limiter.count("api", "ann", { cost: 9 })).allowed, false);
  assert.equal((await limiter.peek("api", "ann")).limits[0]?.used, 9);

  const reserved = await limiter.reserve("tokens", "ann", { cost: 100 });
  assert.deepEqual(await limiter.settle(reserved, 40), { charged: 40, reservation: "open" });
  assert.equal((await limiter.peek("tokens", "ann")).limits[0]?.remaining, 960);

  assert.equal(limiter.tryCheck("in-flight", "ann"), undefined);
  const permit = await limiter.acquire("in-flight", "ann");
  assert.equal((await limiter.check("in-flight", "ann")).allowed, false);
  assert.equal(await limiter.release(permit), true);

  const together = [{ limit: "api", key: "bob" }, { limit: "tokens", key: "bob", cost: 5 }];
  const both = await limiter.check(together);
  assert.deepEqual(both.limits.map((limit) => limit.remaining), [2, 995]);
  await assert.rejects(limiter.check("nope", "ann"), { code: "unknown-limit", status: 422 });
});

test("headers from memory are those of the core", { skip }, async (context) => {
  const limiter = await open(context, { limits: LIMITS });
  for (const [limit, cost] of [["api", 1], ["tokens", 10], ["api", 3]] as const) {
    const fromMemory = limiter.tryCheck(limit, "ann", { cost })?.headers();
    const fromCore = (await limiter.peek(limit, "ann", { cost })).headers();

    // The two are made at different times.
    delete fromMemory?.["x-ratelimit-reset"];
    delete fromCore["x-ratelimit-reset"];
    assert.deepEqual(fromMemory, fromCore);
  }
});

test("several limits are decided together without waiting", { skip }, async (context) => {
  const limiter = await open(context, { limits: LIMITS });
  const chat = { name: "chat", ...WINDOW, limit: 5 } as const;
  const demands = (cost: number): Demand[] => [
    { limit: "api", key: "ann" },
    { limit: "tokens", key: 7, cost },
    { limit: chat, key: "ann" },
  ];
  const first = limiter.tryCheck(demands(5));
  assert.deepEqual(first?.limits.map(({ remaining }) => remaining), [2, 995, 4]);
  const second = await limiter.check(demands(5));
  assert.deepEqual(second.limits.map(({ remaining }) => remaining), [1, 990, 3]);

  // All or nothing, and the same decision as by an operation.
  const denied = limiter.tryCheck(demands(991));
  const peek = await limiter.peek(demands(991));
  assert.equal(denied?.allowed, false);
  const outcomes = peek.limits.map(({ name, limit, remaining }) => ({ name, limit, remaining }));
  const named = denied.limits.map(({ name, limit, remaining }) => ({ name, limit, remaining }));
  assert.deepEqual(named, outcomes);
  for (const [fromMemory, fromCore] of [
    [denied.headers(), peek.headers()],
    [limiter.tryCheck(demands(0))?.headers(), (await limiter.peek(demands(0))).headers()],
  ] as const) {
    // The two are made at different times.
    delete fromMemory?.["x-ratelimit-reset"];
    delete fromCore["x-ratelimit-reset"];
    const withoutRetry = ({ ratelimit = "", ...others } = {}): object => ({
      ...others,
      ratelimit: ratelimit.replace(/t=\d+/g, "t"),
      "retry-after": undefined,
    });
    assert.deepEqual(withoutRetry(fromMemory), withoutRetry(fromCore));
  }

  const permits: Demand[] = [{ limit: "api", key: "bob" }, { limit: "in-flight", key: "bob" }];
  assert.equal(limiter.tryCheck(permits), undefined);
  assert.equal(await limiter.release(await limiter.check(permits)), true);
  const same = { limit: "api", key: "eve" };
  await assert.rejects(limiter.check([same, same]), { status: 422 });
  const many = Array.from({ length: 20 }, (_, index) => ({ limit: "api", key: `key-${index}` }));
  assert.equal(limiter.tryCheck(many), undefined);
  assert.equal((await limiter.check(many)).limits.length, 20);
});

test("several leases are spent together without waiting", { skip }, async (context) => {
  const redis = await startRedis(context);
  const leased = { ...BUCKET, capacity: 100_000, consistency: "leased" } as const;
  const limits: LimitOptions[] = [{ name: "user", ...leased }, { name: "tenant", ...leased }];
  const limiter = await open(context, { redis: redis.url, storeTimeout: "10s", limits });
  const demands = [{ limit: "user", key: "ann" }, { limit: "tenant", key: "acme" }];
  assert.equal(limiter.tryCheck(demands), undefined, "nothing is leased yet");

  const decision = await until("a decision from leases", async () => {
    await limiter.check(demands);
    return limiter.tryCheck(demands);
  });
  assert.deepEqual([decision.allowed, decision.source], [true, "lease"]);
  assert.equal(decision.limits.length, 2);
});

test("a limit as an object counts the same with and without waiting", { skip }, async (context) => {
  const limiter = await open(context, { limits: LIMITS });
  const chat = { name: "chat", ...WINDOW, limit: 5 } as const;
  assert.equal(limiter.tryCheck(chat, "ann")?.limits[0]?.remaining, 4);
  assert.equal((await limiter.count(chat, "ann")).limits[0]?.remaining, 3);
  assert.equal((await limiter.check({ ...chat, limit: 9 }, "ann")).limits[0]?.remaining, 6);
});

test("a key counts the same with and without waiting", { skip }, async (context) => {
  const limiter = await open(context, { limits: LIMITS });
  for (const key of ["ann", "Zoë 🦀", "half \ud83e", "k".repeat(1_021), "é".repeat(510)]) {
    assert.equal(limiter.tryCheck("api", key)?.limits[0]?.remaining, 2, key);
    assert.equal((await limiter.peek("api", key)).limits[0]?.used, 1, key);
  }
  for (const key of ["k".repeat(1_022), "é".repeat(512), "k".repeat(5_000)]) {
    assert.equal(limiter.tryCheck("api", key), undefined);
    await assert.rejects(limiter.check("api", key), { code: "bad-key" });
  }
});

test("instances share a Redis, strictly or with leases", { skip }, async (context) => {
  const redis = await startRedis(context);
  const limits: LimitOptions[] = [
    { name: "strict", ...WINDOW, limit: 100 },
    { name: "leased", ...BUCKET, capacity: 100, consistency: "leased" },
  ];
  const options = { redis: redis.url, storeTimeout: "10s", limits };
  const instances = await Promise.all([1, 2, 3].map(() => open(context, options)));
  for (const limit of ["strict", "leased"]) {
    const checks = instances.flatMap((limiter) =>
      Array.from({ length: 100 }, () => limiter.check(limit, "ann")),
    );
    const decisions = await Promise.all(checks);
    const admitted = decisions.filter((decision) => decision.allowed).length;
    assert.ok(decisions.every((decision) => !decision.degraded));
    // Units on lease to another instance cannot be spent, but nothing is admitted beyond the limit.
    if (limit === "strict") assert.equal(admitted, 100);
    else assert.ok(admitted <= 100 && admitted > 0, `${admitted} admitted`);
  }
});

test("closing returns leases", { skip }, async (context) => {
  const redis = await startRedis(context);
  const limits: LimitOptions[] = [
    { name: "leased", ...BUCKET, capacity: 100, consistency: "leased" },
  ];
  const options = { redis: redis.url, storeTimeout: "10s", limits };
  const first = await Tollgate.inProcess(options);
  await first.check("leased", "ann");
  await first.check("leased", "ann");
  await first.close();

  const second = await open(context, options);
  const view = (await second.peek("leased", "ann")).limits[0];
  assert.equal(view?.used, 2);
  assert.equal(view.leased ?? 0, 0);
});

test("without Redis, limits follow their failure policy", { skip }, async (context) => {
  const redis = await startRedis(context);
  const limits: LimitOptions[] = [
    { name: "open", ...WINDOW, limit: 3, onStoreFailure: "allow" },
    { name: "closed", ...WINDOW, limit: 3, onStoreFailure: "deny" },
  ];
  const limiter = await open(context, { redis: redis.url, storeTimeout: "20ms", limits });
  await redis.kill();
  const [allowed, denied] = await Promise.all([
    limiter.check("open", "ann"),
    limiter.check("closed", "ann"),
  ]);
  assert.deepEqual([allowed.allowed, allowed.degraded], [true, true]);
  assert.equal(allowed.limits[0]?.fallback, "allow");
  assert.deepEqual([denied.allowed, denied.degraded], [false, true]);
  await assert.rejects(limiter.refund("open", "ann"), { name: "UnavailableError" });
});

test("a configuration file works as in the service", { skip }, async (context) => {
  const path = join(temporaryDirectory(context), "tollgate.yaml");
  writeFileSync(path, `
limits:
  - { name: api, key: [tenant, user], algorithm: fixed_window, limit: 10, window: 1h, cost: 4 }
  - { name: one, key: [user], algorithm: fixed_window, limit: 10, window: 1h, cost: 4 }
  - { name: address, key: [client_ip], algorithm: fixed_window, limit: 10, window: 1h }
`);
  const limiter = await open(context, { configFile: path });
  const key = { tenant: "acme", user: "ann" };
  assert.equal((await limiter.check("api", key)).limits[0]?.remaining, 6);
  assert.equal((await limiter.check("api", key, { cost: 1 })).limits[0]?.remaining, 5);
  assert.equal(limiter.tryCheck("one", "ann")?.limits[0]?.remaining, 6);
  assert.equal((await limiter.check("one", "ann", { cost: 1 })).limits[0]?.remaining, 5);
  await assert.rejects(limiter.check("api", "ann"), { code: "bad-key" });

  // Keys that the configuration makes are made the same way without waiting.
  const networks = ["2001:db8::1", "2001:db8::2"].map((key) => limiter.tryCheck("address", key));
  assert.deepEqual(networks.map((each) => each?.limits[0]?.remaining), [9, 8]);
  assert.equal((await limiter.peek("address", "2001:db8::3")).limits[0]?.used, 2);
  await assert.rejects(limiter.check("address", "ann"), { code: "bad-address" });
});

test("an invalid configuration is an error that says where", { skip }, async (context) => {
  const limits: LimitOptions[] = [{ name: "api", algorithm: "fixed_window", limit: 0 }];
  await assert.rejects(Tollgate.inProcess({ limits }), {
    name: "TollgateError",
    code: "bad-config",
    message: /limits\[api\]/,
  });
  const path = join(temporaryDirectory(context), "wrong.yaml");
  writeFileSync(path, "limit: []\n");
  await assert.rejects(Tollgate.inProcess({ configFile: path }), /wrong\.yaml:1:1: limit: unknown/);
});

test("calls under way are answered before the core closes", { skip }, async () => {
  const limiter = await Tollgate.inProcess({ limits: LIMITS });
  const calls = Array.from({ length: 50 }, (_, index) => limiter.count("api", `user-${index}`));
  await limiter.close();
  const decisions = await Promise.all(calls);
  assert.ok(decisions.every((decision) => decision.allowed));
  await assert.rejects(limiter.count("api", "ann"), { code: "closed" });
});

test("neither an open limiter nor a worker thread keeps the process alive", { skip }, () => {
  const index = pathToFileURL(join(packageRoot(), "dist/test/src/index.js")).href;
  const limits = JSON.stringify(LIMITS);
  const use = `
    const { Tollgate } = await import(${JSON.stringify(index)});
    const limiter = await Tollgate.inProcess({ limits: ${limits} });
    console.log((await limiter.count("api", "ann")).limits[0].remaining);`;
  const source = `data:text/javascript,${encodeURIComponent(use)}`;
  const script = `
    import { Worker } from "node:worker_threads";
    import { once } from "node:events";
    for (let time = 0; time < 2; time += 1) {
      await once(new Worker(new URL(${JSON.stringify(source)})), "exit");
    }
    ${use}`;
  const args = ["--input-type=module", "-e", script];
  const options = { encoding: "utf8", timeout: 60_000 } as const;
  const { stdout, stderr, status } = spawnSync(process.execPath, args, options);
  assert.deepEqual([stdout, stderr, status], ["2\n2\n2\n", "", 0]);
});
