// In place of a language model: streams words as an OpenAI-compatible API does, one token each.
//
//   node upstream.mjs
//
// The request says how many `words` to write. With `hold`, the stream then stays open until the
// client disconnects; with `fail`, the request fails.
import { once } from "node:events";
import { createServer } from "node:http";
import { Readable } from "node:stream";
import { json } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";

const { PORT = "4000" } = process.env;

const server = createServer(async (request, response) => {
  const { messages, words = 20, fail = false, hold = false } = await json(request);
  if (fail) {
    response.writeHead(500).end();
    return;
  }

  response.writeHead(200, { "content-type": "text/event-stream" });
  const held = hold ? once(response, "close") : undefined;
  // Writes no faster than the client reads, and stops when it disconnects.
  await pipeline(Readable.from(events(messages, words, held)), response).catch(() => {});
});

async function* events(messages, words, held) {
  const data = (event) => `data: ${JSON.stringify(event)}\n\n`;
  for (let word = 1; word <= words; word += 1) {
    yield data({ choices: [{ delta: { content: `word${word} ` } }] });
  }
  await held;
  const prompt = messages.map(({ content }) => content).join(" ");
  const usage = { prompt_tokens: prompt.split(" ").length, completion_tokens: words };
  yield data({ choices: [], usage });
  yield "data: [DONE]\n\n";
}

server.listen(Number(PORT), "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`);
});
