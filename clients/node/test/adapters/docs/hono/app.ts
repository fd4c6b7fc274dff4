import { Hono } from "hono";
import type { Tollgate } from "../../../../src/tollgate.js";
import { tollgate } from "../../../../src/adapters/hono.js";

export function createApp(client: Tollgate) {
  const app = new Hono();
  app.use(tollgate({ client, limits: "api" }));
  app.get("/", (context) => context.text("hello"));
  return app;
}
