/** What happens at the end of a response: permits, refunds, settlements; and queues before it. */
import assert from "node:assert/strict";
import { ann, checker, user, type Framework, type TestApp } from "./harness.js";

export function testAccounting(framework: Framework): void {
  const check = checker(framework);

  const inFlight = { limits: { limit: "in-flight", key: user } };
  check("a permit is held until the response ends", inFlight, permitUntilEnd);
  check("a permit is released when the client disconnects", inFlight, permitUntilAbort);
  check("a permit is released when the handler fails", inFlight, permitUntilFailure);

  const failed = { limits: { limit: "user", key: user }, refund: isFailed };
  check("failed responses are refunded", failed, refunded);

  const tokens = { limits: { limit: "tokens", key: user }, estimate: 40 };
  check("a stream settles what it reported", tokens, settlesReport);
  check("a client that disconnects pays for what was written", tokens, settlesPart);
  check("settle reads the cost from the response", { ...tokens, settle: () => 9 }, settlesResponse);
  check("a failure cancels the reservation", tokens, cancels);
  check("without a report the estimate stays charged", tokens, keepsEstimate);
  check("a queue delays requests", { limits: { limit: "queue", key: user } }, queued);
}

function isFailed({ status }: { status: number }): boolean {
  return status >= 500;
}

function decoded(result: { value?: unknown } | undefined): string {
  return new TextDecoder().decode(result?.value as Uint8Array | undefined);
}

async function permitUntilEnd(app: TestApp): Promise<void> {
  const first = app.get("/slow", ann);
  await app.entered;
  assert.deepEqual(await app.statuses(["/slow", ann]), [429]);

  app.leave();
  assert.equal((await first).status, 200);
  await (await first).text();
  await app.client.done("release");
  assert.equal(await app.used("in-flight"), 0);
  assert.deepEqual(await app.statuses(["/", ann]), [200]);
  await app.client.done("release");
  assert.equal(app.client.calls("release"), 0, "released once each");
}

async function permitUntilAbort(app: TestApp): Promise<void> {
  const abort = new AbortController();
  const first = app.get("/slow", ann, abort.signal);
  await app.entered;
  assert.equal(await app.used("in-flight"), 1);

  abort.abort();
  await assert.rejects(first);
  if (app.framework.releases === "after the handler") app.leave();
  await app.client.done("release");
  assert.equal(await app.used("in-flight"), 0);
}

async function permitUntilFailure(app: TestApp): Promise<void> {
  assert.deepEqual(await app.statuses(["/fail", ann]), [500]);
  await app.client.done("release");
  assert.equal(await app.used("in-flight"), 0);
}

async function refunded(app: TestApp): Promise<void> {
  assert.deepEqual(await app.statuses(["/fail", ann]), [500]);
  await app.client.done("refund");
  assert.equal(await app.used("user"), 0);
  assert.deepEqual(await app.statuses(["/", ann]), [200]);
  assert.equal(await app.used("user"), 1);
}

async function settlesReport(app: TestApp): Promise<void> {
  const response = await app.get("/stream", ann);
  assert.equal(await response.text(), "one two three");
  assert.equal(response.headers.get("x-ratelimit-remaining"), "60");
  await app.client.done("settle");
  assert.equal(await app.used("tokens"), 7);
}

async function settlesPart(app: TestApp): Promise<void> {
  const abort = new AbortController();
  const response = await app.get("/endless", ann, abort.signal);
  const reader = response.body?.getReader();
  assert.equal(decoded(await reader?.read()), "one ");
  assert.equal(await app.used("tokens"), 40);

  abort.abort();
  await app.client.done("settle");
  assert.equal(await app.used("tokens"), 3);
}

async function settlesResponse(app: TestApp): Promise<void> {
  assert.deepEqual(await app.statuses(["/", ann]), [200]);
  await app.client.done("settle");
  assert.equal(await app.used("tokens"), 9);
}

async function cancels(app: TestApp): Promise<void> {
  assert.deepEqual(await app.statuses(["/fail", ann]), [500]);
  await app.client.done("cancel");
  assert.equal(await app.used("tokens"), 0);
}

async function keepsEstimate(app: TestApp): Promise<void> {
  assert.deepEqual(await app.statuses(["/", ann]), [200]);
  await app.client.done("settle");
  assert.equal(await app.used("tokens"), 40);
  assert.deepEqual(await app.statuses(["/", ann], ["/", ann]), [200, 429]);
}

async function queued(app: TestApp): Promise<void> {
  const start = performance.now();
  const responses = await Promise.all([1, 2, 3].map(() => app.get("/", ann)));
  assert.deepEqual(responses.map(({ status }) => status), [200, 200, 200]);
  // Three requests at 20 per second: the last leaves 100 ms after the first arrived, or later.
  // Timers of Node may be a millisecond early.
  const waitedMs = performance.now() - start;
  assert.ok(waitedMs >= 95, `waited for ${waitedMs} ms`);
}
