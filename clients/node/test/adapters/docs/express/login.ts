import express, { type Request } from "express";
import type { Tollgate } from "../../../../src/tollgate.js";
import { tollgate } from "../../../../src/adapters/express.js";

interface Credentials {
  email?: string;
  password?: string;
}

export function createLogin(client: Tollgate, isRight: (credentials: Credentials) => boolean) {
  const perAccount = {
    limit: "login-account",
    key: ({ body }: Request) => (body as Credentials).email?.trim().toLowerCase(),
    onMissingKey: 400 as const,
    refund: ({ status }: { status: number }) => status < 400, // only wrong passwords count
  };

  const router = express.Router();
  router.post(
    "/login",
    tollgate({ client, limits: "login-address" }), // before the body is read
    express.json(),
    tollgate({ client, limits: perAccount }),
    (request, response) => {
      response.sendStatus(isRight(request.body as Credentials) ? 204 : 401);
    },
  );
  return router;
}
