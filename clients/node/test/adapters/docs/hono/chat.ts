import { Hono } from "hono";
import { streamText } from "hono/streaming";
import type { Tollgate } from "../../../../src/tollgate.js";
import { by, tollgate } from "../../../../src/adapters/hono.js";

interface Chunk {
  text: string;
  tokensSoFar: number;
}

export function createChat(client: Tollgate, callModel: () => AsyncIterable<Chunk>) {
  const tokens = { limit: "tokens", key: by.header("x-api-key"), onMissingKey: 401 as const };
  const app = new Hono();
  app.get("/chat", tollgate({ client, limits: tokens, estimate: 500 }), (context) =>
    streamText(context, async (stream) => {
      for await (const { text, tokensSoFar } of callModel()) {
        context.get("tollgate")?.report(tokensSoFar);
        await stream.write(text);
      }
    }),
  );
  return app;
}
