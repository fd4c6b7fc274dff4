import Fastify from "fastify";
import type { Tollgate } from "../../../../src/tollgate.js";
import { tollgate } from "../../../../src/adapters/fastify.js";

export async function createApp(client: Tollgate) {
  const app = Fastify();
  await app.register(tollgate, { client, limits: "api" });

  app.get("/", () => "hello");
  app.get("/healthz", { config: { tollgate: false } }, () => "ok"); // no limit
  return app;
}
