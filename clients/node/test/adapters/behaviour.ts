/** What every adapter must do: the same tests with each framework and the real service. */
import assert from "node:assert/strict";
import { GuardError, type Problem } from "../../src/guard.js";
import { TollgateError } from "../../src/errors.js";
import { testAccounting } from "./accounting.js";
import { ann, checker, user } from "./harness.js";
import type { Framework, SharedOptions, TestApp } from "./harness.js";

const PROBLEM_TYPES = "https://iana.org/assignments/http-problem-types";

export function testFramework(framework: Framework): void {
  const check = checker(framework);

  check("requests pass until the limit of the client is used up", { limits: "api" }, allowance);
  check("headers can be turned off", { limits: "api", headers: false }, withoutHeaders);
  check(
    "limits pass together or not at all",
    { limits: ["api", { limit: "user", key: user }] },
    allOrNothing,
  );
  check("skipped requests are not counted", { limits: "api", skip: isHealthCheck }, skipped);
  check(
    "costs and limits may depend on the request",
    { limits: (_, context) => ({ limit: "user", key: user, cost: costOf(context) }) },
    dynamicCost,
  );
  check("a denial can be answered otherwise", { limits: "api", onDenied: "custom" }, ownDenial);
  check("a limit brought along works like a configured one", { limits: inline }, broughtAlong);

  check("a misspelt limit is an error, not a pass", { limits: "apii" }, misspelt);
  check("a missing key is an error", { limits: { limit: "user", key: user } }, missingKeyError);
  check(
    "a missing key can reject the request",
    { limits: { limit: "user", key: user, onMissingKey: 401 } },
    missingKeyRejects,
  );
  check(
    "a missing key can skip the limit",
    { limits: [{ limit: "user", key: user }, "api"], onMissingKey: "skip" },
    missingKeySkips,
  );

  check("an outage is visible if requests pass", { limits: "api" }, outageAllows, "allow");
  check("an outage is visible if requests are denied", { limits: "api" }, outageDenies, "deny");
  testAccounting(framework);
}

const inline: SharedOptions["limits"] = {
  limit: { name: "inline", algorithm: "fixed_window", limit: 1, window: "1h" },
};

function isHealthCheck(_: unknown, context: { header(name: string): string | undefined }): boolean {
  return context.header("x-health") === "yes";
}

function costOf(context: { header(name: string): string | undefined }): number {
  return Number(context.header("x-cost") ?? 1);
}

async function allowance(app: TestApp): Promise<void> {
  const first = await app.get();
  assert.equal(first.status, 200);
  assert.equal(await first.text(), "hello");
  assert.equal(first.headers.get("x-ratelimit-limit"), "2");
  assert.equal(first.headers.get("x-ratelimit-remaining"), "1");
  assert.match(first.headers.get("ratelimit") ?? "", /^"api";r=1/);
  assert.match(first.headers.get("ratelimit-policy") ?? "", /^"api";q=2/);
  assert.equal(first.headers.get("retry-after"), null);
  assert.deepEqual(await app.statuses([]), [200]);

  const denied = await app.get();
  assert.equal(denied.status, 429);
  assert.equal(denied.headers.get("content-type"), "application/problem+json");
  assert.equal(denied.headers.get("x-ratelimit-remaining"), "0");
  const retryAfter = Number(denied.headers.get("retry-after"));
  assert.ok(retryAfter >= 1 && retryAfter <= 3_600, String(retryAfter));
  assert.deepEqual(withoutTimes(await denied.json()), withoutTimes(await problemOfService(app)));
}

/** The problem document that the service itself sends for the same key. */
async function problemOfService(app: TestApp): Promise<unknown> {
  const client = app.framework.headers?.["x-forwarded-for"] ?? "127.0.0.1";
  const response = await fetch(`${app.service.url}/v1/check`, {
    method: "POST",
    body: JSON.stringify({ limits: [{ name: "api", key: client }] }),
  });
  assert.equal(response.status, 429);
  return response.json();
}

async function problemOf(response: Response): Promise<Problem> {
  return (await response.json()) as Problem;
}

/** Times pass between two requests. */
function withoutTimes(value: unknown): unknown {
  const text = JSON.stringify(value).replace(/(_after_ms":)\d+|(retry in )\d+/g, "$1$2 0");
  return JSON.parse(text);
}

async function withoutHeaders(app: TestApp): Promise<void> {
  const allowed = await app.get();
  assert.equal(allowed.headers.get("ratelimit"), null);
  await app.statuses([]);
  const denied = await app.get();
  assert.equal(denied.status, 429);
  assert.equal(denied.headers.get("x-ratelimit-limit"), null);
  assert.notEqual(denied.headers.get("retry-after"), null);
}

async function allOrNothing(app: TestApp): Promise<void> {
  const request: [string, Record<string, string>] = ["/", ann];
  assert.deepEqual(await app.statuses(request, request, request), [200, 200, 429]);
  assert.equal(await app.used("user"), 2);

  const denied = await app.get(...request);
  assert.deepEqual((await problemOf(denied))["violated-policies"], ["api"]);
}

async function skipped(app: TestApp): Promise<void> {
  const health: [string, Record<string, string>] = ["/", { "x-health": "yes" }];
  assert.deepEqual(await app.statuses(health, health, health), [200, 200, 200]);
  const counted = await app.get();
  assert.equal(counted.headers.get("x-ratelimit-remaining"), "1");
}

async function dynamicCost(app: TestApp): Promise<void> {
  const costing = (cost: number) => ({ ...ann, "x-cost": String(cost) });
  const requests = [3, 3, 2, 1].map((cost) => ["/", costing(cost)] as [string, typeof ann]);
  assert.deepEqual(await app.statuses(...requests), [200, 429, 200, 429]);
}

async function ownDenial(app: TestApp): Promise<void> {
  await app.statuses([], []);
  const denied = await app.get();
  assert.equal(denied.status, 429);
  assert.match(await denied.text(), /^<h1>Slow down<\/h1>Limit "api" exceeded/);
  assert.match(denied.headers.get("content-type") ?? "", /^text\/html/);
  assert.notEqual(denied.headers.get("retry-after"), null);
}

async function broughtAlong(app: TestApp): Promise<void> {
  assert.deepEqual(await app.statuses([], []), [200, 429]);
}

async function misspelt(app: TestApp): Promise<void> {
  assert.deepEqual(await app.statuses([]), [500]);
  const [error] = app.errors;
  assert.ok(error instanceof GuardError, String(error));
  assert.ok(error.cause instanceof TollgateError);
  assert.equal(error.cause.code, "unknown-limit");
}

async function missingKeyError(app: TestApp): Promise<void> {
  assert.deepEqual(await app.statuses([], ["/", { "x-user": " " }], ["/", ann]), [500, 500, 200]);
  assert.match(String(app.errors[0]), /no key for limit "user"/);
}

async function missingKeyRejects(app: TestApp): Promise<void> {
  const rejected = await app.get();
  assert.equal(rejected.status, 401);
  assert.equal(rejected.headers.get("content-type"), "application/problem+json");
  assert.equal((await problemOf(rejected)).title, "Unauthorized");
  assert.deepEqual(await app.statuses(["/", ann]), [200]);
}

async function missingKeySkips(app: TestApp): Promise<void> {
  assert.deepEqual(await app.statuses(["/"], ["/", ann], ["/"]), [200, 200, 429]);
  assert.equal(await app.used("user"), 1);
}

async function outageAllows(app: TestApp): Promise<void> {
  await app.service.kill();
  const response = await app.get();
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("x-ratelimit-fallback"), "true");
}

async function outageDenies(app: TestApp): Promise<void> {
  await app.service.kill();
  const response = await app.get();
  assert.equal(response.status, 503);
  assert.equal(response.headers.get("x-ratelimit-fallback"), "true");
  assert.equal(response.headers.get("retry-after"), "1");
  const problem = await problemOf(response);
  assert.equal(problem.type, `${PROBLEM_TYPES}#temporary-reduced-capacity`);
  assert.equal(problem.degraded, true);
}
