/**
 * An Express application with one handler, behind the limiter that the first argument names. Prints
 * its address; `cargo xtask bench node` starts it.
 */
import express from "express";

const subject = process.argv[2];
const redisUrl = process.env.REDIS_URL;

// A limit that never runs out.
const LIMIT = 1_000_000;
const bucket = (consistency) => ({
  name: "api",
  algorithm: "token_bucket",
  capacity: LIMIT,
  refillRate: `${LIMIT}/s`,
  consistency,
  onStoreFailure: "deny",
});

async function tollgate(consistency, redis) {
  const { Tollgate } = await import("tollgate");
  const limits = [bucket(consistency)];
  // A busy machine makes the store slow but not unavailable, as in all other benchmarks.
  const options = redis ? { redis, storeTimeout: "1s", limits } : { limits };
  return guard(await Tollgate.inProcess(options));
}

async function service() {
  const { Tollgate } = await import("tollgate");
  const url = process.env.TOLLGATE_URL;
  return guard(new Tollgate({ url, timeoutMs: 1_000, onUnavailable: "deny" }));
}

async function guard(client) {
  const { tollgate: limited } = await import("tollgate/express");
  return limited({ client, limits: "api" });
}

async function expressRateLimit() {
  const { rateLimit } = await import("express-rate-limit");
  const { RedisStore } = await import("rate-limit-redis");
  const { Redis } = await import("ioredis");
  const redis = new Redis(redisUrl);
  const sendCommand = (command, ...args) => redis.call(command, ...args);
  const store = new RedisStore({ sendCommand });
  return rateLimit({ windowMs: 1_000, limit: LIMIT, standardHeaders: "draft-8", store });
}

async function rateLimiterFlexible() {
  const { RateLimiterRedis } = await import("rate-limiter-flexible");
  const { Redis } = await import("ioredis");
  const storeClient = new Redis(redisUrl, { enableOfflineQueue: false });
  await new Promise((resolve) => storeClient.once("ready", resolve));
  const limiter = new RateLimiterRedis({ storeClient, points: LIMIT, duration: 1 });
  return (request, response, next) => {
    limiter.consume(request.ip).then(
      () => next(),
      () => response.status(429).send("Too Many Requests"),
    );
  };
}

const LIMITERS = {
  memory: () => tollgate("strict"),
  leased: () => tollgate("leased", redisUrl),
  strict: () => tollgate("strict", redisUrl),
  "http-leased": service,
  "http-strict": service,
  "express-rate-limit": expressRateLimit,
  "rate-limiter-flexible": rateLimiterFlexible,
};

const app = express();
if (subject !== "express") {
  app.use(await LIMITERS[subject]());
}
app.get("/", (_request, response) => {
  response.send("Hello, World!");
});
const server = app.listen(0, "127.0.0.1", () => {
  console.log(`listening 127.0.0.1:${server.address().port}`);
});
