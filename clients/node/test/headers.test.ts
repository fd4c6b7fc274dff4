import assert from "node:assert/strict";
import { test } from "node:test";
import { PlainDecision } from "../src/decision.js";
import { headerFields, type LimitFacts, policyField, stateField } from "../src/headers.js";
import type { LimitOutcome } from "../src/types.js";

const NOW_MS = 1_800_000_000_000;

function fields(
  allowed: boolean,
  limits: Partial<LimitOutcome>[],
  facts: { degraded?: boolean } = {},
): Record<string, string> {
  const full = limits.map((limit) => ({
    name: "api",
    limit: 100,
    remaining: 50,
    resetAfterMs: 30_001,
    retryAfterMs: null,
    ...limit,
  }));
  const parts = { allowed, source: "store" as const, degraded: facts.degraded ?? false, waitMs: 0 };
  const headerFacts = { answeredAtMs: NOW_MS };
  const decision = new PlainDecision({ ...parts, limits: full }, headerFacts);
  assert.deepEqual(decision.headers(), headerFields(decision, headerFacts));
  return decision.headers();
}

test("an allowed request tells what is left", () => {
  assert.equal(policyField("api", 100, { windowSecs: 59.5, unit: null }), '"api";q=100;w=60');
  assert.equal(stateField("api", 50, 29_500, null), '"api";r=50;t=30');
  assert.equal(stateField("api", 50, 29_500, 29_000), '"api";r=50');
});

test("what is not known is left out", () => {
  assert.deepEqual(fields(true, [{ resetAfterMs: 0 }]), {
    "ratelimit-policy": '"api";q=100',
    ratelimit: '"api";r=50',
    "x-ratelimit-limit": "100",
    "x-ratelimit-remaining": "50",
    "x-ratelimit-reset": "1800000000",
  });
});

test("a denial tells when to retry, rounded up and at least a second", () => {
  const denied = fields(false, [{ remaining: 0, retryAfterMs: 12_001 }]);
  assert.equal(denied["retry-after"], "13");
  assert.equal(denied.ratelimit, '"api";r=0;t=13');
  assert.equal(fields(false, [{ remaining: 0, retryAfterMs: 0 }])["retry-after"], "1");

  const never = fields(false, [{ retryAfterMs: null, never: true }]);
  assert.equal(never["retry-after"], undefined);
  assert.equal(never.ratelimit, '"api";r=50');
});

test("several limits are listed; the tightest one is that of the old fields", () => {
  const result = fields(false, [
    { name: "a", remaining: 0, retryAfterMs: 2000, limit: 5 },
    { name: "b", remaining: 7, retryAfterMs: 9000, limit: 9 },
    { name: "shadow", remaining: 0, retryAfterMs: 60_000, shadow: true },
    { name: "c", remaining: 0 },
  ]);
  assert.equal(result["ratelimit-policy"], '"a";q=5, "b";q=9, "c";q=100');
  assert.equal(result.ratelimit, '"a";r=0;t=2, "b";r=7;t=9, "c";r=0');
  assert.equal(result["x-ratelimit-limit"], "9");
  assert.equal(result["retry-after"], "9");

  const allowed = fields(true, [{ name: "a" }, { name: "b", remaining: 3 }, { name: "b" }]);
  assert.equal(allowed["ratelimit-policy"], '"a";q=100, "b";q=100');
  assert.equal(allowed["x-ratelimit-remaining"], "3");
});

test("units have the names of the draft", () => {
  const policy = (facts: LimitFacts): string => policyField("api", 100, facts);
  const units: [string | null, string][] = [
    [null, ""],
    ["requests", ""],
    ["tokens", ';qu="tokens"'],
    ["input_tokens", ';qu="input-tokens"'],
    ["bytes", ';qu="content-bytes"'],
  ];
  for (const [unit, parameter] of units) {
    assert.equal(policy({ windowSecs: 60, unit }), `"api";q=100;w=60${parameter}`);
  }
  assert.equal(policy({ windowSecs: null, unit: null }), '"api";q=100;qu="concurrent-requests"');
});

test("a fallback over a limit of unknown size says only that", () => {
  const limit = { limit: 0, remaining: 0, retryAfterMs: 1000 };
  assert.deepEqual(fields(false, [limit], { degraded: true }), {
    "retry-after": "1",
    "x-ratelimit-fallback": "true",
  });
});

test("lists have at most 32 limits", () => {
  const limits = Array.from({ length: 40 }, (_, index) => ({ name: `limit-${index}` }));
  const result = fields(true, limits);
  assert.equal(result["ratelimit-policy"]?.split(", ").length, 32);
  assert.equal(result.ratelimit?.split(", ").length, 32);
});
