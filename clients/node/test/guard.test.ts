// The core of the adapters, with a client that does what the test says.
import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { mock, test } from "node:test";
import express from "express";
import { tollgate } from "../src/adapters/express.js";
import { TollgateError, UnavailableError } from "../src/errors.js";
import { by, GuardError, type Limiter } from "../src/guard.js";
import { withHeaders } from "../src/guard/web.js";
import { listen } from "./adapters/harness.js";
import { admitted, decision, fakeClient, finished, guardWith } from "./support/guards.js";

const unavailable = new UnavailableError({ code: "unreachable", detail: "no service" });

test("an admission is finished once", async () => {
  const { client, calls } = fakeClient({ permit: "p" });
  const admission = await admitted({ client });
  await Promise.all([admission.finish(finished), admission.finish(finished)]);
  await admission.finish({ ...finished, aborted: true });
  assert.deepEqual(calls.slice(1), [["release", "p"]]);
  assert.equal(admission.isOpen, false);
});

test("a release is repeated while the service is unavailable", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let isUp = true;
  const { client, calls } = fakeClient({ permit: "p" }, () => (isUp ? undefined : unavailable));
  const errors: unknown[] = [];
  const admission = await admitted({ client, onError: (error) => errors.push(error) });

  isUp = false;
  await admission.finish(finished);
  t.mock.timers.tick(100);
  await nextTurn();
  isUp = true;
  t.mock.timers.tick(400);
  await nextTurn();
  t.mock.timers.tick(100_000);
  await nextTurn();
  assert.equal(calls.filter(([name]) => name === "release").length, 3);
  assert.deepEqual(errors, []);
});

test("a settlement that fails for good is reported", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let error: Error | undefined;
  const { client, calls } = fakeClient({}, () => error);
  const errors: unknown[] = [];
  const options = { client, estimate: 5, onError: (failure: unknown) => errors.push(failure) };

  const outage = await admitted(options);
  error = unavailable;
  await outage.finish(finished);
  for (const delayMs of [100, 400, 1_600, 6_400, 25_600]) {
    t.mock.timers.tick(delayMs);
    await nextTurn();
  }
  assert.equal(calls.filter(([name]) => name === "settle").length, 6);
  assert.deepEqual(errors, [unavailable]);

  error = undefined;
  const wrong = await admitted(options);
  error = new TollgateError({ code: "bad-reservation", detail: "wrong" });
  await wrong.finish(finished);
  assert.equal(errors.length, 2);
});

test("what a failure policy admitted is not refunded", async () => {
  const { client, calls } = fakeClient({ degraded: true, source: "fallback" });
  const admission = await admitted({ client, refund: () => true });
  await admission.finish(finished);
  assert.deepEqual(calls.map(([name]) => name), ["check"]);
  assert.equal(admission.headers["x-ratelimit-fallback"], "true");
});

test("a refund names the demands and attributes of the check, per limit", async () => {
  const { client, calls } = fakeClient();
  const admission = await admitted({
    client,
    attributes: { tier: "pro" },
    refund: ({ status }) => status >= 500,
    limits: [
      { limit: "a", key: () => 7, cost: 3 },
      { limit: "b", refund: false },
    ],
  });
  await admission.finish({ ...finished, status: 503 });
  assert.deepEqual(calls, [
    [
      "check",
      [{ limit: "a", key: 7, cost: 3 }, { limit: "b", key: "203.0.113.7" }],
      { attributes: { tier: "pro" } },
    ],
    ["refund", [{ limit: "a", key: 7, cost: 3 }], { attributes: { tier: "pro" } }],
  ]);
});

test("a reservation is settled by report, settle or estimate, else cancelled", async () => {
  for (const [response, report, settle, expected] of [
    [{}, 7, () => 9, ["settle", "r", 7]],
    [{}, undefined, () => 9, ["settle", "r", 9]],
    [{}, undefined, () => undefined, ["settle", "r", 5]],
    [{ status: 500 }, 7, undefined, ["settle", "r", 7]],
    [{ status: 500 }, undefined, undefined, ["cancel", "r"]],
    [{ error: new Error() }, undefined, undefined, ["cancel", "r"]],
    [{ aborted: true }, undefined, undefined, ["settle", "r", 5]],
    [{ status: 418 }, 7, undefined, ["cancel", "r"]],
  ] as const) {
    const { client, calls } = fakeClient();
    const refund = ({ status }: { status: number }) => status === 418;
    const admission = await admitted({ client, estimate: 5, refund, ...(settle && { settle }) });
    if (report !== undefined) admission.report(report);
    await admission.finish({ ...finished, ...response });
    assert.deepEqual(calls.at(-1), expected);
    assert.deepEqual(calls[0]?.[2], { cost: 5, ttl: "10m" });
  }
});

test("tokens by kind are reserved and settled", async () => {
  const { client, calls } = fakeClient();
  const tokens = { input: 10, output: 20 };
  const admission = await admitted({ client, estimate: () => ({ tokens }) });
  admission.report({ tokens: { input: 11, output: 5 } });
  await admission.finish(finished);
  assert.deepEqual(calls[0]?.[2], { tokens, ttl: "10m" });
  assert.deepEqual(calls[1], ["settle", "r", { tokens: { input: 11, output: 5 } }]);
});

test("a decision from memory needs no promise", () => {
  const { client, calls } = fakeClient();
  const known = decision();
  const sync = { ...client, tryCheck: () => known };
  const admission = guardWith({ client: sync }).admit({});
  assert.ok(!(admission instanceof Promise) && admission.allowed);
  assert.equal(admission.decision, known);
  assert.deepEqual(calls, []);
});

test("several limits are decided from memory without a promise", () => {
  const { client, calls } = fakeClient();
  const known = decision();
  const asked: unknown[] = [];
  const tryCheck = (...args: unknown[]) => {
    asked.push(args);
    return known;
  };
  const sync = { ...client, tryCheck } as Limiter;
  const limits = ["api", { limit: "user", key: () => "ann", cost: 2 }];
  const admission = guardWith({ client: sync, limits }).admit({});
  assert.ok(!(admission instanceof Promise) && admission.allowed);
  const demands = [{ limit: "api", key: "203.0.113.7" }, { limit: "user", key: "ann", cost: 2 }];
  assert.deepEqual(asked, [[demands, {}]]);
  assert.deepEqual(calls, []);
});

test("skip takes booleans, also of promises that are not native", async () => {
  const later = <T>(value: T) => ({ then: (done: (value: T) => void) => { done(value); } });
  const { client, calls } = fakeClient();
  const admits = async (found: unknown): Promise<unknown> =>
    (await guardWith({ client, skip: () => found as boolean }).admit({})).allowed;

  for (const [found, asked] of [[true, 0], [false, 1]] as const) {
    for (const value of [found, Promise.resolve(found), later(found)]) {
      calls.length = 0;
      assert.equal(await admits(value), true);
      assert.equal(calls.length, asked, String(found));
    }
  }
  calls.length = 0;
  for (const found of [undefined, null, 0, 1, "true", {}, [], () => true]) {
    for (const value of [found, Promise.resolve(found), later(found)]) {
      const failed = { name: "GuardError", status: 500, message: /`skip` must return a boolean/ };
      await assert.rejects(admits(value), failed);
    }
  }
  assert.deepEqual(calls, []);

  const key = () => later("ann") as unknown as Promise<string>;
  const cost = () => later(3) as unknown as Promise<number>;
  await guardWith({ client, limits: { limit: "api", key, cost } }).admit({});
  assert.deepEqual(calls[0]?.[1], [{ limit: "api", key: "ann", cost: 3 }]);
});

test("no key is ever shared by accident", async () => {
  const { client, calls } = fakeClient();
  for (const key of [undefined, null, "", "  ", Number.NaN]) {
    const guard = guardWith({ client, limits: { limit: "api", key: () => key } });
    assert.throws(() => guard.admit({}), GuardError, String(key));
    const later = { limit: "api", key: () => Promise.resolve(key) };
    const late = guardWith({ client, limits: later });
    await assert.rejects(async () => late.admit({}), GuardError, String(key));
  }
  assert.deepEqual(calls, []);
  assert.equal(await by.everyone()({}, {} as never), "everyone");
});

test("errors of the application's own functions stay as they are", () => {
  const own = Object.assign(new Error("not signed in"), { status: 401 });
  const { client } = fakeClient();
  const guard = guardWith({ client, limits: { limit: "api", key: () => { throw own; } } });
  assert.throws(() => guard.admit({}), own);
});

test("wrong options are found at once", () => {
  const { client } = fakeClient();
  assert.throws(() => guardWith({ client, limits: [] }), /at least one limit/);
  assert.throws(() => guardWith({ client, settle: () => 1 }), /needs an `estimate`/);
  assert.throws(() => guardWith({ client: undefined as never }), /must be a Tollgate/);
  const clientAddress = { trustedProxies: ["10.1.2.3/8"] };
  assert.throws(() => guardWith({ client, clientAddress }), /did you mean/);
});

test("several guards share the headers of a response", async (t) => {
  const outcome = { resetAfterMs: 1_000, retryAfterMs: null };
  const tight = fakeClient({ limits: [{ ...outcome, name: "a", limit: 5, remaining: 1 }] });
  const loose = fakeClient({ limits: [{ ...outcome, name: "b", limit: 9, remaining: 8 }] });
  const app = express();
  app.use(tollgate({ client: tight.client, limits: "a" }));
  app.use(tollgate({ client: loose.client, limits: "b" }));
  app.get("/", (_request, response) => response.send("hello"));

  const { headers } = await fetch(await listen(t, app));
  assert.equal(headers.get("ratelimit"), '"a";r=1, "b";r=8');
  assert.equal(headers.get("x-ratelimit-limit"), "5");
  assert.equal(headers.get("x-ratelimit-remaining"), "1");
});

test("a client that disconnects during the check holds no permit", async (t) => {
  const { client, calls } = fakeClient({ permit: "p" });
  const events = new EventEmitter();
  const [asked, gone, released] = ["asked", "gone", "released"].map((name) => once(events, name));
  const release: Limiter["release"] = (permit) => {
    events.emit("released");
    return client.release(permit);
  };
  const check = async () => {
    events.emit("asked");
    await gone;
    return decision({ permit: "p" });
  };

  const app = express();
  const handler = mock.fn();
  app.use((_request, response, next) => {
    response.once("close", () => events.emit("gone"));
    next();
  });
  app.use(tollgate({ client: { ...client, check, release }, limits: "api" }), handler);

  const abort = new AbortController();
  const response = fetch(await listen(t, app), { signal: abort.signal });
  await asked;
  abort.abort();
  await assert.rejects(response);
  await released;
  assert.deepEqual(calls, [["release", "p"]]);
  assert.equal(handler.mock.callCount(), 0);
});

test("headers are added to responses that cannot be changed", async (t) => {
  const url = await listen(t, (_request, response) => response.end("hello"));
  const immutable = await fetch(url);
  assert.throws(() => { immutable.headers.set("x-test", "1"); });
  const changed = withHeaders(immutable, { "x-ratelimit-limit": "5" });
  assert.equal(changed.headers.get("x-ratelimit-limit"), "5");
  assert.equal(await changed.text(), "hello");
});

/** Lets promises that are due continue. */
async function nextTurn(): Promise<void> {
  const turn = new EventTarget();
  setImmediate(() => turn.dispatchEvent(new Event("turn")));
  await once(turn, "turn");
}
