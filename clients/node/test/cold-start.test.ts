/**
 * Processes that start in the middle of a rush share a limit exactly, with default settings. Only
 * what a busy machine delays for longer than the deadlines is decided by the policy, and says so.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { skip } from "./support/native.js";
import { lineOf, start } from "./support/process.js";
import { startRedis } from "./support/redis.js";
import { packageRoot } from "./support/service.js";

const WORKERS = 4;
const CHECKS = 2_500;
const LIMIT = 1_000;

test("four workers that start at once admit exactly the limit", { skip }, async (context) => {
  const redis = await startRedis(context);
  const program = `
    import { Tollgate } from ${JSON.stringify(join(packageRoot(), "dist/test/src/index.js"))};
    const limits = [
      { name: "api", algorithm: "fixed_window", limit: ${LIMIT}, window: "1h" },
    ];
    // On a busy machine, Redis may not reply in time.
    const isLate = ({ code }) => code === "store-unavailable";
    const open = () => Tollgate.inProcess({ redis: ${JSON.stringify(redis.url)}, limits })
      .catch((error) => isLate(error) ? open() : Promise.reject(error));
    const limiter = await open();
    const checks = Array.from({ length: ${CHECKS} }, () => limiter.check("api", "ann"));
    const decisions = await Promise.all(checks);
    const count = (isCounted) => decisions.filter(isCounted).length;
    const exact = count(({ allowed, degraded }) => allowed && !degraded);
    const degraded = count(({ degradedReason }) => degradedReason !== undefined);
    console.log("admitted", exact, count(({ allowed }) => allowed), degraded);
    await limiter.close();`;

  const workers = Array.from({ length: WORKERS }, async () => {
    const args = ["--input-type=module", "--eval", program];
    const child = start(context, process.execPath, args);
    const [, ...numbers] = await lineOf(child, /^admitted (\d+) (\d+) (\d+)$/);
    const [exact = 0, all = 0, degraded = 0] = numbers.map(Number);
    return { exact, all, degraded };
  });
  const found = await Promise.all(workers);
  const text = JSON.stringify(found);
  const sum = (count: (worker: (typeof found)[0]) => number): number =>
    found.reduce((total, worker) => total + count(worker), 0);
  context.diagnostic(text);
  assert.ok(sum(({ exact }) => exact) <= LIMIT, text);
  assert.ok(sum(({ all }) => all) <= LIMIT + sum(({ degraded }) => degraded), text);
  assert.ok(sum(({ all }) => all) >= LIMIT, text);
});
