// limiter.ts
import { Tollgate } from "../../../../src/tollgate.js";

export const client = new Tollgate({
  url: process.env.TOLLGATE_URL ?? "http://127.0.0.1:8080",
  timeoutMs: 200,
  onUnavailable: { default: "allow", limits: { mail: "deny" } },
  limits: [
    { name: "api", algorithm: "sliding_window", limit: 2, window: "1m" },
    { name: "tokens", algorithm: "fixed_window", limit: 10_000, window: "1h" },
    { name: "mail", algorithm: "fixed_window", limit: 1, window: "1h" },
  ],
});

// One load balancer is before this application, and appends to X-Forwarded-For.
export const clientAddress = { proxyCount: 1 };
