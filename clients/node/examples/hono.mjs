// Hono with limits over HTTP. The same code runs on Workers, Bun and Deno without `serve`.
//
//   tollgate serve &
//   node hono.mjs
//   curl -i http://127.0.0.1:3000/
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { Tollgate } from "tollgate";
import { by, tollgate } from "tollgate/hono";

const { PORT = "3000", TOLLGATE_URL = "http://127.0.0.1:8080", TIMEOUT_MS = "50" } = process.env;

const limiter = new Tollgate({
  url: TOLLGATE_URL,
  timeoutMs: Number(TIMEOUT_MS),
  // While the service is unavailable, requests pass, but no report is made.
  onUnavailable: { default: "allow", limits: { reports: "deny" } },
  // The service needs no file: the client brings the limits along.
  limits: [
    { name: "api", algorithm: "token_bucket", capacity: 100, refillRate: "10/s" },
    { name: "reports", algorithm: "fixed_window", limit: 2, window: "1h" },
  ],
});

const app = new Hono();
app.use("/api/*", tollgate({ client: limiter, limits: "api" }));
app.get("/api/hello", (context) => context.json({ hello: "world" }));

const tenant = { limit: "reports", key: by.header("x-tenant"), onMissingKey: 400 };
app.post("/reports", tollgate({ client: limiter, limits: tenant }), (context) => {
  const { limits } = context.get("tollgate").decision;
  return context.json({ report: "made", remaining: limits[0].remaining }, 201);
});

const server = serve({ fetch: app.fetch, port: Number(PORT), hostname: "127.0.0.1" }, (address) => {
  console.log(`listening on http://127.0.0.1:${address.port}`);
});
process.once("SIGTERM", () => server.close(() => limiter.close()));
