import type { Tollgate } from "../../../../src/tollgate.js";
import { tollgate } from "../../../../src/adapters/express.js";

export function limitWithPage(client: Tollgate) {
  return tollgate({
    client,
    limits: "api",
    onDenied: ({ status, problem }, _request, response) => {
      response.status(status).send(`<h1>Slow down</h1><p>${problem.detail}</p>`);
    },
  });
}
