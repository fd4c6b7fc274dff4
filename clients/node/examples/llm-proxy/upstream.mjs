// In place of a language model: streams words as an OpenAI-compatible API does, one token each.
//
//   node upstream.mjs
//
// It says as many words as the member `words` of the request, and then fails if `fail` is true.
import { createServer } from "node:http";
import { json } from "node:stream/consumers";
import { setImmediate } from "node:timers/promises";

const { PORT = "4000" } = process.env;

const server = createServer(async (request, response) => {
  const { messages, words = 20, fail = false } = await json(request);
  if (fail) {
    response.writeHead(500).end();
    return;
  }

  response.writeHead(200, { "content-type": "text/event-stream" });
  const send = (event) => response.write(`data: ${JSON.stringify(event)}\n\n`);
  let written = 0;
  while (written < words && !response.destroyed) {
    written += 1;
    send({ choices: [{ delta: { content: `word${written} ` } }] });
    await setImmediate();
  }
  const prompt = messages.map(({ content }) => content.split(/\s+/).length);
  const prompt_tokens = prompt.reduce((sum, tokens) => sum + tokens, 0);
  send({ choices: [], usage: { prompt_tokens, completion_tokens: written } });
  response.end("data: [DONE]\n\n");
});

server.listen(Number(PORT), "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`);
});
