// Express with Redis and four cluster workers: 1,000 requests per hour for each API key.
//
//   redis-server &
//   node express-cluster.mjs
//   curl -i -H 'x-api-key: ann' http://127.0.0.1:3000/
//
// With TOLLGATE_URL=http://127.0.0.1:8080 the workers ask a service instead of Redis.
//
// Each worker is an instance of its own: it leases units of a key and spends them in its memory, so
// most requests need no call to Redis. All workers together never admit more than the limit.
import cluster from "node:cluster";
import { once } from "node:events";
import express from "express";
import { Tollgate } from "tollgate";
import { by, tollgate } from "tollgate/express";

const { PORT = "3000", REDIS_URL = "redis://127.0.0.1:6379", WORKERS = "4" } = process.env;
const { TOLLGATE_URL } = process.env;

if (cluster.isPrimary) await runPrimary();
else await runWorker();

async function runPrimary() {
  const workers = Array.from({ length: Number(WORKERS) }, () => cluster.fork());
  const addresses = await Promise.all(workers.map((worker) => once(worker, "listening")));
  console.log(`${workers.length} workers listening on http://127.0.0.1:${addresses[0][0].port}`);

  for (const signal of ["SIGINT", "SIGTERM"]) {
    process.once(signal, () => workers.forEach((worker) => worker.process.kill("SIGTERM")));
  }
}

function createLimiter() {
  const limits = [
    { name: "api", algorithm: "fixed_window", limit: 1_000, window: "1h", consistency: "leased" },
  ];
  // Deadlines are 50 and 10 milliseconds by default. These are for a laptop that is busy with 10,000
  // requests at once.
  return TOLLGATE_URL
    ? new Tollgate({ url: TOLLGATE_URL, timeoutMs: 30_000, limits })
    : Tollgate.inProcess({ redis: REDIS_URL, storeTimeout: "5s", limits });
}

async function runWorker() {
  const limiter = await createLimiter();

  const app = express();
  app.use(
    tollgate({
      client: limiter,
      limits: { limit: "api", key: by.header("x-api-key"), onMissingKey: 401 },
    }),
  );
  app.get("/", (_request, response) => {
    response.send(`hello from worker ${cluster.worker.id}\n`);
  });
  const server = app.listen(Number(PORT), "127.0.0.1");

  // A terminal sends SIGINT to workers as well: the primary decides when they end.
  process.on("SIGINT", () => {});
  process.once("SIGTERM", () => {
    server.close(async () => {
      // Returns what this worker has leased and not spent.
      await limiter.close();
      cluster.worker.disconnect();
    });
  });
}
