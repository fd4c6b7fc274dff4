import type { Request } from "express";
import type { Tollgate } from "../../../../src/tollgate.js";
import { by, tollgate } from "../../../../src/adapters/express.js";

export function limitTenants(client: Tollgate) {
  return tollgate({
    client,
    limits: [
      { limit: "address" }, // by client address
      { limit: "tenant", key: by.header("x-tenant"), onMissingKey: 401 },
      { limit: "route", key: (request: Request) => `${request.method} ${request.path}` },
    ],
    attributes: (request) => ({ plan: request.get("x-plan") }), // for tiers and costs in the file
    skip: (request) => request.path === "/healthz",
  });
}
