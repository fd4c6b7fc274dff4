/** The loader, and the engine over a core that the test plays. */
import assert from "node:assert/strict";
import { copyFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";
import { loadNative, type NativeCore, NativeEngine } from "../src/engines/native.js";
import { Tollgate } from "../src/index.js";
import { ALLOWED } from "./support/faulty-service.js";
import { temporaryDirectory } from "./support/process.js";
import { packageRoot } from "./support/service.js";

/** A core whose `tryCheck` returns a code and numbers. */
class PlayedCore implements NativeCore {
  code = 0;
  numbers: number[] = [];
  readonly tried: unknown[][] = [];
  readonly bodies: { requests: object[] }[] = [];
  isClosed = false;

  limits(): ReturnType<NativeCore["limits"]> {
    return [
      { name: "api", windowSecs: 60, unit: null },
      { name: "tokens", windowSecs: 3600, unit: "tokens" },
    ];
  }

  tryCheck(index: number, key: string, cost: number, out: Float64Array): number {
    this.tried.push([index, key, cost]);
    out.set(this.numbers);
    return this.code;
  }

  batch(body: string): Promise<string> {
    const parsed = JSON.parse(body) as { requests: object[] };
    this.bodies.push(parsed);
    const answers = parsed.requests.map(() => ({ status: 200, body: ALLOWED }));
    return Promise.resolve(JSON.stringify({ answers }));
  }

  advance(): void {
    throw new Error("not part of this test");
  }

  close(): Promise<void> {
    this.isClosed = true;
    return Promise.resolve();
  }
}

function play(): { core: PlayedCore; limiter: Tollgate } {
  const core = new PlayedCore();
  return { core, limiter: new Tollgate({ engine: new NativeEngine(core) }) };
}

test("a decision from memory needs no batch", async () => {
  const { core, limiter } = play();
  core.numbers = [100, 99, 600, -1, 29_500, 1, 0];
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
  assert.deepEqual(core.tried, [[0, "ann", 2]]);
  assert.deepEqual(core.bodies, []);
});

test("a denial from memory says when to retry, or never", () => {
  const { core, limiter } = play();
  core.code = 1;
  core.numbers = [10, 0, 5000, 1200, 1200, 2, 0];
  const denied = limiter.tryCheck("tokens", "ann");
  assert.deepEqual(core.tried, [[1, "ann", 1]]);
  assert.equal(denied?.allowed, false);
  assert.equal(denied.source, "deny_cache");
  assert.equal(denied.retryAfterMs, 1200);
  assert.equal(denied.headers()["retry-after"], "2");
  assert.equal(denied.headers()["ratelimit-policy"], '"tokens";q=10;w=3600;qu="tokens"');

  core.numbers = [10, 10, 0, -2, -1, 3, 0];
  const never = limiter.tryCheck("tokens", "ann", { cost: 11 });
  assert.equal(never?.limits[0]?.never, true);
  assert.equal(never.retryAfterMs, null);
  assert.equal(never.degraded, true);
  assert.equal(never.headers()["retry-after"], undefined);
});

test("what memory cannot decide goes through a batch", async () => {
  const { core, limiter } = play();
  for (const code of [2, 3]) {
    core.code = code;
    assert.equal(limiter.tryCheck("api", "ann"), undefined);
    assert.equal((await limiter.check("api", "ann")).source, "store");
  }
  const tried = core.tried.length;
  await Promise.all([
    limiter.check("unknown", "ann"),
    limiter.check("api", 42),
    limiter.check("api", { key: "ann" }),
    limiter.check("api", "ann", { attributes: { plan: "pro" } }),
    limiter.check([{ limit: "api", key: "a" }, { limit: "tokens", key: "a" }]),
    limiter.acquire("api", "ann"),
    limiter.count("api", "ann"),
  ]);
  assert.equal(core.tried.length, tried);
  assert.deepEqual(core.bodies.map(({ requests }) => requests.length), [1, 1, 7]);
});

test("a single demand in a list is decided from memory too", async () => {
  const { core, limiter } = play();
  core.numbers = [100, 95, 600, -1, -1, 4, 0];
  const decision = await limiter.check([{ limit: "api", key: "ann", cost: 5 }], { cost: 2 });
  assert.equal(decision.source, "local");
  assert.deepEqual(core.tried, [[0, "ann", 5]]);
});

test("a wrong cost is an error in memory too", async () => {
  const { limiter } = play();
  assert.throws(() => limiter.tryCheck("api", "ann", { cost: -1 }), { code: "bad-cost" });
  await assert.rejects(limiter.check("api", "ann", { cost: 1.5 }), { code: "bad-cost" });
});

test("closing closes the core, and nothing is decided after it", async () => {
  const { core, limiter } = play();
  await limiter.close();
  assert.equal(core.isClosed, true);
  assert.throws(() => limiter.tryCheck("api", "ann"), { code: "closed" });
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
