import Fastify, { type FastifyRequest } from "fastify";
import type { Tollgate } from "../../../../src/tollgate.js";
import { tollgate } from "../../../../src/adapters/fastify.js";

interface Credentials {
  email?: string;
  password?: string;
}

export async function createLogin(client: Tollgate, isRight: (login: Credentials) => boolean) {
  const app = Fastify();
  // The body is known in the hook preHandler, not in onRequest.
  await app.register(tollgate, { client, limits: "api", hook: "preHandler" });

  const perAccount = {
    limit: "login-account",
    key: ({ body }: FastifyRequest) => (body as Credentials).email?.trim().toLowerCase(),
    onMissingKey: 400 as const,
    refund: ({ status }: { status: number }) => status < 400, // only wrong passwords count
  };
  const limits = ["api", perAccount]; // in place of those of the plugin
  app.post("/login", { config: { tollgate: { limits } } }, (request, reply) =>
    reply.code(isRight(request.body as Credentials) ? 204 : 401).send(),
  );
  return app;
}
