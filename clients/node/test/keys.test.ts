/** Keys of several attributes: none of a request chooses its tier or its cost. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { Tollgate, type TollgateOptions } from "../src/index.js";
import { ALLOWED, startFaultyService } from "./support/faulty-service.js";
import { startService } from "./support/service.js";

function client(context: TestContext, options: TollgateOptions): Tollgate {
  const limiter = new Tollgate(options);
  context.after(() => limiter.close());
  return limiter;
}

test("a key from a request chooses neither tier nor cost", async (context) => {
  const config = {
    limits: [
      {
        name: "api",
        key: ["user"],
        algorithm: "fixed_window",
        window: "1h",
        tier: { by: "tier", default: "free" },
      },
    ],
    tiers: { free: { limit: 1 }, gold: { limit: 100 } },
  };
  const { url } = await startService(context, { config });
  const limiter = client(context, { url, timeoutMs: 10_000 });
  const key = JSON.parse('{ "user": "ann", "tier": "gold" }') as { user: string };
  const message = /the key of "api" must have the attributes user; others.*"tier"/;
  await assert.rejects(limiter.check("api", key), { code: "bad-key", message });
  await assert.rejects(limiter.check("api", ["ann"] as never), { code: "bad-key" });
  const known = await limiter.check("api", { user: "ann" }, { attributes: { tier: "gold" } });
  assert.equal(known.limits[0]?.limit, 100);
});

test("without its attributes, a key from a request is refused", async (context) => {
  let listed: object = { limits: [] };
  let status = 200;
  const asked: unknown[] = [];
  const url = await startFaultyService(context, ({ requests, response }) => {
    const answers = requests.map(({ op }) => {
      asked.push(op);
      return op === "limits" ? { status, body: listed } : { status: 200, body: ALLOWED };
    });
    response.end(JSON.stringify({ answers }));
  });
  const key = { user: "ann", tier: "gold" };
  const unknown = client(context, { url, timeoutMs: 10_000 });
  const message = /unknown limit "api"; configured limits: there are none/;
  await assert.rejects(unknown.check("api", key), { code: "unknown-limit", message });

  // The limit was added to the file since the list was read.
  const reloaded = client(context, { url, timeoutMs: 10_000 });
  reloaded.requireLimits(["api"]);
  listed = { limits: [{ name: "api", key: ["user"], on_store_failure: "allow" }] };
  await assert.rejects(reloaded.check("api", key), { code: "bad-key" });
  assert.equal((await reloaded.check("api", { user: "ann" })).degraded, false);
  assert.equal(asked.filter((op) => op === "check").length, 1);

  status = 403;
  listed = { code: "not-permitted", detail: "the token lacks the permission `check`" };
  const refused = client(context, { url, timeoutMs: 10_000 });
  const sentence = /attributes of the key of "api" are unknown.*lacks the permission/;
  await assert.rejects(refused.check("api", key), { code: "bad-key", message: sentence });

  status = 503;
  const outage = client(context, { url, timeoutMs: 10_000, onUnavailable: "deny" });
  assert.equal((await outage.check("api", key)).allowed, false);
});
