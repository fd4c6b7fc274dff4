/** Outages of the service: every call ends, and wrong requests never look like one. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { test, type TestContext } from "node:test";
import { Tollgate, UnavailableError } from "../src/index.js";
import type { LimitOptions, TollgateOptions } from "../src/index.js";
import { ALLOWED, startFaultyService } from "./support/faulty-service.js";
import { freePort } from "./support/ports.js";
import { freeze } from "./support/process.js";
import { startService } from "./support/service.js";

/** A call that never ends fails its test instead of holding up the others. */
const LIMITED = { timeout: 60_000 };
const API = { name: "api", algorithm: "fixed_window", limit: 5, window: "1h" } as const;

function client(context: TestContext, options: TollgateOptions): Tollgate {
  const limiter = new Tollgate(options);
  context.after(() => limiter.close());
  return limiter;
}

/** Asks until the service decides; the test's timeout ends it otherwise. */
async function recovery(limiter: Tollgate): Promise<void> {
  while ((await limiter.check("api", "ann")).degraded);
}

test("without a service, each limit follows its policy", async (context) => {
  const url = `http://127.0.0.1:${await freePort()}`;
  const onUnavailable = { default: "allow", limits: { login: "deny" } } as const;
  const limiter = client(context, { url, onUnavailable, limits: [API], timeoutMs: 10_000 });

  const allowed = await limiter.check("api", "ann");
  assert.deepEqual({ ...allowed }, {
    allowed: true,
    source: "fallback",
    degraded: true,
    degradedReason: "unavailable",
    waitMs: 0,
    retryAfterMs: null,
    limits: [
      {
        name: "api",
        limit: 5,
        remaining: 5,
        resetAfterMs: 0,
        retryAfterMs: null,
        fallback: "allow",
      },
    ],
  });
  assert.equal(allowed.headers()["x-ratelimit-fallback"], "true");

  const denied = await limiter.check([{ limit: "api", key: "x" }, { limit: "login", key: "x" }]);
  assert.equal(denied.allowed, false);
  assert.deepEqual(denied.limits.map((limit) => limit.fallback), ["allow", "deny"]);
  assert.equal(denied.retryAfterMs, 1000);
  assert.equal(denied.headers()["retry-after"], "1");

  assert.equal((await limiter.count("login", "ann")).allowed, false);
  assert.equal((await limiter.acquire("api", "ann")).degraded, true);

  // A fallback took nothing, so there is nothing to give back.
  const reserved = await limiter.reserve("api", "ann");
  assert.equal(reserved.allowed, true);
  const { warning, ...settlement } = await limiter.settle(reserved, 7);
  assert.deepEqual(settlement, { charged: 0, reservation: "none" });
  assert.match(warning ?? "", /without a reservation, so nothing was charged/);
  assert.equal(await limiter.release(reserved), false);
});

test("a limit's own policy decides, too, when the service is unavailable", async (context) => {
  const url = `http://127.0.0.1:${await freePort()}`;
  const allow: LimitOptions = { ...API, name: "allow", onStoreFailure: "allow" };
  const deny: LimitOptions = { ...API, name: "deny", onStoreFailure: "deny" };
  const local: LimitOptions = { ...API, name: "local", onStoreFailure: "local" };
  const limits = [allow, deny, local, API];
  for (const onUnavailable of ["allow", "deny"] as const) {
    const rest = onUnavailable === "allow";
    const limiter = client(context, { url, onUnavailable, limits, timeoutMs: 10_000 });
    const isAllowed = async (limit: string | LimitOptions): Promise<boolean> =>
      (await limiter.check(limit, "ann")).allowed;
    assert.deepEqual(await Promise.all(["allow", "deny"].map(isAllowed)), [true, false]);
    assert.deepEqual(await Promise.all(["local", "api", "x"].map(isAllowed)), [rest, rest, rest]);
    assert.deepEqual(await Promise.all([allow, deny, API].map(isAllowed)), [true, false, rest]);
    assert.equal((await limiter.reserve("deny", "ann")).allowed, false);
    assert.equal((await limiter.count(deny, "ann")).allowed, false);
  }
  const onUnavailable = { default: "deny", limits: { deny: "allow" } } as const;
  const limiter = client(context, { url, onUnavailable, limits, timeoutMs: 10_000 });
  assert.equal((await limiter.check("deny", "ann")).allowed, true, "what the client says");
});

test("the policies of the service's file are known after it has answered", async (context) => {
  const login = { ...API, name: "login", key: ["user"], on_store_failure: "deny" };
  const config = { limits: [{ ...API, key: ["user"] }, login] };
  const service = await startService(context, { config });
  const limiter = client(context, { url: service.url, timeoutMs: 10_000 });
  assert.equal((await limiter.check("api", "ann")).degraded, false);
  await service.kill();
  const decisions = await Promise.all(["api", "login"].map((limit) => limiter.check(limit, "ann")));
  assert.deepEqual(decisions.map(({ degraded }) => degraded), [true, true]);
  assert.deepEqual(decisions.map(({ allowed }) => allowed), [true, false]);
});

test("under mocked timers, deadlines are real", { timeout: 60_000 }, async (context) => {
  const url = await startFaultyService(context, () => { /* No answer. */ });
  context.mock.timers.enable();
  const limiter = new Tollgate({ url, limits: [API], timeoutMs: 20 });
  const decision = await limiter.check("api", "ann");
  await limiter.close();
  context.mock.timers.reset();
  assert.equal(decision.degraded, true);
});

test("operations without a policy reject", async (context) => {
  const url = `http://127.0.0.1:${await freePort()}`;
  const limiter = client(context, { url, timeoutMs: 10_000 });
  const calls = [
    limiter.peek("api", "ann"),
    limiter.refund("api", "ann"),
    limiter.reset("api", "ann"),
    limiter.release("permit"),
    limiter.settle("reservation", 1),
    limiter.cancel("reservation"),
  ];
  for (const result of await Promise.allSettled(calls)) {
    assert.ok(result.status === "rejected" && result.reason instanceof UnavailableError);
    assert.equal(result.reason.code, "no-response");
    assert.match(result.reason.detail, /no response from http:.*ECONNREFUSED/);
  }
});

test("a killed service is noticed, and so is its return", LIMITED, async (context) => {
  const service = await startService(context);
  const limiter = client(context, { url: service.url, limits: [API] });
  await recovery(limiter);
  await service.kill();
  const decisions = await Promise.all(
    Array.from({ length: 50 }, () => limiter.check("api", "ann")),
  );
  assert.ok(decisions.every((decision) => decision.degraded && decision.allowed));
  await startService(context, { address: new URL(service.url).host });
  await recovery(limiter);
});

test("a frozen service is noticed, and so is its return", LIMITED, async (context) => {
  const service = await startService(context);
  const limiter = client(context, { url: service.url, limits: [API], onUnavailable: "deny" });
  await recovery(limiter);
  await freeze(service.process);
  for (let round = 0; round < 3; round += 1) {
    const decisions = await Promise.all([limiter.check("api", "x"), limiter.check("api", "y")]);
    assert.ok(decisions.every((decision) => decision.degraded && !decision.allowed));
  }
  service.process.kill("SIGCONT");
  await recovery(limiter);
});

test("no caller waits for a server that never answers", LIMITED, async (context) => {
  let connections = 0;
  const server = createServer(() => {
    connections += 1;
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => {
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const limiter = client(context, { url: `http://127.0.0.1:${port}`, timeoutMs: 20 });

  for (let round = 0; round < 3; round += 1) {
    const checks = Array.from({ length: 600 }, (_, index) => limiter.check("api", `${index}`));
    const decisions = await Promise.all(checks);
    assert.ok(decisions.every((decision) => decision.degraded));
  }
  assert.ok(connections >= 3, "a connection that does not answer is given up");
});

test("errors of the whole batch are errors of the request", async (context) => {
  for (const status of [400, 401, 403, 404, 405, 413, 422]) {
    const url = await startFaultyService(context, ({ response }) => {
      const problem = { status, code: "some-code", detail: "what is wrong", retryable: false };
      response.writeHead(status).end(JSON.stringify(problem));
    });
    const limiter = client(context, { url, timeoutMs: 10_000 });
    const error = { name: "TollgateError", code: "some-code", detail: "what is wrong", status };
    await assert.rejects(limiter.check("api", "ann"), error);
    await assert.rejects(limiter.refund("api", "ann"), error);
  }

  // Sent without a body when the head of the request is not valid HTTP.
  const url = await startFaultyService(context, ({ response }) => {
    response.writeHead(431).end();
  });
  const limiter = client(context, { url, timeoutMs: 10_000 });
  await assert.rejects(limiter.check("api", "ann"), { name: "TollgateError", status: 431 });
});

test("errors that pass are outages", async (context) => {
  const problem = (code: string): string => JSON.stringify({ code, detail: "", retryable: true });
  const responses: [number, string][] = [
    [408, problem("body-too-slow")],
    [400, problem("incomplete-body")],
    [503, problem("overloaded")],
    [502, "<html>Bad Gateway</html>"],
    [404, "<html>default backend</html>"],
    [200, "<html>Hello</html>"],
    [200, "{}"],
    [200, "null"],
    [200, '{"answers": []}'],
    [200, '{"answers": [null]}'],
    [200, '{"answers": [{"status": 200}]}'],
  ];
  for (const [status, body] of responses) {
    const url = await startFaultyService(context, ({ response }) => {
      response.writeHead(status).end(body);
    });
    const limiter = client(context, { url, timeoutMs: 10_000 });
    assert.equal((await limiter.check("api", "ann")).degraded, true, `${status} ${body}`);
    await assert.rejects(limiter.refund("api", "ann"), UnavailableError, `${status} ${body}`);
  }
});

test("an answer of 503 is an outage unless it has a decision", async (context) => {
  const unavailable = { code: "store-unavailable", detail: "no store", retryable: true };
  const outage = await startFaultyService(context, ({ answerAll }) => {
    answerAll(503, unavailable);
  });
  const limiter = client(context, { url: outage, timeoutMs: 10_000 });
  assert.equal((await limiter.check("api", "ann")).source, "fallback");
  await assert.rejects(limiter.release("permit"), { code: "store-unavailable", status: 503 });

  const denial = await startFaultyService(context, ({ answerAll }) => {
    const [limit] = ALLOWED.limits;
    const limits = [{ ...limit, retry_after_ms: 1000, fallback: "deny" }];
    answerAll(503, { ...ALLOWED, allowed: false, degraded: true, source: "fallback", limits });
  });
  const decision = await client(context, { url: denial, timeoutMs: 10_000 }).check("api", "ann");
  assert.equal(decision.allowed, false);
  assert.equal(decision.degraded, true);
  assert.equal(decision.limits[0]?.fallback, "deny");
});
