import express from "express";
import type { Tollgate } from "../../../../src/tollgate.js";
import { tollgate } from "../../../../src/adapters/express.js";

export function createApp(client: Tollgate) {
  const app = express();
  app.use(tollgate({ client, limits: "api" }));
  app.get("/", (_request, response) => response.send("hello"));
  return app;
}
