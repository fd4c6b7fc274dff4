import { Tollgate } from "../../../../src/tollgate.js";

export const client = new Tollgate({
  url: process.env.TOLLGATE_URL ?? "http://127.0.0.1:8080",
  timeoutMs: 200,
  limits: [
    { name: "api", algorithm: "sliding_window", limit: 2, window: "1m" },
    { name: "export", algorithm: "fixed_window", limit: 1, window: "1h" },
  ],
});
