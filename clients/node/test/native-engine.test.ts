/** The loader, and the engine over a core that the test plays. */
import assert from "node:assert/strict";
import { copyFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";
import { loadNative, NativeEngine } from "../src/engines/native.js";
import { type LimitOptions, Tollgate } from "../src/index.js";
import { PlayedCore } from "./support/played-core.js";
import { temporaryDirectory } from "./support/process.js";
import { packageRoot } from "./support/service.js";

/** A code: the verdict, and the position of the source in its list. */
function code(verdict: number, { source = 0, forbidden = 0 } = {}): number {
  return verdict | (source << 2) | (forbidden << 5);
}

/** The flags of an outcome: the positions of policy and unit in their lists, and rare members. */
function flags({ policy = 0, unit = 0 }, ...members: (keyof typeof MEMBERS)[]): number {
  return members.reduce((sum, name) => sum | (1 << MEMBERS[name]), policy | (unit << 2));
}

const MEMBERS = { shadow: 5, blocked: 6, exempt: 7, lockedOut: 8, unasked: 9 };

const API: LimitOptions = { name: "api", algorithm: "fixed_window", limit: 100, window: "60s" };

function play(): { core: PlayedCore; limiter: Tollgate } {
  const core = new PlayedCore();
  const engine = new NativeEngine(core, () => 1_800_000_000_000);
  return { core, limiter: new Tollgate({ engine, configured: [API] }) };
}

test("a decision from memory needs no batch", async () => {
  const { core, limiter } = play();
  core.code = code(0, { source: 1 });
  core.numbers = [0, 100, 99, 600, -1, 29_500, 60_000, 0];
  const decision = await limiter.check("api", "ann", { cost: 2 });
  assert.deepEqual({ ...decision }, {
    allowed: true,
    source: "lease",
    degraded: false,
    waitMs: 0,
    retryAfterMs: null,
    limits: [
      { name: "api", limit: 100, remaining: 99, resetAfterMs: 600, retryAfterMs: null },
    ],
  });
  assert.equal(decision.headers()["ratelimit-policy"], '"api";q=100;w=60');
  assert.equal(decision.headers().ratelimit, '"api";r=99;t=30');
  assert.equal(decision.headers()["x-ratelimit-reset"], "1800000001");
  assert.deepEqual(core.tried, [["api", "ann", 2]]);
  assert.deepEqual(core.bodies, []);
});

test("a denial from memory says when to retry, or never", () => {
  const { core, limiter } = play();
  core.code = code(1, { source: 2 });
  core.numbers = [0, 10, 0, 5000, 1200, 1200, 3_600_000, flags({ unit: 1 })];
  const denied = limiter.tryCheck("tokens", "ann");
  assert.deepEqual(core.tried, [["tokens", "ann", -1]]);
  assert.equal(denied?.allowed, false);
  assert.equal(denied.source, "deny_cache");
  assert.equal(denied.retryAfterMs, 1200);
  assert.equal(denied.headers()["retry-after"], "2");
  assert.equal(denied.headers()["ratelimit-policy"], '"tokens";q=10;w=3600;qu="tokens"');

  core.code = code(1, { source: 3 });
  core.numbers = [0, 10, 10, 0, -2, -1, 3_600_000, flags({ policy: 2, unit: 1 })];
  const never = limiter.tryCheck("tokens", "ann", { cost: 11 });
  assert.equal(never?.limits[0]?.never, true);
  assert.equal(never.retryAfterMs, null);
  assert.equal(never.degraded, true);
  assert.equal(never.limits[0].fallback, "deny");
  assert.equal(never.headers()["retry-after"], undefined);
});

test("a degraded decision of memory has its reason", () => {
  const { core, limiter } = play();
  core.numbers = [0, 100, 99, 600, -1, 0, 60_000, 1];
  const reasons = ["unavailable", "store_timeout", "unavailable", "overload", "refused"];
  for (const [number, reason] of reasons.entries()) {
    core.code = code(0, { source: 3 }) | (number << 6);
    const decision = limiter.tryCheck("api", "ann");
    assert.deepEqual([decision?.degraded, decision?.degradedReason], [true, reason]);
  }
  core.code = code(0, { source: 0 });
  assert.equal(limiter.tryCheck("api", "ann")?.degradedReason, undefined);
});

test("what memory cannot decide goes through a batch", async () => {
  const { core, limiter } = play();
  for (const undecided of [2, 3]) {
    core.code = undecided;
    assert.equal(limiter.tryCheck("api", "ann"), undefined);
    assert.equal((await limiter.check("api", "ann")).source, "store");
  }
  const tried = core.tried.length;
  await Promise.all([
    limiter.check("one too many", "ann"),
    limiter.check("api", { key: "ann" }),
    limiter.check("api", "ann", { attributes: { plan: "pro" } }),
    limiter.check([{ limit: "api", key: "a" }, { limit: "one too many", key: "a" }]),
    limiter.check([{ limit: "api", key: "a" }, { limit: "api", key: { key: "b" } }]),
    limiter.acquire("api", "ann"),
    limiter.count("api", "ann"),
  ]);
  assert.equal(core.tried.length, tried);
  const asked = core.bodies.flatMap(({ requests }) => requests);
  assert.equal(asked.filter(({ op }) => op === "check").length, 2 + 7);
});

test("a single demand in a list is decided from memory too", async () => {
  const { core, limiter } = play();
  core.code = code(0, { source: 4 });
  core.numbers = [0, 100, 95, 600, -1, -1, 60_000, 0];
  const decision = await limiter.check([{ limit: "api", key: "ann", cost: 5 }], { cost: 2 });
  assert.equal(decision.source, "local");
  assert.deepEqual(core.tried, [["api", "ann", 5]]);
});

test("several demands are decided from memory together", async () => {
  const { core, limiter } = play();
  core.code = code(1, { source: 0 });
  core.numbers = [
    ...[0, 100, 99, 600, -1, 500, 60_000, 0],
    ...[10, 0, 5000, 2500, 2500, 3_600_000, flags({ unit: 1 })],
  ];
  const demands = [{ limit: "api", key: 7 }, { limit: "tokens", key: "acme", cost: 3 }];
  const decision = await limiter.check(demands, { cost: 2 });
  assert.deepEqual(core.tried, [["api", "7", 2, "tokens", "acme", 3]]);
  assert.deepEqual(core.bodies, []);
  assert.deepEqual({ ...decision }, {
    allowed: false,
    source: "store",
    degraded: false,
    waitMs: 0,
    retryAfterMs: 2500,
    limits: [
      { name: "api", limit: 100, remaining: 99, resetAfterMs: 600, retryAfterMs: null },
      { name: "tokens", limit: 10, remaining: 0, resetAfterMs: 5000, retryAfterMs: 2500 },
    ],
  });
  assert.deepEqual(decision.headers(), {
    "ratelimit-policy": '"api";q=100;w=60, "tokens";q=10;w=3600;qu="tokens"',
    ratelimit: '"api";r=99;t=1, "tokens";r=0;t=3',
    "x-ratelimit-limit": "10",
    "x-ratelimit-remaining": "0",
    "x-ratelimit-reset": "1800000005",
    "retry-after": "3",
  });

  // One limit with two keys is one policy.
  core.code = code(0);
  core.numbers = [0, 100, 99, 600, -1, -1, 60_000, 0, 100, 50, 600, -1, -1, 60_000, 0];
  const twice = limiter.tryCheck([{ limit: "api", key: "a" }, { limit: "api", key: "b" }]);
  assert.equal(twice?.headers()["ratelimit-policy"], '"api";q=100;w=60');
  assert.equal(twice.headers()["x-ratelimit-remaining"], "50");
});

test("what operators and lockouts decide is shown", () => {
  const { core, limiter } = play();
  core.code = code(1);
  core.numbers = [0, 10, 0, 900_000, 900_000, 900_000, 60_000, flags({}, "lockedOut")];
  const locked = limiter.tryCheck("api", "ann");
  assert.equal(locked?.limits[0]?.lockedOut, true);
  assert.equal(locked.retryAfterMs, 900_000);

  core.code = code(0, { source: 6 });
  core.numbers = [0, 10, 10, 0, -1, -1, 60_000, flags({}, "exempt")];
  const exempt = limiter.tryCheck("api", "ann");
  assert.deepEqual([exempt?.source, exempt?.limits[0]?.exempt], ["exempt", true]);
  assert.deepEqual(exempt?.headers(), {});

  // The limits that were not asked are left out.
  core.code = code(1, { source: 5, forbidden: 1 });
  core.numbers = [
    ...[0, 100, 100, 0, -1, -1, 60_000, flags({}, "unasked")],
    ...[10, 0, 0, -2, -1, 60_000, flags({}, "blocked")],
  ];
  const both = [{ limit: "api", key: "ann" }, { limit: "tokens", key: "ann" }];
  const blocked = limiter.tryCheck(both);
  assert.equal(blocked?.source, "block");
  assert.equal(blocked.blockStatus, 403);
  const [outcome, ...others] = blocked.limits;
  assert.deepEqual(others, []);
  assert.deepEqual([outcome?.name, outcome?.blocked, outcome?.never], ["tokens", true, true]);
  assert.equal(blocked.headers()["retry-after"], undefined);
});

test("keys that are numbers, and limits as objects, are decided from memory too", () => {
  const { core, limiter } = play();
  limiter.tryCheck("api", 42);
  limiter.tryCheck({ ...API }, true);
  limiter.tryCheck({ ...API, limit: 5 }, "ann", { cost: 0 });
  const inline = '{"name":"api","algorithm":"fixed_window","limit":5,"window":"60s"}';
  assert.deepEqual(core.tried, [
    ["api", "42", -1],
    ["api", "true", -1],
    [inline, "ann", 0],
  ]);
});

test("a shadow limit says that it never denies", () => {
  const { core, limiter } = play();
  core.code = code(0);
  core.numbers = [0, 10, 0, 5000, 1200, 1200, 60_000, flags({}, "shadow")];
  const decision = limiter.tryCheck("api", "ann");
  assert.equal(decision?.allowed, true);
  assert.equal(decision.limits[0]?.shadow, true);
  assert.equal(decision.retryAfterMs, null);
  assert.deepEqual(decision.headers(), {});
});

test("wrong arguments are errors in memory too", async () => {
  const { limiter } = play();
  assert.throws(() => limiter.tryCheck("api", ""), { code: "bad-key" });
  assert.throws(() => limiter.tryCheck("api", "ann", { cost: -1 }), { code: "bad-cost" });
  await assert.rejects(limiter.check("api", "ann", { cost: 1.5 }), { code: "bad-cost" });

  const api = { limit: "api", key: "ann" };
  assert.throws(() => limiter.tryCheck([api, { limit: "api", key: "" }]), { code: "bad-key" });
  assert.throws(() => limiter.tryCheck([api, { ...api, cost: -1 }]), { code: "bad-cost" });
  assert.equal(limiter.tryCheck([]), undefined);
  await assert.rejects(limiter.check([]), { code: "no-limits" });
});

test("closing closes the core, and nothing is decided after it", async () => {
  const { core, limiter } = play();
  await limiter.close();
  assert.equal(core.isClosed, true);
  assert.throws(() => limiter.tryCheck("api", "ann"), { code: "closed" });
  const demand = { limit: "api", key: "ann" };
  assert.throws(() => limiter.tryCheck([demand, demand]), { code: "closed" });
  await assert.rejects(limiter.check("api", "ann"), { code: "closed" });
  assert.deepEqual(core.tried, []);
});

test("the error names the platforms and the HTTP engine", async (context) => {
  // A copy of the loader in a directory without the native module and without packages.
  const directory = temporaryDirectory(context);
  const loader = join(directory, "load.cjs");
  copyFileSync(join(packageRoot(), "native/load.cjs"), loader);
  const require = createRequire(loader);
  const { load } = require(loader) as { load: () => { platform: string } };
  const absent = load();
  await assert.rejects(loadNative(() => absent), (error: Error & { code?: string }) => {
    assert.equal(error.code, "native-unavailable");
    assert.match(error.message, /no native module for linux-x64-gnu: Cannot find module/);
    assert.match(error.message, /built for linux-x64-gnu/);
    assert.match(error.message, /new Tollgate\(\{ url \}\) asks a service over HTTP instead/);
    return true;
  });

  // A file beside the loader is preferred to a package.
  writeFileSync(join(directory, `tollgate.${absent.platform}.node`), "not a library");
  const broken = load();
  await assert.rejects(loadNative(() => broken), /no native module for .*tollgate\..*\.node/);
});

test("in a runtime without native modules, the error says so", async () => {
  const require = createRequire(import.meta.url);
  const { load } = require(join(packageRoot(), "native/absent.cjs")) as { load: () => never };
  await assert.rejects(loadNative(load), /no native module for this runtime/);
});
