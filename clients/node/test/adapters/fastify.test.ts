import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { test } from "node:test";
import Fastify, { type FastifyRequest } from "fastify";
import { tollgate } from "../../src/adapters/fastify.js";
import { Tollgate } from "../../src/tollgate.js";
import { startService } from "../support/service.js";
import { testFramework } from "./behaviour.js";
import { customDenial, LIMITS, type Framework } from "./harness.js";
import { testPeers } from "./peers.js";

const framework: Framework = {
  name: "fastify",
  releases: "at once",
  async start(cleanup, { options, onError, hold, chunks, endless }) {
    const { onDenied, ...shared } = options;
    const app = Fastify({ forceCloseConnections: true });
    cleanup.after(() => app.close());
    app.setErrorHandler((error, _request, reply) => {
      onError(error);
      return reply.code(500).send("failed");
    });
    await app.register(tollgate, {
      ...shared,
      ...(onDenied && {
        onDenied: (denial, _request, reply) =>
          reply.code(denial.status).type("text/html").send(customDenial(denial)),
      }),
    });

    app.get("/", () => "hello");
    app.get("/fail", () => { throw new Error("failed on purpose"); });
    app.get("/slow", async () => {
      await hold();
      return "slow";
    });
    app.get("/stream", (request, reply) => reply.send(Readable.from(chunks(request.tollgate))));
    app.get("/endless", (request, reply) => reply.send(Readable.from(endless(request.tollgate))));
    return app.listen({ host: "127.0.0.1", port: 0 });
  },
};

testFramework(framework);
testPeers(framework);

test("fastify: routes have limits of their own, or none; a body can be the key", async (t) => {
  const service = await startService(t, { config: { limits: LIMITS } });
  const client = new Tollgate({ url: service.url, timeoutMs: 5_000 });
  t.after(() => client.close());
  const app = Fastify();
  t.after(() => app.close());

  await app.register(tollgate, { client, limits: "api", hook: "preHandler" });
  app.get("/health", { config: { tollgate: false } }, () => "healthy");
  const account = (request: FastifyRequest) => (request.body as { account?: string }).account;
  const own = { limits: { limit: "user", key: account, cost: 5 } };
  app.post("/login", { config: { tollgate: own } }, () => "welcome");
  app.get("/", () => "hello");

  const health = await app.inject("/health");
  assert.deepEqual([health.statusCode, health.headers.ratelimit], [200, undefined]);
  const login = (name: string) =>
    app.inject({ method: "POST", url: "/login", payload: { account: name } });
  assert.equal((await login("ann")).statusCode, 200);
  assert.equal((await login("ann")).statusCode, 429);
  assert.equal((await login("bob")).statusCode, 200);
  assert.equal((await login("")).statusCode, 500);
  assert.equal((await app.inject("/")).headers["x-ratelimit-remaining"], "1");
});
