// A proxy before a language model: 60 requests and 10,000 tokens per minute, and four calls in
// flight, per API key. A request takes all three or none.
//
//   node upstream.mjs &
//   node proxy.mjs
//   curl -N -H 'x-api-key: ann' -H 'content-type: application/json' \
//     -d '{"messages": [{"role": "user", "content": "count to ten"}], "max_tokens": 100}' \
//     http://127.0.0.1:3000/v1/chat/completions
//
// Counts in memory; in Redis if REDIS_URL is set, in a service if TOLLGATE_URL is set.
import { pipeline } from "node:stream/promises";
import express from "express";
import { Tollgate } from "tollgate";
import { by, tollgate } from "tollgate/express";

const { PORT = "3000", UPSTREAM_URL = "http://127.0.0.1:4000", WINDOW = "1m" } = process.env;
const { REDIS_URL, TOLLGATE_URL } = process.env;

const limits = [
  { name: "requests", algorithm: "sliding_window", limit: 60, window: WINDOW },
  { name: "tokens", algorithm: "sliding_window", limit: 10_000, window: WINDOW, unit: "tokens" },
  { name: "in-flight", algorithm: "concurrency", limit: 4, permitTimeout: "10m" },
];
// A model takes seconds, so a decision may wait for its store much longer than by default.
const limiter =
  TOLLGATE_URL === undefined
    ? await Tollgate.inProcess({ redis: REDIS_URL, storeTimeout: "5s", limits })
    : new Tollgate({ url: TOLLGATE_URL, timeoutMs: 5_000, limits });

/** About four characters are a token. Too much comes back; too little is owed. */
const promptTokens = ({ messages = [] }) =>
  messages.reduce((sum, { content = "" }) => sum + Math.ceil(content.length / 4), 0);

const key = by.header("x-api-key");
const budget = tollgate({
  client: limiter,
  onMissingKey: 401,
  limits: [
    { limit: "requests", key, cost: 1 },
    { limit: "tokens", key }, // the estimate, then the actual cost
    { limit: "in-flight", key, cost: 1 },
  ],
  estimate: ({ body }) => promptTokens(body) + (body.max_tokens ?? 1_000),
});

const app = express();
app.post("/v1/chat/completions", express.json(), budget, async (request, response) => {
  const abort = new AbortController();
  response.on("close", () => abort.abort());
  const answer = await fetch(`${UPSTREAM_URL}/v1/chat/completions`, {
    method: "POST",
    body: JSON.stringify({ ...request.body, stream: true }),
    signal: abort.signal,
  });
  // A failed response without a report costs no tokens: the reservation is cancelled.
  if (!answer.ok) return response.status(502).json({ error: "the model failed" });

  response.type("text/event-stream");
  const report = (tokens) => request.tollgate.report(tokens);
  const events = relay(answer.body, promptTokens(request.body), report);
  await pipeline(events, response).catch((error) => {
    if (!abort.signal.aborted) throw error;
  });
});

/** The stream of the model. Reports a running total, so that who disconnects pays for that much. */
async function* relay(body, prompt, report) {
  let tokens = prompt;
  for await (const event of serverSentEvents(body)) {
    // The last event has the exact numbers. Until then, an event is about one token.
    const { usage } = event;
    tokens = usage ? usage.prompt_tokens + usage.completion_tokens : tokens + 1;
    report(tokens);
    yield `data: ${JSON.stringify(event)}\n\n`;
  }
  yield "data: [DONE]\n\n";
}

/** The events of a stream, without the `[DONE]` at its end. */
async function* serverSentEvents(body) {
  let text = "";
  for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
    const events = (text + chunk).split("\n\n");
    text = events.pop();
    for (const event of events) {
      if (event.startsWith("data: {")) yield JSON.parse(event.slice("data: ".length));
    }
  }
}

const server = app.listen(Number(PORT), "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`);
});
process.once("SIGTERM", () => server.close(() => limiter.close()));
