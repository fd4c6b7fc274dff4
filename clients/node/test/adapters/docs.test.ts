// Every program of the pages on frameworks is a file in ./docs, and runs here.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { NestFactory } from "@nestjs/core";
import express from "express";
import Koa from "koa";
import { NextRequest, type NextFetchEvent } from "next/server.js";
import { Tollgate } from "../../src/tollgate.js";
import type { LimitOptions } from "../../src/types.js";
import { packageRoot, startService } from "../support/service.js";
import * as expressApp from "./docs/express/app.js";
import * as expressChat from "./docs/express/chat.js";
import * as expressKeys from "./docs/express/keys.js";
import * as expressLogin from "./docs/express/login.js";
import * as expressPage from "./docs/express/page.js";
import * as fastifyApp from "./docs/fastify/app.js";
import * as fastifyLogin from "./docs/fastify/login.js";
import * as honoApp from "./docs/hono/app.js";
import * as honoChat from "./docs/hono/chat.js";
import honoWorker from "./docs/hono/worker.js";
import * as koaApp from "./docs/koa/app.js";
import * as koaCost from "./docs/koa/cost.js";
import { callModel } from "./docs/next/model.js";
import { listen, WatchedClient } from "./harness.js";

const hourly = (name: string, limit: number): LimitOptions => ({
  ...{ name, algorithm: "fixed_window", window: "1h" },
  limit,
});
const LIMITS: LimitOptions[] = [
  ...[hourly("api", 2), hourly("address", 4), hourly("tenant", 3), hourly("route", 2)],
  ...[hourly("login-address", 9), hourly("login-account", 1), hourly("requests", 9)],
  ...[hourly("tokens", 1_000), hourly("search", 9), hourly("mail", 1)],
  { name: "in-flight", algorithm: "concurrency", limit: 1, permitTimeout: "5m" },
];

/** `client` is a `Tollgate` whose calls a test can wait for. */
async function start(t: TestContext) {
  const service = await startService(t);
  const real = new Tollgate({ url: service.url, timeoutMs: 5_000, limits: LIMITS });
  t.after(() => real.close());
  const watched = new WatchedClient(real);
  const used = async (limit: string, key: string) => (await real.peek(limit, key)).limits[0]?.used;
  return { url: service.url, client: watched as unknown as Tollgate, watched, used };
}

async function statuses(count: number, ask: () => unknown): Promise<number[]> {
  const found: number[] = [];
  for (let time = 0; time < count; time += 1) found.push(((await ask()) as Response).status);
  return found;
}

const isRight = ({ password }: { password?: string }) => password === "secret";

function login(url: string, password: string, email = "Ann@example.com"): Promise<Response> {
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ email, password });
  return fetch(`${url}/login`, { method: "POST", headers, body });
}

for (const page of ["express", "fastify", "hono", "koa", "nest", "next"]) {
  test(`docs/node-${page}.md shows programs that are tested`, () => {
    const folder = join(packageRoot(), "test/adapters/docs", page);
    const programs = readdirSync(folder).map((name) =>
      readFileSync(join(folder, name), "utf8")
        .replace(/"[./]+src\/adapters\/(\w+)\.js"/g, '"tollgate/$1"')
        .replace(/"[./]+src\/tollgate\.js"/g, '"tollgate"'),
    );
    const text = readFileSync(join(packageRoot(), `../../docs/node-${page}.md`), "utf8");
    const shown = [...text.matchAll(/```ts\n(.*?)```/gs)].map(([, program = ""]) => program);
    // A line of options is not a program.
    const tested = shown.filter((program) => program.includes("import "));
    assert.ok(tested.length >= 2, text);
    for (const program of tested) assert.ok(programs.includes(program), program);
  });
}

test("the programs on Express run: an application, keys and a page", async (t) => {
  const { client, used } = await start(t);
  const simple = await listen(t, expressApp.createApp(client));
  assert.deepEqual(await statuses(3, () => fetch(simple)), [200, 200, 429]);

  const app = express();
  app.use(expressKeys.limitTenants(client));
  app.get("/{*path}", (_request, response) => response.send("hello"));
  const url = await listen(t, app);
  const ask = (path: string) => fetch(url + path, { headers: { "x-tenant": "acme" } });
  assert.equal((await fetch(url)).status, 401);
  assert.deepEqual(await statuses(3, () => ask("/a")), [200, 200, 429]);
  assert.equal((await ask("/b")).status, 200);
  assert.deepEqual([await used("address", "127.0.0.1"), await used("tenant", "acme")], [3, 3]);
  assert.equal((await fetch(`${url}/healthz`)).status, 200);

  const withPage = express();
  withPage.use(expressPage.limitWithPage(client));
  const denied = await fetch(await listen(t, withPage));
  assert.equal(denied.status, 429);
  assert.match(await denied.text(), /^<h1>Slow down<\/h1><p>Limit "api" exceeded/);
});

test("the programs on Express run: a login and a stream", async (t) => {
  const { client, watched, used } = await start(t);
  const app = express();
  app.use(expressLogin.createLogin(client, isRight), expressChat.createChat(client, callModel));
  const url = await listen(t, app);

  for (let time = 0; time < 3; time += 1) {
    assert.equal((await login(url, "secret")).status, 204);
    await watched.done("refund");
  }
  assert.equal((await login(url, "wrong")).status, 401);
  assert.equal((await login(url, "secret")).status, 429);
  assert.equal((await login(url, "wrong", "")).status, 400);

  const chat = (headers: Record<string, string>) =>
    fetch(`${url}/chat?max_tokens=100`, { headers });
  assert.equal((await chat({})).status, 401);
  const answer = await chat({ "x-api-key": "ann" });
  assert.equal(await answer.text(), "one two");
  await watched.done("settle");
  assert.deepEqual([await used("tokens", "ann"), await used("requests", "ann")], [7, 1]);
  assert.equal((await chat({ "x-api-key": "ann" })).status, 200);
});

test("the programs on Fastify run", async (t) => {
  const { client, watched } = await start(t);
  const app = await fastifyApp.createApp(client);
  t.after(() => app.close());
  const url = await app.listen({ host: "127.0.0.1", port: 0 });
  assert.deepEqual(await statuses(2, () => fetch(url)), [200, 200]);
  assert.deepEqual(await statuses(2, () => fetch(`${url}/healthz`)), [200, 200]);
  assert.equal((await fetch(url)).status, 429);
  await client.refund("api", "127.0.0.1", { cost: 2 });
  await watched.done("refund");

  const withLogin = await fastifyLogin.createLogin(client, isRight);
  t.after(() => withLogin.close());
  const loginUrl = await withLogin.listen({ host: "127.0.0.1", port: 0 });
  assert.equal((await login(loginUrl, "secret")).status, 204);
  await watched.done("refund");
  assert.equal((await login(loginUrl, "wrong", "")).status, 400);
  assert.equal((await login(loginUrl, "wrong")).status, 401);
  assert.equal((await login(loginUrl, "wrong")).status, 429);
});

test("the programs on Hono run", async (t) => {
  const { client, url, watched, used } = await start(t);
  const env = { incoming: { socket: { remoteAddress: "203.0.113.1" } } };
  const app = honoApp.createApp(client);
  assert.deepEqual(await statuses(3, () => app.request("/", {}, env)), [200, 200, 429]);

  const file = { limits: [{ ...hourly("api", 2), key: ["client_ip"] }] };
  const configured = await startService(t, { config: file });
  assert.notEqual(configured.url, url);
  const headers = { "cf-connecting-ip": "203.0.113.2" };
  const bindings = { TOLLGATE_URL: configured.url };
  const ask = () => honoWorker.request("/", { headers }, bindings);
  assert.deepEqual(await statuses(3, ask), [200, 200, 429]);
  assert.equal((await honoWorker.request("/", {}, bindings)).status, 500);

  const chat = honoChat.createChat(client, callModel);
  const answer = await chat.request("/chat", { headers: { "x-api-key": "ann" } });
  assert.equal(await answer.text(), "one two");
  await watched.done("settle");
  assert.equal(await used("tokens", "ann"), 7);
});

test("the programs on Koa run", async (t) => {
  const { client, used } = await start(t);
  const url = await listen(t, koaApp.createApp(client).callback());
  assert.deepEqual(await statuses(3, () => fetch(url)), [200, 200, 429]);

  const app = new Koa();
  app.use(koaCost.limitSearches(client));
  app.use((context) => { context.body = "hello"; });
  const searchUrl = await listen(t, app.callback());
  const headers = { "x-user": "ann" };
  assert.equal((await fetch(`${searchUrl}/search`, { headers })).status, 200);
  assert.equal((await fetch(`${searchUrl}/other`, { headers })).status, 200);
  assert.equal(await used("search", "ann"), 6);
  assert.equal((await fetch(searchUrl)).status, 401);
});

test("the programs on Nest and Next run", async (t) => {
  const { url } = await start(t);
  process.env.TOLLGATE_URL = url;
  const { AppModule } = await import("./docs/nest/app.module.js");
  const app = await NestFactory.create(AppModule, { logger: false, forceCloseConnections: true });
  t.after(() => app.close());
  await app.listen(0, "127.0.0.1");
  const nest = await app.getUrl();
  const byAnn = { method: "POST", headers: { "x-user": "ann" } };
  assert.deepEqual(await statuses(2, () => fetch(`${nest}/export`, byAnn)), [201, 429]);
  assert.equal((await fetch(`${nest}/export`, { method: "POST" })).status, 401);
  assert.deepEqual(await statuses(2, () => fetch(nest)), [200, 429]);
  assert.equal((await fetch(`${nest}/healthz`)).status, 200);

  const { client } = await import("./docs/next/limiter.js");
  t.after(() => client.close());
  const { proxy } = await import("./docs/next/proxy.js");
  const { GET } = await import("./docs/next/route.js");
  const headers = { "x-forwarded-for": "203.0.113.9", "x-api-key": "bob" };
  const request = () => new NextRequest("http://localhost/api/chat", { headers });
  const found = await statuses(3, () => proxy(request(), {} as NextFetchEvent));
  assert.deepEqual(found, [200, 200, 429]);

  const answer = await GET(request(), { params: Promise.resolve({}) });
  assert.equal(await answer.text(), "one two");
  assert.equal((await client.peek("tokens", "bob")).limits[0]?.used, 7);
  const { sendMail } = await import("./docs/next/actions.js");
  // Outside of Next there is no request.
  await assert.rejects(sendMail(new FormData()), /outside a request scope/);
});
