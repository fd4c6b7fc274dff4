import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { getCookie } from "hono/cookie";

import { all, bearer, hit } from "./hits.js";

const app = new Hono();
app.get("/hits", (context) => context.json(all()));
app.all("/auth/login", (context) => {
  const body = hit({
    session: getCookie(context, "session"),
    key: context.req.header("x-api-key"),
    token: bearer(context.req.header("authorization")),
    user: context.req.query("user"),
  });
  return context.text(body);
});
serve({ fetch: app.fetch, hostname: "127.0.0.1", port: Number(process.argv[2]) });
