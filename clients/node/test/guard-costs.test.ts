// Costs that a guard takes from requests.
import assert from "node:assert/strict";
import { test } from "node:test";
import { admitted, fakeClient, finished, guardWith } from "./support/guards.js";

const NO_COUNTS = [
  ...[{}, { total_tokens: 9e9 }, { input: null }, { input: "400" }, { input: 1.5 }, [5]],
];
const NO_NUMBERS = [
  ...["400", null, undefined, ["x"], [5], {}, { cost: 0 }, NaN, 1.5, -1, 2 ** 53, 1n],
  ...NO_COUNTS.map((tokens) => ({ tokens })),
];

test("a cost or an estimate that is not a number is an error of the application", async () => {
  const { client, calls } = fakeClient();
  for (const found of NO_NUMBERS) {
    for (const value of [found, Promise.resolve(found)]) {
      const from = () => value as never;
      const cost = guardWith({ client, limits: { limit: "api", key: () => "ann", cost: from } });
      const estimate = guardWith({ client, estimate: from });
      for (const guard of [cost, estimate]) {
        const failed = { name: "GuardError", status: 500, message: /must be .*, but it is / };
        await assert.rejects(async () => guard.admit({}), failed);
      }
    }
    if (found === undefined) continue;
    const limits = { limit: "api", cost: found as never };
    assert.throws(() => guardWith({ client, limits }), /cost must be a whole number/);
    assert.throws(() => guardWith({ client, estimate: found as never }), /must be .*, but it is /);
  }
  for (const input of [1.5, -1, 1n, 2 ** 53]) {
    for (const tokens of [{ input, output: 5 }, { input: 5, details: { input } }] as never[]) {
      const guard = guardWith({ client, estimate: () => ({ tokens }) });
      await assert.rejects(async () => guard.admit({}), /tokens\..*input must be a whole number/);
    }
  }
  assert.deepEqual(calls, []);
});

test("an estimate from a request overrides nothing", async () => {
  const { client, calls } = fakeClient();
  const body = { tokens: { input: 1 }, cost: 0, attributes: { tier: "gold" }, ttl: "1ms" };
  const guard = guardWith({ client, attributes: { tier: "free" }, estimate: () => body });
  await assert.rejects(async () => guard.admit({}), /estimate must be .* or \{ tokens/);
  assert.deepEqual(calls, []);
});

test("a reported or settled cost that is not a number charges the estimate", async () => {
  for (const found of NO_NUMBERS) {
    const errors: unknown[] = [];
    const { client, calls } = fakeClient();
    const settle = () => found as never;
    const onError = (error: unknown) => errors.push(error);
    const admission = await admitted({ client, estimate: 5, settle, onError });
    assert.throws(() => { admission.report(found as never); }, /the reported cost.* must be/);
    await admission.finish(finished);
    assert.deepEqual(calls.at(-1), ["settle", "r", 5]);
    // Without a cost, the estimate stays on purpose.
    assert.equal(errors.length, found === undefined ? 0 : 1);
  }
});
