import "reflect-metadata";

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";

import { Controller, Get, Module } from "@nestjs/common";
import { APP_GUARD, NestFactory } from "@nestjs/core";
import { ThrottlerGuard, ThrottlerModule, type ThrottlerOptions } from "@nestjs/throttler";

import { TollgateThrottlerStorage } from "../../src/stores/nestjs-throttler.js";
import { clientOfKilledService, countStatuses, sharedClient, uniqueName } from "./setup.js";

@Controller()
class HelloController {
  @Get()
  hello(): string {
    return "ok";
  }
}

@Module({})
class AppModule {
  readonly name = "app";
}

/** A Nest application with the guard of the library for all routes. */
async function startApp(
  t: TestContext,
  storage: TollgateThrottlerStorage,
  throttlers: ThrottlerOptions[],
): Promise<string> {
  const module = {
    module: AppModule,
    imports: [ThrottlerModule.forRoot({ throttlers, storage })],
    controllers: [HelloController],
    providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }],
  };
  const app = await NestFactory.create(module, { logger: false });
  await app.listen(0, "127.0.0.1");
  t.after(() => app.close());
  return app.getUrl();
}

function storageOf(t: TestContext, name = uniqueName()): TollgateThrottlerStorage {
  return new TollgateThrottlerStorage({ client: sharedClient(t), name });
}

const DAY_MS = 24 * 3600 * 1000;

test("two instances with one limit admit exactly the limit", async (t) => {
  const name = uniqueName();
  const throttlers = [{ ttl: DAY_MS, limit: 20 }];
  const urls = await Promise.all([
    startApp(t, storageOf(t, name), throttlers),
    startApp(t, storageOf(t, name), throttlers),
  ]);

  const requests = Array.from({ length: 80 }, (_, i) => fetch(urls[i % 2]!));
  const statuses = (await Promise.all(requests)).map(({ status }) => status);
  assert.deepEqual(countStatuses(statuses), { 200: 20, 429: 60 });
});

test("the headers tell what is left, and when a block ends", async (t) => {
  const url = await startApp(t, storageOf(t), [{ ttl: 60_000, limit: 1, blockDuration: 600_000 }]);

  const first = await fetch(url);
  assert.equal(first.headers.get("x-ratelimit-limit"), "1");
  assert.equal(first.headers.get("x-ratelimit-remaining"), "0");
  assert.equal(first.headers.get("x-ratelimit-reset"), "60");

  assert.equal((await fetch(url)).headers.get("retry-after"), "600");
  const blocked = await fetch(url);
  assert.equal(blocked.status, 429);
  const retryAfter = Number(blocked.headers.get("retry-after"));
  assert.ok(retryAfter > 60 && retryAfter <= 600, `retry-after: ${retryAfter}`);
});

test("several throttlers count separately", async (t) => {
  const url = await startApp(t, storageOf(t), [
    { name: "short", ttl: DAY_MS, limit: 2 },
    { name: "long", ttl: 2 * DAY_MS, limit: 5 },
  ]);
  const first = await fetch(url);
  assert.equal(first.headers.get("x-ratelimit-remaining-short"), "1");
  assert.equal(first.headers.get("x-ratelimit-remaining-long"), "4");
  await fetch(url);
  assert.equal((await fetch(url)).status, 429);
});

test("without a block, denied requests are charged nothing", async (t) => {
  const storage = storageOf(t);
  const ask = () => storage.increment("ann", 60_000, 2, 0, "default");
  assert.deepEqual(await ask(), {
    totalHits: 1,
    timeToExpire: 60,
    isBlocked: false,
    timeToBlockExpire: 0,
  });
  assert.equal((await ask()).totalHits, 2);
  for (const record of [await ask(), await ask()]) {
    assert.deepEqual([record.totalHits, record.isBlocked], [3, true]);
    assert.ok(record.timeToBlockExpire > 0 && record.timeToBlockExpire <= 60);
  }
});

test("a key starts again with no hits when its block has ended", async (t) => {
  const storage = storageOf(t);
  const ask = () => storage.increment("ann", DAY_MS, 1, 1, "default");
  await ask();
  const blockedAt = Date.now();
  assert.equal((await ask()).isBlocked, true);
  while (Date.now() <= blockedAt + 2) await new Promise(setImmediate);

  // Each denial blocks for a millisecond at least, so only a pause ends the block.
  let record = await ask();
  while (record.isBlocked) {
    const askedAt = Date.now();
    while (Date.now() <= askedAt + 2) await new Promise(setImmediate);
    record = await ask();
  }
  assert.equal(record.totalHits, 1);
});

test("a limit of 0 denies everything, and any name is a throttler", async (t) => {
  const storage = storageOf(t);
  assert.equal((await storage.increment("ann", 1000, 0, 1000, "default")).isBlocked, true);
  const { totalHits } = await storage.increment("ann", 1000, 1, 0, `per ✓ ${"x".repeat(100)}`);
  assert.equal(totalHits, 1);
});

test("an outage is an error, or follows the policy", async (t) => {
  const client = await clientOfKilledService(t);
  const statusOf = async (onUnavailable: "error" | "allow" | "deny") => {
    const storage = new TollgateThrottlerStorage({ client, onUnavailable });
    return (await fetch(await startApp(t, storage, [{ ttl: 60_000, limit: 1 }]))).status;
  };
  assert.equal(await statusOf("error"), 500);
  assert.equal(await statusOf("allow"), 200);
  assert.equal(await statusOf("deny"), 429);
});
