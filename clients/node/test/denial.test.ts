/** Problem documents of denials that are no used up quota. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { PlainDecision } from "../src/decision.js";
import { denialOf } from "../src/guard/denial.js";
import type { Decision, LimitOutcome } from "../src/types.js";

/** The last part of the type, the status and the detail of the problem; and its limits. */
function problemOf(limit: Partial<LimitOutcome>, parts: Partial<Decision> = {}) {
  const outcome = { name: "api", limit: 5, remaining: 0, resetAfterMs: 900_000 };
  const limits = [{ ...outcome, retryAfterMs: 900_000, ...limit }];
  const denied = { allowed: false, source: "store", degraded: false, waitMs: 0 } as const;
  const decision = new PlainDecision({ ...denied, limits, ...parts }, { answeredAtMs: 0 });
  const { status, problem } = denialOf(decision, {});
  assert.equal(problem.status, status);
  const said = [problem.type.replace(/.*#/, ""), status, problem.detail];
  return { said, limits: problem.limits };
}

test("a denial says that the key is locked out", () => {
  const { said, limits } = problemOf({ lockedOut: true });
  const sentence = 'Limit "api" was exceeded too often; retry in 900 seconds.';
  assert.deepEqual(said, ["abnormal-usage-detected", 429, sentence]);
  const times = { reset_after_ms: 900_000, retry_after_ms: 900_000 };
  assert.deepEqual(limits, [{ name: "api", limit: 5, remaining: 0, ...times, locked_out: true }]);
});

test("a denial says that an operator has blocked the key", () => {
  const blocked = problemOf({ blocked: true }, { source: "block" });
  const sentence = 'Blocked under limit "api"; retry in 900 seconds.';
  assert.deepEqual(blocked.said, ["abnormal-usage-detected", 429, sentence]);

  const forever = { blocked: true, never: true, retryAfterMs: null };
  const forbidden = problemOf(forever, { source: "block", blockStatus: 403 });
  const advice = 'Blocked under limit "api"; retrying will not help.';
  assert.deepEqual(forbidden.said, ["abnormal-usage-detected", 403, advice]);
});
