/** What operators do through the service holds in the process of an application, too. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { Redis as RedisClient } from "ioredis";
import { type Decision, Tollgate } from "../src/index.js";
import { open, skip } from "./support/native.js";
import { temporaryDirectory } from "./support/process.js";
import { startRedis } from "./support/redis.js";
import { startService } from "./support/service.js";
import { until } from "./support/wait.js";

const WINDOW = { algorithm: "fixed_window", limit: 100, window: "1h" } as const;

/** A service on a Redis, and what an operator does through its admin port. */
async function startFleet(context: TestContext) {
  const redis = await startRedis(context);
  const config = {
    store: { type: "redis", endpoints: [redis.url], timeout: "10s" },
    limits: [
      { name: "api", key: ["user"], ...WINDOW },
      { name: "exports", key: ["tenant"], ...WINDOW },
      { name: "address", key: ["client_ip"], ...WINDOW },
    ],
  };
  const service = await startService(context, { config });
  const act = async (kind: string, action: object): Promise<() => Promise<void>> => {
    const body = JSON.stringify({ ...action, for: "1h", reason: "a test", by: "ann" });
    const url = `${service.adminUrl}/admin/${kind}`;
    const response = await fetch(url, { method: "POST", body });
    const text = await response.text();
    assert.equal(response.status, 200, text);
    const { id } = JSON.parse(text) as { id: string };
    return async () => {
      assert.equal((await fetch(`${url}/${id}`, { method: "DELETE" })).status, 200);
    };
  };
  return { redis, config, service, act };
}

/** Checks until the decision is as expected: other processes learn of an action a little later. */
function checked(
  limiter: Tollgate,
  [limit, key]: [string, string],
  isExpected: (decision: Decision) => boolean,
): Promise<Decision> {
  return until("the decision", async () => {
    const decision = await limiter.check(limit, key);
    return isExpected(decision) ? decision : undefined;
  });
}

const isBlocked = ({ source }: Decision): boolean => source === "block";

test("a block of the service holds in the process, too", { skip }, async (context) => {
  const { redis, service, act } = await startFleet(context);
  const limits = [{ name: "api", ...WINDOW }, { name: "exports", ...WINDOW }];
  const options = { redis: redis.url, storeTimeout: "10s", limits };
  const limiter = await open(context, options);
  assert.equal((await limiter.check("api", "ann")).allowed, true);

  const block = { limit: "api", key: { user: "ann" }, status: 403 };
  const undo = await act("blocks", block);
  const blocked = await checked(limiter, ["api", "ann"], isBlocked);
  assert.equal(blocked.allowed, false);
  assert.ok((blocked.retryAfterMs ?? 0) > 3_500_000, "the rest of the block");
  assert.equal((await limiter.check("api", "bob")).allowed, true);

  // The service says the same, and no store call is needed to say it.
  const remote = new Tollgate({ url: service.url, timeoutMs: 10_000 });
  context.after(() => remote.close());
  const overHttp = await remote.check("api", "ann");
  assert.deepEqual(withoutTimes(overHttp), withoutTimes(blocked));
  assert.equal(overHttp.blockStatus, 403);
  const both = [{ limit: "exports", key: "acme" }, { limit: "api", key: "ann" }];
  const together = limiter.tryCheck(both);
  assert.deepEqual(together?.limits.map(({ name }) => name), ["api"]);
  assert.equal((await limiter.peek("exports", "acme")).limits[0]?.used, 0, "nothing is charged");

  // An application that starts later knows the block, too.
  const later = await open(context, options);
  await checked(later, ["api", "ann"], isBlocked);

  await undo();
  const admitted = await checked(limiter, ["api", "ann"], ({ allowed }) => allowed);
  assert.equal(admitted.limits[0]?.blocked, undefined);
});

test("exemptions and overrides hold in the process", { skip }, async (context) => {
  const { redis, act } = await startFleet(context);
  const limits = [{ name: "api", ...WINDOW }];
  const limiter = await open(context, { redis: redis.url, storeTimeout: "10s", limits });
  await act("exemptions", { limit: "api", key: { user: "ann" } });
  const exempt = await checked(limiter, ["api", "ann"], ({ source }) => source === "exempt");
  assert.deepEqual([exempt.allowed, exempt.limits[0]?.exempt], [true, true]);
  assert.deepEqual(exempt.headers(), {});

  await act("overrides", { limit: "api", key: { user: "bob" }, multiply: 2 });
  await checked(limiter, ["api", "bob"], (decision) => decision.limits[0]?.limit === 200);
});

test("with the file of the service, networks can be blocked", { skip }, async (context) => {
  const { config, act } = await startFleet(context);
  const configFile = join(temporaryDirectory(context), "tollgate.yaml");
  writeFileSync(configFile, JSON.stringify(config));
  const limiter = await open(context, { configFile });

  await act("blocks", { limit: "address", network: "203.0.113.0/24" });
  const blocked = await checked(limiter, ["address", "203.0.113.7"], isBlocked);
  assert.equal(blocked.limits[0]?.blocked, true);
  assert.equal((await limiter.check("address", "198.51.100.7")).allowed, true);
});

test("a closed limiter no longer asks Redis for actions", { skip }, async (context) => {
  const redis = await startRedis(context);
  const observer = new RedisClient(redis.url);
  context.after(() => { observer.disconnect(); });
  const connections = async () => {
    const list = (await observer.call("CLIENT", "LIST")) as string;
    return list.trim().split("\n").length;
  };
  assert.equal(await connections(), 1);

  const limits = [{ name: "api", ...WINDOW }];
  const limiter = await Tollgate.inProcess({ redis: redis.url, limits });
  await until("a connection", async () => ((await connections()) > 1 ? true : undefined));
  await limiter.close();
  await until("the end of it", async () => ((await connections()) === 1 ? true : undefined));
});

/** The members of a decision, without the times. */
function withoutTimes(decision: Decision): unknown {
  const limits = decision.limits.map((limit) => ({ ...limit, resetAfterMs: 0, retryAfterMs: 0 }));
  return { ...decision, retryAfterMs: 0, limits };
}

test("a lazy client admits no blocked key when it starts", { skip }, async (context) => {
  const { redis, act } = await startFleet(context);
  await act("blocks", { limit: "api", key: { user: "ann" } });
  const options = { redis: redis.url, storeTimeout: "10s", decisionTimeout: "10s", lazy: true };
  for (let round = 0; round < 20; round += 1) {
    const limiter = await open(context, { ...options, limits: [{ name: "api", ...WINDOW }] });
    const decision = await limiter.check("api", "ann");
    assert.ok(isBlocked(decision), `${round}: ${decision.source}`);
  }
});
