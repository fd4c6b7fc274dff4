// app/api/chat/route.ts
import { by, withTollgate } from "../../../../src/adapters/next.js";
import { callModel } from "./model.js";
import { client } from "./limiter.js";

const tokens = { limit: "tokens", key: by.header("x-api-key"), onMissingKey: 401 as const };

export const GET = withTollgate(
  { client, limits: tokens, estimate: 500 },
  (_request, _context: { params: Promise<object> }, admitted) => {
    const answer = new ReadableStream({
      async start(controller) {
        for await (const { text, tokensSoFar } of callModel()) {
          admitted.report(tokensSoFar);
          controller.enqueue(new TextEncoder().encode(text));
        }
        controller.close();
      },
    });
    return new Response(answer);
  },
);
