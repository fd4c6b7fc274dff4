import Koa from "koa";
import type { Tollgate } from "../../../../src/tollgate.js";
import { tollgate } from "../../../../src/adapters/koa.js";

export function createApp(client: Tollgate) {
  const app = new Koa();
  app.use(tollgate({ client, limits: "api" }));
  app.use((context) => {
    context.body = "hello";
  });
  return app;
}
