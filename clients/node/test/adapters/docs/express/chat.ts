import express, { type Request } from "express";
import type { Tollgate } from "../../../../src/tollgate.js";
import { by, tollgate } from "../../../../src/adapters/express.js";

interface Chunk {
  text: string;
  tokensSoFar: number;
}

export function createChat(client: Tollgate, callModel: () => AsyncIterable<Chunk>) {
  const key = by.header("x-api-key");
  const budget = tollgate({
    client,
    onMissingKey: 401,
    limits: [
      { limit: "requests", key, cost: 1 }, // a cost of its own: it is not settled
      { limit: "tokens", key }, // the estimate, then the actual cost
      { limit: "in-flight", key, cost: 1 },
    ],
    estimate: (request: Request) => Number(request.query.max_tokens ?? 500),
  });

  const router = express.Router();
  router.get("/chat", budget, async (request, response) => {
    for await (const { text, tokensSoFar } of callModel()) {
      request.tollgate?.report(tokensSoFar);
      response.write(text);
    }
    response.end();
  });
  return router;
}
