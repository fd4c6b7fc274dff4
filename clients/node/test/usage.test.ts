/** Usage objects of providers, passed as they are: see docs/llm.md. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type LimitOptions, Tollgate } from "../src/index.js";
import { open, skip } from "./support/native.js";
import { startService, temporaryConfig } from "./support/service.js";

/** With the types of `openai`: an interface, whose members may be null. */
interface ChatUsage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  prompt_tokens_details?: { cached_tokens?: number; audio_tokens?: number };
  completion_tokens_details?: { reasoning_tokens?: number } | null;
}

const chat: ChatUsage & Record<string, unknown> = {
  prompt_tokens: 900,
  completion_tokens: 500,
  total_tokens: 1_400,
  prompt_tokens_details: { cached_tokens: 400, audio_tokens: 0 },
  completion_tokens_details: {
    reasoning_tokens: 300,
    audio_tokens: 0,
    accepted_prediction_tokens: 0,
    rejected_prediction_tokens: 0,
  } as { reasoning_tokens: number },
};
const responses = {
  input_tokens: 900,
  input_tokens_details: { cached_tokens: 400 },
  output_tokens: 500,
  output_tokens_details: { reasoning_tokens: 300 },
  total_tokens: 1_400,
};
const messages = {
  input_tokens: 500,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 400,
  cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 },
  output_tokens: 500,
  server_tool_use: { web_search_requests: 0, web_fetch_requests: 0 },
  service_tier: "standard",
  inference_geo: null,
};

const BUDGET = {
  name: "tokens",
  algorithm: "token_bucket",
  capacity: 100_000,
  refill_rate: "1/h",
  key: ["user"],
  cost: { tokens: { input: 10, output: 40, cached: 1 } },
};
/** 500 tokens that were not cached, 400 that were, and 500 of output. */
const CHARGED = 500 * 10 + 400 + 500 * 40;

test("usage objects are settled and charged as they are", { skip }, async (context) => {
  const config = { limits: [BUDGET] };
  const service = await startService(context, { config });
  const overHttp = new Tollgate({ url: service.url, timeoutMs: 30_000 });
  context.after(() => overHttp.close());
  const inProcess = await open(context, { configFile: temporaryConfig(context, config) });

  for (const limiter of [overHttp, inProcess]) {
    for (const [key, tokens] of Object.entries({ chat, responses, messages })) {
      const reserved = await limiter.reserve("tokens", key, { tokens });
      assert.equal(reserved.limits[0]?.remaining, 100_000 - CHARGED, key);
      const settled = await limiter.settle(reserved, { tokens });
      assert.deepEqual(settled, { charged: CHARGED, reservation: "open" });

      const checked = await limiter.check("tokens", key, { tokens });
      assert.equal(checked.limits[0]?.remaining, 100_000 - 2 * CHARGED, key);
      await limiter.refund("tokens", key, { tokens });
      assert.equal((await limiter.peek("tokens", key)).limits[0]?.used, CHARGED, key);
    }
  }
});

test("a usage object that counts nothing, or a wrong number, is an error", async () => {
  const limiter = new Tollgate({ url: "http://127.0.0.1:1" });
  const api: LimitOptions = { name: "api", algorithm: "fixed_window", limit: 5, window: "1h" };
  const wrong: unknown[] = [null, "x", [5], {}, { total_tokens: 5 }];
  wrong.push({ ...messages, output_tokens: 1.5 });
  wrong.push({ ...chat, prompt_tokens_details: { cached_tokens: -1 } });
  for (const tokens of wrong as never[]) {
    const message = /tokens.* must be .*, but it is /;
    await assert.rejects(limiter.settle("r", { tokens }), { code: "bad-cost", message });
    await assert.rejects(limiter.reserve(api, "ann", { tokens }), { code: "bad-cost", message });
    await assert.rejects(limiter.check(api, "ann", { tokens }), { code: "bad-cost", message });
  }
  const ttl = { ttl: "1m" } as object;
  await assert.rejects(limiter.check(api, "ann", ttl), /unknown option "ttl"/);
  await limiter.close();
});
