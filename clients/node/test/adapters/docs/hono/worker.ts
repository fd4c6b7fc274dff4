import { Hono } from "hono";
import { Tollgate } from "../../../../src/tollgate.js";
import { tollgate } from "../../../../src/adapters/hono.js";

interface Bindings {
  TOLLGATE_URL: string;
  TOLLGATE_TOKEN?: string;
}

// A Worker knows its environment only when a request arrives, and keeps no connection between
// requests: a client per request is cheap, because it is only `fetch`.
const app = new Hono<{ Bindings: Bindings }>();
app.use((context, next) => {
  const { TOLLGATE_URL: url, TOLLGATE_TOKEN: token } = context.env;
  const client = new Tollgate({ url, ...(token !== undefined && { token }), timeoutMs: 200 });
  const clientAddress = { header: "cf-connecting-ip", proxyCount: 1 };
  return tollgate({ client, limits: "api", clientAddress })(context, next);
});
app.get("/", (context) => context.text("hello"));

export default app;
