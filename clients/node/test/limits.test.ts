import assert from "node:assert/strict";
import { test } from "node:test";
import { durationMs } from "../src/duration.js";
import { Limits } from "../src/limit-book.js";
import { durationToWire, limitToWire } from "../src/limits.js";
import { keyOperation } from "../src/operations.js";
import { configFrom } from "../src/options.js";
import type { Demand, LimitOptions } from "../src/types.js";

const NONE = Limits.broughtAlong([]);

test("a limit has the names of the file, and durations are texts", () => {
  const limit: Required<Omit<LimitOptions, "algorithm">> & { algorithm: "token_bucket" } = {
    name: "api",
    algorithm: "token_bucket",
    limit: 1,
    window: 1500,
    align: "hour",
    capacity: 2,
    refillRate: "1/s",
    leakRate: "2/s",
    mode: "queue",
    permitTimeout: "30s",
    consistency: "leased",
    onStoreFailure: "deny",
    shadow: true,
    unit: "tokens",
    debtMax: 3,
    reservationMax: 4,
    onReservationExpiry: "release",
    lockout: { after: 10, within: "10m", for: 900_000, factor: 4, max: "24h" },
  };
  assert.deepEqual(limitToWire(limit), {
    name: "api",
    algorithm: "token_bucket",
    limit: 1,
    window: "1500ms",
    align: "hour",
    capacity: 2,
    refill_rate: "1/s",
    leak_rate: "2/s",
    mode: "queue",
    permit_timeout: "30s",
    consistency: "leased",
    on_store_failure: "deny",
    shadow: true,
    unit: "tokens",
    debt_max: 3,
    reservation_max: 4,
    on_reservation_expiry: "release",
    lockout: { after: 10, within: "10m", for: "900000ms", factor: 4, max: "24h" },
  });
});

test("a wrong lockout is an error that says where", () => {
  const wire = (lockout: unknown): (() => unknown) => {
    const limit = { name: "login", algorithm: "sliding_log", limit: 5, window: "1m", lockout };
    return () => limitToWire(limit as LimitOptions);
  };
  const right = { after: 10, within: "10m", for: "15m" };
  assert.doesNotThrow(wire({ ...right, max: undefined }));
  assert.throws(wire({ ...right, facto: 4 }), /limits\[login\]\.lockout: unknown option "facto"/);
  assert.throws(wire({ ...right, within: 1.5 }), /limits\[login\]\.lockout\.within must be a/);
  assert.throws(wire(10), /limits\[login\]\.lockout must be an object with after, within, for/);
});

test("a limit with the same lockout is the configured one", () => {
  const lockout = { after: 10, within: "10m", for: "15m" };
  const limit = { name: "login", algorithm: "sliding_log", limit: 5, window: "1m" } as const;
  const book = Limits.configured([{ ...limit, lockout }]);
  assert.equal(book.inline({ ...limit, lockout: { ...lockout } }), undefined);
  for (const other of [{ ...lockout, after: 9 }, { ...lockout, factor: 2 }, undefined]) {
    assert.notEqual(book.inline({ ...limit, ...(other && { lockout: other }) }), undefined);
  }
});

test("an unknown option is an error that names the nearest", () => {
  const wrong = (option: string): (() => unknown) => {
    const limit = { name: "api", algorithm: "token_bucket", [option]: 1 };
    return () => limitToWire(limit as unknown as LimitOptions);
  };
  assert.throws(wrong("refill_rate"), /limits\[api\]: unknown option "refill_rate"; did you mean/);
  assert.throws(wrong("refill_rate"), /did you mean "refillRate"\?/);
  assert.throws(wrong("capcity"), /did you mean "capacity"\?/);
  assert.throws(wrong("windows"), /did you mean "window"\?/);
  assert.throws(wrong("wndow"), /did you mean "window"\?/);
  assert.throws(wrong("something"), /expected one of name, algorithm, limit, window/);
  for (const [foreign, ours] of [["points", "limit"], ["windowMs", "window"], ["max", "limit"]]) {
    assert.throws(wrong(foreign!), new RegExp(`did you mean "${ours!}"\\?`));
  }
  assert.throws(wrong("constructor"), /unknown option "constructor"/);
});

test("a duration is whole milliseconds or a text", () => {
  assert.equal(durationToWire(0, "ttl"), "0ms");
  assert.equal(durationToWire("15 minutes", "ttl"), "15 minutes");
  for (const wrong of [1.5, -1, NaN, "", null]) {
    assert.throws(() => durationToWire(wrong as number, "ttl"), /ttl must be a whole number of m/);
  }
  assert.equal(durationMs(5), 5);
  assert.equal(durationMs("10s"), 10_000);
  assert.equal(durationMs("15 minutes"), 900_000);
  assert.equal(durationMs("2w"), 1_209_600_000);
  for (const wrong of ["10", "1.5s", "s", "10 fortnights", -1]) {
    assert.throws(() => durationMs(wrong), /a duration must be .*, but it is/);
  }
});

test("demands become entries of the request", () => {
  const inline: LimitOptions = { name: "chat", algorithm: "fixed_window", limit: 5, window: "1s" };
  const book = Limits.broughtAlong([inline]);
  const demands: Demand[] = [
    { limit: "api", key: "ann" },
    { limit: "route", key: { tenant: "acme", route: undefined }, cost: 2 },
    { limit: "chat", key: 7 },
    { limit: { ...inline, name: "other" }, key: true },
  ];
  const options = { cost: 3, attributes: { plan: "pro", tenant: "acme", none: null } };
  assert.deepEqual(keyOperation("check", demands, options, book), {
    op: "check",
    limits: [
      { name: "api", key: "ann" },
      { name: "route", cost: 2 },
      { name: "chat", algorithm: "fixed_window", limit: 5, window: "1s", key: 7 },
      { name: "other", algorithm: "fixed_window", limit: 5, window: "1s", key: true },
    ],
    attributes: { plan: "pro", tenant: "acme" },
    cost: 3,
  });

  // Half of a surrogate pair is replaced, as UTF-8 does.
  const [broken] = keyOperation("check", [{ limit: "api", key: "a\ud800" }], {}, NONE)
    .limits as object[];
  assert.deepEqual(broken, { name: "api", key: "a\ufffd" });
});

test("in process, a configured limit is sent by its name, a different one as it is", () => {
  const api: LimitOptions = { name: "api", algorithm: "fixed_window", limit: 5, window: 1000 };
  const book = Limits.configured([api]);
  const entry = (limit: LimitOptions | string): unknown =>
    (keyOperation("check", [{ limit, key: "x" }], {}, book).limits as unknown[])[0];
  assert.deepEqual(entry("api"), { name: "api", key: "x" });
  assert.deepEqual(entry({ ...api }), { name: "api", key: "x" });
  const other = { name: "api", algorithm: "fixed_window", limit: 6, window: "1000ms", key: "x" };
  assert.deepEqual(entry({ ...api, limit: 6 }), other);
});

test("wrong arguments are errors that say what was found", () => {
  const inline: LimitOptions = { name: "chat", algorithm: "fixed_window", limit: 5, window: "1s" };
  const cases: [unknown[], object, RegExp][] = [
    [[], {}, /at least one demand/],
    [[{ limit: "", key: "x" }], {}, /the name of a limit must not be empty/],
    [[{ limit: undefined, key: "x" }], {}, /a limit must be an object with a name.* undefined/],
    [[{ limit: null, key: "x" }], {}, /a limit must be an object with a name.* null/],
    [[{ limit: "api", key: "" }], {}, /the key of "api" must be a text that is not empty.* ""/],
    [[{ limit: "api", key: undefined }], {}, /the key of "api" must be .*, but it is undefined/],
    [[{ limit: "api", key: null }], {}, /the key of "api" must be .*, but it is null/],
    [[{ limit: "api", key: 1.5 }], {}, /the key of "api" must be .*, but it is 1.5/],
    [[{ limit: "api", key: { a: 1.5 } }], {}, /key\.a must be .*, but it is 1.5/],
    [[{ limit: "api", key: { a: {} } }], {}, /key\.a must be .*, but it is {}/],
    [[{ limit: inline, key: { a: "x" } }], {}, /counts by one value, but the key of "chat" is/],
    [[{ limit: "api", key: "x", cost: -1 }], {}, /cost must be a whole number.*it is -1/],
    [[{ limit: "api", key: "x" }], { cost: 0.5 }, /cost must be .* but it is 0.5/],
    [[{ limit: "api", key: "x" }], { cost: NaN }, /cost must be .* but it is NaN/],
    [[{ limit: "api", key: "x" }], { cost: "1" }, /cost must be .* but it is "1"/],
    [[{ limit: "api", key: "x" }], { cost: 2 ** 53 }, /cost must be .* but it is 9007199254740992/],
    [[{ limit: "api", key: "x" }], { cost: 1n }, /cost must be .* but it is 1n/],
    [
      [{ limit: "api", key: { user: "ann" } }],
      { attributes: { user: "bob" } },
      /conflicting values of the attribute "user": "bob" and "ann"/,
    ],
  ];
  for (const [demands, options, message] of cases) {
    const call = (): unknown => keyOperation("check", demands as Demand[], options, NONE);
    assert.throws(call, { name: "TollgateError", message });
  }
});

test("the core gets its configuration as JSON", () => {
  const limits: LimitOptions[] = [
    { name: "api", algorithm: "token_bucket", capacity: 10, refillRate: "1/s" },
  ];
  const wire = [
    { name: "api", algorithm: "token_bucket", capacity: 10, refill_rate: "1/s", key: ["key"] },
  ];
  const memory = configFrom({ limits });
  assert.deepEqual(JSON.parse(memory.text), { store: { type: "memory" }, limits: wire });
  const redis = "redis://127.0.0.1:6379";
  const { text } = configFrom({
    limits,
    redis,
    prefix: "app:",
    storeTimeout: 25,
    decisionTimeout: "1s",
    expectedReplicas: 4,
  });
  assert.deepEqual(JSON.parse(text), {
    store: {
      type: "redis",
      endpoints: [redis],
      prefix: "app:",
      timeout: "25ms",
      decision_timeout: "1s",
    },
    defaults: { expected_replicas: 4 },
    limits: wire,
  });

  // Stores bring their limits along.
  assert.match(configFrom({ redis }).text, /"tollgate:unused"/);
  assert.throws(() => configFrom({ configFile: "x", redis }), /leave `redis` out, or the file/);
  assert.throws(() => configFrom({ configFile: "/nope/x.yaml" }), /configFile: ENOENT/);
});
