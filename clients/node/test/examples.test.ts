/** Every example runs, and does what its comments say. */
import assert from "node:assert/strict";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { before, test, type TestContext } from "node:test";
import { Tollgate } from "../src/index.js";
import type { LimitOptions } from "../src/index.js";
import { checkCluster } from "./support/cluster.js";
import { buildPackage, run, startExample, startServer, type Example } from "./support/examples.js";
import { startRedis } from "./support/redis.js";
import { packageRoot, startService } from "./support/service.js";

const resolve = createRequire(import.meta.url).resolve;
/** Deadlines of a busy machine. */
const TIMEOUT_MS = "60000";

/** The limits of the LLM proxy, over an hour. */
const LIMITS: LimitOptions[] = [
  { name: "requests", algorithm: "sliding_window", limit: 60, window: "1h" },
  { name: "tokens", algorithm: "sliding_window", limit: 10_000, window: "1h", unit: "tokens" },
  { name: "in-flight", algorithm: "concurrency", limit: 4, permitTimeout: "10m" },
];

before(buildPackage);

test("four cluster workers admit exactly 1,000 of 10,000 requests at once", async (t) => {
  const redis = await startRedis(t);
  await checkCluster(t, { REDIS_URL: redis.url });
});

test("four cluster workers admit exactly 1,000 of 10,000 over HTTP", async (t) => {
  const redis = await startRedis(t);
  const store = { type: "redis", endpoints: [redis.url], timeout: "5s" };
  // The limit comes with the requests; a configuration has at least one of its own.
  const unused = { name: "unused", algorithm: "fixed_window", limit: 1, window: "1s" };
  const limits = [{ ...unused, key: ["client_ip"] }];
  const service = await startService(t, { config: { store, limits } });
  await checkCluster(t, { TOLLGATE_URL: service.url });
});

test("Fastify limits by address, and logins by email", async (t) => {
  const app = await startExample(t, "examples/fastify.mjs");
  const login = (password: string): Promise<Response> =>
    fetch(`${app.url}/login`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ email: "Ann@example.com", password }),
    });

  const home = await fetch(app.url);
  assert.equal(home.status, 200);
  assert.match(home.headers.get("ratelimit") ?? "", /^"api";r=99;t=\d+$/);
  const health = await fetch(`${app.url}/health`);
  assert.equal(health.headers.get("ratelimit"), null);

  const statuses: number[] = [];
  for (const password of ["a", "b", "c", "secret"]) statuses.push((await login(password)).status);
  assert.deepEqual(statuses, [401, 401, 401, 429]);
  const problem = (await (await login("d")).json()) as Record<string, unknown>;
  assert.deepEqual(problem["violated-policies"], ["login"]);
  assert.equal(await app.stop(), 0);
});

test("Hono follows the policies of its limits while the service is unavailable", async (t) => {
  const service = await startService(t);
  const env = { TOLLGATE_URL: service.url, TIMEOUT_MS };
  const app = await startExample(t, "examples/hono.mjs", env);
  const report = (): Promise<Response> =>
    fetch(`${app.url}/reports`, { method: "POST", headers: { "x-tenant": "acme" } });

  const hello = await fetch(`${app.url}/api/hello`);
  assert.deepEqual(await hello.json(), { hello: "world" });
  assert.match(hello.headers.get("ratelimit-policy") ?? "", /^"api";q=100/);
  assert.deepEqual(await (await report()).json(), { report: "made", remaining: 1 });
  assert.equal((await report()).status, 201);
  assert.equal((await report()).status, 429);

  await service.kill();
  const degraded = await fetch(`${app.url}/api/hello`);
  assert.equal(degraded.status, 200);
  assert.equal(degraded.headers.get("x-ratelimit-fallback"), "true");
  assert.equal((await report()).status, 503);
  assert.equal(await app.stop(), 0);
});

test("Nest asks all limits of a route at once", async (t) => {
  run([resolve("typescript/bin/tsc"), "-p", "examples/nest"]);
  const app = await startExample(t, "dist/examples/nest/main.js");
  const headers = { "x-user": "ann" };
  const ask = async (path: string, method = "GET"): Promise<number> =>
    (await fetch(`${app.url}/${path}`, { method, headers })).status;

  assert.equal(await ask("export", "POST"), 202);
  // A denied export takes nothing from `api`, which has four units left.
  for (let time = 0; time < 5; time += 1) assert.equal(await ask("export", "POST"), 429);
  const statuses = [await ask(""), await ask(""), await ask(""), await ask(""), await ask("")];
  assert.deepEqual(statuses, [200, 200, 200, 200, 429]);
  assert.equal(await ask("health"), 200);
  assert.equal((await fetch(app.url)).status, 401);
  await app.stop();
  // Nest ends its process with the signal that asked for it.
  assert.equal(app.process.signalCode, "SIGTERM");
});

test("Next is built, and limits in its proxy, a route handler and a server action", async (t) => {
  const service = await startService(t);
  const env = { NEXT_TELEMETRY_DISABLED: "1", TOLLGATE_URL: service.url, TIMEOUT_MS };

  // A copy, because Next writes into the folder of an application.
  const folder = join(packageRoot(), `dist/examples/next-${process.pid}`);
  t.after(() => { rmSync(folder, { recursive: true, force: true }); });
  cpSync(join(packageRoot(), "examples/next"), folder, { recursive: true });
  const next = resolve("next/dist/bin/next");
  run([next, "build"], { cwd: folder, env });
  const args = [next, "start", folder, "--hostname", "127.0.0.1", "--port", "0"];
  const app = await startServer(t, args, /Local:\s+(http\S+)/, env);

  const ask = (headers: Record<string, string>): Promise<Response> =>
    fetch(`${app.url}/api/hello`, { headers });
  const ann = { "x-api-key": "ann", "x-forwarded-for": "192.0.2.1" };
  const first = await ask(ann);
  assert.deepEqual(await first.json(), { hello: "world", remaining: 1 });
  assert.equal((await ask(ann)).status, 200);
  const denied = await ask(ann);
  assert.equal(denied.status, 429);
  assert.equal(denied.headers.get("content-type"), "application/problem+json");
  assert.ok(Number(denied.headers.get("retry-after")) > 0);

  // The proxy has counted these, too. What a client writes itself is left of what the proxy adds.
  const forged = { "x-forwarded-for": "198.51.100.9, 192.0.2.1" };
  assert.equal((await ask(forged)).status, 401);
  assert.equal((await ask(forged)).status, 401);
  assert.deepEqual(await violated(await ask({ ...forged, "x-api-key": "bob" })), ["api"]);
  const other = await ask({ "x-api-key": "bob", "x-forwarded-for": "192.0.2.2" });
  assert.equal(other.status, 200);

  const texts = [await submit(app.url), await submit(app.url), await submit(app.url)];
  assert.deepEqual(texts.slice(0, 2), ["Hello, ann!", "Hello, ann!"]);
  assert.match(texts[2] ?? "", /^Limit "mail" exceeded; retry in \d+ seconds?\.$/);
});

test("an LLM proxy charges what was used, over HTTP", async (t) => {
  const service = await startService(t);
  const limiter = new Tollgate({ url: service.url, timeoutMs: Number(TIMEOUT_MS), limits: LIMITS });
  t.after(() => limiter.close());
  await checkLlmProxy(t, limiter, { TOLLGATE_URL: service.url });
});

test("an LLM proxy charges what was used, in process with Redis", async (t) => {
  const redis = await startRedis(t);
  const options = { redis: redis.url, storeTimeout: "10s", limits: LIMITS };
  const limiter = await Tollgate.inProcess(options);
  t.after(() => limiter.close());
  await checkLlmProxy(t, limiter, { REDIS_URL: redis.url });
});

test("the programs of docs/node.md run", async (t) => {
  const folder = join(packageRoot(), `dist/examples/docs-${process.pid}`);
  t.after(() => { rmSync(folder, { recursive: true, force: true }); });
  const path = (name: string): string => join(folder, name);
  mkdirSync(folder, { recursive: true });
  const page = readFileSync(join(packageRoot(), "../../docs/node.md"), "utf8");
  for (const [, program = "", name = ""] of page.matchAll(/```js\n(\/\/ (\S+)\n.*?)```/gs)) {
    writeFileSync(path(name), program);
  }

  run([path("ask.mjs")]);
  run(["--test", path("app.test.mjs")]);
  const app = await startServer(t, [path("app.mjs")], /listening on (http\S+)/);
  const statuses: number[] = [];
  for (let time = 0; time < 6; time += 1) statuses.push((await fetch(app.url)).status);
  assert.deepEqual(statuses, [200, 200, 200, 200, 200, 429]);
  assert.equal(await app.stop(), 0);
});

async function checkLlmProxy(
  t: TestContext,
  limiter: Tollgate,
  env: NodeJS.ProcessEnv,
): Promise<void> {
  const upstream = await startExample(t, "examples/llm-proxy/upstream.mjs");
  const proxyEnv = { ...env, UPSTREAM_URL: upstream.url, WINDOW: "1h" };
  const proxy = await startExample(t, "examples/llm-proxy/proxy.mjs", proxyEnv);

  const settled = await ask(proxy, "settled", { words: 20, max_tokens: 100 });
  assert.equal(settled.status, 200);
  assert.match(await settled.text(), /word20 .*"completion_tokens":20.*\[DONE\]\n\n$/s);
  await used(limiter, "tokens", "settled", (tokens) => tokens === 23);
  await used(limiter, "requests", "settled", (requests) => requests === 1);
  await used(limiter, "in-flight", "settled", (calls) => calls === 0);

  const failed = await ask(proxy, "failed", { fail: true });
  assert.equal(failed.status, 502);
  await used(limiter, "tokens", "failed", (tokens) => tokens === 0);
  await used(limiter, "in-flight", "failed", (calls) => calls === 0);

  await checkHeldCalls(proxy, limiter);
  assert.equal((await fetch(`${proxy.url}/v1/chat/completions`, { method: "POST" })).status, 401);
  assert.equal(await proxy.stop(), 0);
}

/** Calls in flight take a permit and their estimate, until the client disconnects. */
async function checkHeldCalls(proxy: Example, limiter: Tollgate): Promise<void> {
  const abort = new AbortController();
  const hold = async (user: string, max_tokens: number): Promise<void> => {
    const body = { hold: true, words: 5, max_tokens };
    const held = await ask(proxy, user, body, abort.signal);
    assert.equal(held.status, 200);
    const reader = held.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    while (!text.includes("word5")) {
      const { value } = await reader.read();
      assert.ok(value !== undefined, `the stream ended after: ${text}`);
      text += value;
    }
  };

  for (let time = 0; time < 4; time += 1) await hold("busy", 100);
  assert.deepEqual(await violated(await ask(proxy, "busy", { max_tokens: 100 })), ["in-flight"]);

  for (let time = 0; time < 2; time += 1) await hold("greedy", 4_900);
  assert.deepEqual(await violated(await ask(proxy, "greedy", { max_tokens: 500 })), ["tokens"]);
  await used(limiter, "requests", "greedy", (requests) => requests === 2);

  abort.abort();
  await used(limiter, "in-flight", "busy", (calls) => calls === 0);
  await used(limiter, "in-flight", "greedy", (calls) => calls === 0);
  // A client that disconnects pays for what was written: here 4 for the prompt, and 5 words.
  await used(limiter, "tokens", "busy", (tokens) => tokens === 4 * 9);
  await used(limiter, "tokens", "greedy", (tokens) => tokens === 2 * 9);
}

/** Submits the form of the page as a browser without scripts does; the text of the next page. */
async function submit(url: string): Promise<string> {
  const headers = { "x-forwarded-for": "192.0.2.3" };
  const page = await (await fetch(url, { headers })).text();
  const [, action = ""] = /name="(\$ACTION_ID_[^"]+)"/.exec(page) ?? [];
  const body = new FormData();
  body.set(action, "");
  body.set("name", "ann");
  const response = await fetch(url, { method: "POST", headers, body, redirect: "manual" });
  assert.equal(response.status, 303, await response.text());

  const location = new URL(response.headers.get("location") ?? "", url);
  const next = await (await fetch(location, { headers })).text();
  const [, text = ""] = /<output>([^<]*)</.exec(next) ?? [];
  return text.replaceAll("&quot;", '"');
}

function ask(
  proxy: Example,
  user: string,
  body: Record<string, unknown>,
  signal: AbortSignal | null = null,
): Promise<Response> {
  return fetch(`${proxy.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "x-api-key": user, "content-type": "application/json" },
    body: JSON.stringify({ messages: [{ role: "user", content: "count to twenty" }], ...body }),
    signal,
  });
}

/** Resolves when the counter is as expected: a response ends before its cost is settled. */
async function used(
  limiter: Tollgate,
  limit: string,
  key: string,
  isExpected: (used: number) => boolean,
): Promise<void> {
  for (;;) {
    const [counter] = (await limiter.peek(limit, key)).limits;
    const count = limit === "in-flight" ? counter?.inFlight : counter?.used;
    assert.ok(count !== undefined, `peek does not tell what ${limit} contains`);
    if (isExpected(count)) return;
  }
}

async function violated(response: Response): Promise<unknown> {
  assert.equal(response.status, 429);
  return ((await response.json()) as Record<string, unknown>)["violated-policies"];
}
