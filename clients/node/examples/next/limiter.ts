// One client for the whole application. It keeps its connections, so create it once per process.
import { Tollgate } from "tollgate";

const { TOLLGATE_URL = "http://127.0.0.1:8080", TIMEOUT_MS = "50" } = process.env;

export const limiter = new Tollgate({
  url: TOLLGATE_URL,
  timeoutMs: Number(TIMEOUT_MS),
  limits: [
    { name: "api", algorithm: "fixed_window", limit: 5, window: "1h" },
    { name: "greetings", algorithm: "fixed_window", limit: 2, window: "1h" },
    { name: "mail", algorithm: "fixed_window", limit: 2, window: "1h" },
  ],
});
