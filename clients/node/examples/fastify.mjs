// Fastify with limits in the process: in memory, or in Redis if REDIS_URL is set.
//
//   node fastify.mjs
//   curl -i http://127.0.0.1:3000/
//   curl -i -H 'content-type: application/json' -d '{"email": "ann@example.com"}' \
//     http://127.0.0.1:3000/login
import fastify from "fastify";
import { Tollgate } from "tollgate";
import { tollgate } from "tollgate/fastify";

const { PORT = "3000", REDIS_URL } = process.env;

const limiter = await Tollgate.inProcess({
  redis: REDIS_URL,
  limits: [
    { name: "api", algorithm: "sliding_window", limit: 100, window: "1m" },
    { name: "login", algorithm: "sliding_log", limit: 3, window: "15m", onStoreFailure: "deny" },
  ],
});

const app = fastify();
// The body, which has the key of `login`, is there in the hook `preHandler`.
await app.register(tollgate, { client: limiter, limits: "api", hook: "preHandler" });

app.get("/", () => ({ hello: "world" }));
app.get("/health", { config: { tollgate: false } }, () => ({ ok: true }));

// Both limits pass, or neither is charged. A successful login is free.
const byEmail = { limit: "login", key: (request) => request.body?.email?.toLowerCase() };
const loginLimits = {
  limits: ["api", { ...byEmail, onMissingKey: 400, refund: ({ status }) => status === 200 }],
};
app.post("/login", { config: { tollgate: loginLimits } }, (request, reply) => {
  const isRight = request.body.password === "secret";
  return reply.code(isRight ? 200 : 401).send({ welcome: isRight });
});

app.addHook("onClose", () => limiter.close());
process.once("SIGTERM", () => app.close());

console.log(`listening on ${await app.listen({ port: Number(PORT), host: "127.0.0.1" })}`);
