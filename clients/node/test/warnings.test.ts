/** What the application is told about outages and about mistakes in its options. */
import assert from "node:assert/strict";
import { createServer } from "node:https";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { PlainDecision } from "../src/decision.js";
import { Tollgate } from "../src/index.js";
import type { LimitOptions } from "../src/types.js";
import { Warnings } from "../src/warnings.js";
import { selfSigned } from "./support/certificate.js";
import { run } from "./support/examples.js";
import { ALLOWED, startFaultyService } from "./support/faulty-service.js";
import { open, skip } from "./support/native.js";
import { freePort } from "./support/ports.js";
import { startRedis } from "./support/redis.js";
import { freeze } from "./support/process.js";
import { packageRoot, startService } from "./support/service.js";
import { until } from "./support/wait.js";

const API: LimitOptions = { name: "api", algorithm: "fixed_window", limit: 5, window: "1h" };
/** Long enough for a busy machine: no test waits for it. */
const TIMEOUT_MS = 30_000;

/** What a client is told. */
function listener(): { told: string[]; onWarning: (message: string) => void } {
  const told: string[] = [];
  return { told, onWarning: (message) => told.push(message) };
}

/** What is told about a check over HTTP, which must be degraded. */
async function toldBy(url: string): Promise<string[]> {
  const { told, onWarning } = listener();
  const limiter = new Tollgate({ url, limits: [API], timeoutMs: TIMEOUT_MS, onWarning });
  const decisions = await Promise.all(["ann", "bob"].map((key) => limiter.check("api", key)));
  assert.ok(decisions.every(({ degraded }) => degraded));
  await limiter.close();
  return told;
}

test("each outage tells each of its reasons once", () => {
  const { told, onWarning } = listener();
  let nowMs = 0;
  const warnings = new Warnings(onWarning, () => nowMs);
  const parts = { allowed: true, source: "store", degraded: false, waitMs: 0, limits: [] } as const;
  const decision = new PlainDecision({ ...parts, limits: [] }, {});
  const say = (reason: string): void => {
    warnings.degraded(reason);
    warnings.decided(decision);
  };

  say("refused");
  say("refused");
  say("too slow");
  nowMs = 1_000;
  say("refused");
  assert.deepEqual(told, ["tollgate: refused", "tollgate: too slow"]);
  nowMs = 2_001;
  warnings.decided(decision);
  say("refused");
  assert.equal(told.length, 3);

});

test("a warning that onWarning cannot take is told on the console", async (context) => {
  const warn = context.mock.method(console, "warn", () => undefined);
  const fail = new Error("no log");
  const handlers: (() => unknown)[] = [() => { throw fail; }, () => Promise.reject(fail)];
  for (const onWarning of handlers) {
    const failing = new Warnings(onWarning);
    assert.doesNotThrow(() => { failing.degraded("refused"); });
    await until("a warning", () => (warn.mock.callCount() >= 2 ? true : undefined));
    const lines = warn.mock.calls.map((call) => call.arguments as unknown[]);
    assert.deepEqual([lines[0]?.[0], lines[1]?.[1]], ["tollgate: refused", fail]);
    warn.mock.resetCalls();
  }
});

test("onWarning must be a function", { skip }, async () => {
  for (const onWarning of [console, null, "warn"] as never[]) {
    const message = /onWarning must be a function .*, but it is/;
    const url = "http://127.0.0.1:1";
    assert.throws(() => new Tollgate({ url, onWarning }), { code: "bad-option", message });
    await assert.rejects(Tollgate.inProcess({ onWarning }), { code: "bad-option", message });
  }
});

test("a reason that takes longer than a call is told afterwards", async (context) => {
  const server = createServer(selfSigned(context), (_, response) => response.end());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  for (const [url, reason] of [
    [`https://127.0.0.1:${port}`, /from an authority that this process does not know/],
    ["http://no-such-host.invalid", /the host name is unknown/],
  ] as const) {
    const { told, onWarning } = listener();
    const limiter = new Tollgate({ url, limits: [API], timeoutMs: 0.001, onWarning });
    await Promise.all(["ann", "bob"].map((key) => limiter.check("api", key)));
    await until("the reason", () => told.find((text) => reason.test(text)));
    assert.ok(told.length <= 2, told.join("\n"));
    await limiter.close();
  }
});

test("a client may be closed while the reason of an outage is asked for", { skip }, () => {
  const program = `
    import { Tollgate } from ${JSON.stringify(join(packageRoot(), "dist/test/src/index.js"))};
    const limits = [{ name: "api", algorithm: "fixed_window", limit: 5, window: "1h" }];
    for (let round = 0; round < 20; round += 1) {
      const limiter = await Tollgate.inProcess({ redis: "redis://127.0.0.1:1", limits, lazy: true });
      const check = limiter.check("api", "ann");
      const isDegraded = check.then(({ degraded }) => degraded);
      const closed = round % 2 === 0 ? isDegraded.then(() => limiter.close()) : limiter.close();
      await Promise.all([isDegraded, closed]);
    }`;
  run(["--input-type=module", "--eval", program]);
});

test("a service that cannot be reached is told in words", async (context) => {
  const refused = await toldBy(`http://127.0.0.1:${await freePort()}`);
  assert.equal(refused.length, 1);
  assert.match(refused[0]!, /the connection was refused: is the service running/);
  assert.match((await toldBy("http://no-such-host.invalid"))[0]!, /the host name is unknown/);

  const server = createServer(selfSigned(context), (_, response) => response.end());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  const unknown = await toldBy(`https://127.0.0.1:${port}`);
  assert.match(unknown[0]!, /from an authority that this process does not know.*EXTRA_CA_CERTS/);
  const plain = await toldBy(`http://127.0.0.1:${port}`);
  assert.match(plain[0]!, /if the service uses TLS, write "https:\/\/"/);

  const service = await startService(context);
  const withTls = await toldBy(service.url.replace("http:", "https:"));
  assert.match(withTls[0]!, /it does not speak TLS there: write "http:\/\/"/);
});

test("a wrong token is an error that is also told", async (context) => {
  const tokens = [{ name: "app", token: "a-token-of-many-characters-1234567", allow: ["check"] }];
  const limits = [{ ...API, key: ["user"] }];
  const service = await startService(context, { config: { server: { tokens }, limits } });
  for (const [token, code] of [[undefined, "no-token"], ["wrong", "wrong-token"]] as const) {
    const { told, onWarning } = listener();
    const options = { url: service.url, timeoutMs: TIMEOUT_MS, onWarning };
    const limiter = new Tollgate(token === undefined ? options : { ...options, token });
    await assert.rejects(limiter.check("api", "ann"), { code, status: 401 });
    await assert.rejects(limiter.refund("api", "ann"), { code });
    assert.equal(told.length, 1);
    assert.match(told[0]!, /the service refuses requests: .*token/);
    await limiter.close();
  }
});

test("warnings of answers are carried and told once", async (context) => {
  const { told, onWarning } = listener();
  const url = await startFaultyService(context, ({ requests, answerAll }) => {
    const settled = { settled: true, charged: 1, reservation: "open", warning: "all costs fixed" };
    const decision = { ...ALLOWED, warning: "no `reservation`: none can be sealed" };
    answerAll(200, requests.some(({ op }) => op === "settle") ? settled : decision);
  });
  const limiter = new Tollgate({ url, limits: [API], timeoutMs: TIMEOUT_MS, onWarning });
  context.after(() => limiter.close());
  for (let round = 0; round < 2; round += 1) {
    const reserved = await limiter.reserve("api", "ann");
    assert.equal(reserved.warning, "no `reservation`: none can be sealed");
    const acquired = await limiter.acquire("api", "ann");
    assert.equal(acquired.warning, reserved.warning);
    const settled = await limiter.settle("r", 5);
    assert.deepEqual(settled, { charged: 1, reservation: "open", warning: "all costs fixed" });
    for (const nothing of [await limiter.settle(reserved, 5), await limiter.cancel(reserved)]) {
      assert.equal(nothing.reservation, "none");
      assert.match(nothing.warning ?? "", /without a reservation/);
    }
  }
  assert.equal(told.length, 4);
});

test("each reason of a degraded decision is told", async (context) => {
  const reasons = [
    ["store_timeout", /did not reply in time/],
    ["overload", /it is overloaded/],
    ["unavailable", /its store is unavailable/],
    ["refused", /an error that needs an operator/],
  ] as const;
  for (const [reason, text] of reasons) {
    const { told, onWarning } = listener();
    const url = await startFaultyService(context, ({ answerAll }) => {
      answerAll(200, { ...ALLOWED, degraded: true, degraded_reason: reason, source: "fallback" });
    });
    const limiter = new Tollgate({ url, limits: [API], timeoutMs: TIMEOUT_MS, onWarning });
    context.after(() => limiter.close());
    assert.equal((await limiter.check("api", "ann")).degradedReason, reason);
    assert.match(told.join(), text);
  }
});

test("in process, decisions have their reason", { skip }, async (context) => {
  const redis = await startRedis(context);
  const { told, onWarning } = listener();
  const options = { limits: [API], onWarning, decisionTimeout: "1m" };
  const limiter = await open(context, { redis: redis.url, storeTimeout: 50, ...options });
  const degraded = (): Promise<string> =>
    until("a degraded decision", async () => (await limiter.check("api", "x")).degradedReason);
  await freeze(redis.process);
  assert.equal(await degraded(), "store_timeout");
  await until("the reason", () => told.find((text) => /within `storeTimeout`/.test(text)));
  await redis.kill();
  await until("an outage", async () => ((await degraded()) === "unavailable" ? true : undefined));
});

test("eviction is told when a lazy client has connected", { skip }, async (context) => {
  const args = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"];
  const redis = await startRedis(context, args);
  const { told, onWarning } = listener();
  const options = { redis: redis.url, limits: [API], lazy: true, onWarning };
  const limiter = await open(context, options);
  await until("a decision", async () =>
    (await limiter.check("api", "ann")).degraded ? undefined : true,
  );
  const evictions = told.filter((text) => /allkeys-lru/.test(text));
  assert.equal(evictions.length, 1, told.join("\n"));
});

test("a store that the service cannot use is told", async (context) => {
  const { told, onWarning } = listener();
  const url = await startFaultyService(context, ({ answerAll }) => {
    answerAll(200, { ...ALLOWED, degraded: true, source: "fallback" });
  });
  const limiter = new Tollgate({ url, limits: [API], timeoutMs: TIMEOUT_MS, onWarning });
  context.after(() => limiter.close());
  await limiter.check("api", "ann");
  await limiter.check("api", "ann");
  assert.equal(told.length, 1);
  assert.match(told[0]!, /the service decides by failure policies: its store is unavailable/);
  await assert.rejects(limiter.peek("api", "ann"), { name: "UnavailableError" });
});

test("inProcess rejects without a usable store, unless it is lazy", { skip }, async (context) => {
  const secured = await startRedis(context, ["--requirepass", "secret"]);
  const { port } = secured;
  for (const [redis, message] of [
    [`redis://127.0.0.1:${port}`, /the server requires a password/],
    [`redis://:wrong@127.0.0.1:${port}`, /does not accept the user/],
    ["redis://no-such-host.invalid", /cannot find the host/],
    [`redis://127.0.0.1:${await freePort()}`, /Connection refused/],
  ] as const) {
    const rejected = { name: "TollgateError", code: "store-unavailable", message };
    await assert.rejects(Tollgate.inProcess({ redis, limits: [API] }), rejected);

    const { told, onWarning } = listener();
    const lazy = await open(context, { redis, limits: [API], lazy: true, onWarning });
    assert.equal((await lazy.check("api", "ann")).degraded, true);
    await lazy.check("api", "ann");
    await until("a warning", () => told[0]);
    assert.equal(told.length, 1);
    assert.match(told[0]!, /store unavailable.*Limits follow their failure policies/);
    assert.doesNotMatch(told[0]!, /wrong/);
    await assert.rejects(lazy.peek("api", "ann"), { name: "UnavailableError" });
  }
  const redis = `redis://:secret@127.0.0.1:${port}`;
  const usable = await open(context, { redis, limits: [API], storeTimeout: "10s" });
  assert.equal((await usable.check("api", "ann")).degraded, false);
});

test("an address of Redis that is undefined is told", { skip }, async (context) => {
  const { told, onWarning } = listener();
  const redis = process.env.NO_SUCH_VARIABLE as string;
  await open(context, { redis, limits: [API], onWarning });
  assert.match(told.join(), /`redis` is undefined.*limits are per process/);
  told.length = 0;
  await open(context, { limits: [API], onWarning });
  assert.deepEqual(told, []);
});

test("several replicas are a setting", { skip }, async (context) => {
  const local = { ...API, limit: 8, onStoreFailure: "local" } as const;
  const redis = await startRedis(context);
  const { onWarning } = listener();
  const options = { redis: redis.url, storeTimeout: "10s", limits: [local], onWarning };
  const limiter = await open(context, { ...options, expectedReplicas: 4 });
  await redis.kill();
  const decisions = await Promise.all(
    Array.from({ length: 8 }, () => limiter.check("api", "ann")),
  );
  assert.equal(decisions.filter(({ allowed }) => allowed).length, 2, "a fourth of the limit");
});
