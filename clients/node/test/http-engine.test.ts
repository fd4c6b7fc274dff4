/** What the HTTP engine sends, and how it uses connections. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { test, type TestContext } from "node:test";
import { pathToFileURL } from "node:url";
import { join } from "node:path";
import { nodePost } from "../src/engines/node-http.js";
import { Tollgate } from "../src/index.js";
import { ALLOWED, startFaultyService } from "./support/faulty-service.js";
import { freeze } from "./support/process.js";
import { packageRoot, startService } from "./support/service.js";

test("checks of the same moment are one request with the token", async (context) => {
  const seen: { url: string; authorization: string; count: number; ports: Set<number> }[] = [];
  const ports = new Set<number>();
  const url = await startFaultyService(context, ({ request, requests, answerAll }) => {
    ports.add(request.socket.remotePort ?? 0);
    const authorization = request.headers.authorization ?? "";
    seen.push({ url: request.url ?? "", authorization, count: requests.length, ports });
    answerAll(200, ALLOWED, { "x-from": "the answer" });
  });
  const api = { name: "api", algorithm: "fixed_window", limit: 5, window: "1h" } as const;
  const options = { token: "secret", timeoutMs: 10_000, limits: [api] };
  const limiter = new Tollgate({ url: `${url}/prefix/`, ...options });
  context.after(() => limiter.close());

  for (let round = 0; round < 5; round += 1) {
    const checks = Array.from({ length: 20 }, () => limiter.check("api", "ann"));
    const [decision] = await Promise.all(checks);
    assert.deepEqual(decision?.headers(), { "x-from": "the answer" });
  }
  assert.equal(seen.length, 5);
  for (const { url: path, authorization, count } of seen) {
    assert.deepEqual([path, authorization, count], ["/prefix/v1/batch", "Bearer secret", 20]);
  }
  assert.equal(ports.size, 1, "the connection is kept");
});

test("without Node's HTTP client, fetch does the same", { timeout: 60_000 }, async (context) => {
  const service = await startService(context);
  const api = { name: "api", algorithm: "fixed_window", limit: 5, window: "1h" } as const;
  const builtin = Object.getOwnPropertyDescriptor(process, "getBuiltinModule");
  assert.ok(builtin !== undefined);
  Object.defineProperty(process, "getBuiltinModule", { ...builtin, value: undefined });
  const limiter = new Tollgate({ url: service.url, limits: [api], timeoutMs: 10_000 });
  const short = new Tollgate({ url: service.url, limits: [api], timeoutMs: 20 });
  Object.defineProperty(process, "getBuiltinModule", builtin);

  const decisions = await Promise.all([1, 2, 3].map(() => limiter.check("api", "ann")));
  assert.deepEqual(decisions.map((decision) => decision.limits[0]?.remaining), [4, 3, 2]);
  await assert.rejects(limiter.check("nope", "ann"), { code: "unknown-limit" });

  await freeze(service.process);
  assert.equal((await short.check("api", "ann")).degraded, true);
  service.process.kill("SIGCONT");
  while ((await short.check("api", "ann", { cost: 0 })).degraded);
  await service.kill();
  assert.equal((await limiter.check("api", "ann")).degraded, true);
});

/** Answers the first request of each connection and closes it when the second one arrives. */
async function closingServer(context: TestContext): Promise<{ url: URL; requests(): number }> {
  let requests = 0;
  const server = createServer((socket: Socket) => {
    let isFirst = true;
    socket.on("error", () => undefined);
    socket.on("data", () => {
      requests += 1;
      if (isFirst) socket.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
      else socket.resetAndDestroy();
      isFirst = false;
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => {
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { url: new URL(`http://127.0.0.1:${port}/v1/batch`), requests: () => requests };
}

test("a request on a connection that was closed while idle is sent once more", async (context) => {
  const server = await closingServer(context);
  const post = nodePost(server.url, {}, 1, 0);
  assert.ok(post !== undefined);
  context.after(() => {
    post.close();
  });
  assert.equal((await post("1", {})).status, 200);
  assert.equal((await post("2", {})).status, 200);
  assert.equal(server.requests(), 3);
});

test("a request on a connection that was in use is never sent twice", async (context) => {
  const server = await closingServer(context);
  const post = nodePost(server.url, {}, 1, Infinity);
  assert.ok(post !== undefined);
  context.after(() => {
    post.close();
  });
  assert.equal((await post("1", {})).status, 200);
  await assert.rejects(post("2", {}), { code: "ECONNRESET" });
  assert.equal(server.requests(), 2);
});

test("an open client does not keep the process alive", async (context) => {
  const service = await startService(context);
  const index = pathToFileURL(join(packageRoot(), "dist/test/src/index.js")).href;
  const script = `
    import { Tollgate } from ${JSON.stringify(index)};
    const limits = [{ name: "api", algorithm: "fixed_window", limit: 5, window: "1h" }];
    const url = ${JSON.stringify(service.url)};
    const limiter = new Tollgate({ url, limits, timeoutMs: 300000 });
    console.log((await limiter.check("api", "ann")).limits[0].remaining);`;
  const { stdout, stderr, status } = spawnSync(
    process.execPath,
    ["--input-type=module", "-e", script],
    { encoding: "utf8", timeout: 60_000 },
  );
  assert.deepEqual([stdout, stderr, status], ["4\n", "", 0]);
});

test("wrong options are errors that say what is right", () => {
  const open = (options: object) => () => new Tollgate({ url: "http://x", ...options });
  const cases: [object, RegExp][] = [
    [{ url: "localhost:8080" }, /url must be the address .*, but it is "localhost:8080"/],
    [{ url: undefined }, /url must be the address .*, but it is undefined/],
    [{ timeoutMs: 0 }, /timeoutMs must be a number of milliseconds above 0.*, but it is 0/],
    [{ timeoutMs: "50" }, /timeoutMs must be .*, but it is "50"/],
    [{ onUnavailable: "open" }, /onUnavailable must be "allow" or "deny", but it is "open"/],
    [{ onUnavailable: { limits: { a: 1 } } }, /onUnavailable\.limits\.a must be .* it is 1/],
    [{ limits: [{ algorithm: "fixed_window" }] }, /a limit must be an object with a name/],
  ];
  for (const [options, message] of cases) assert.throws(open(options), message);
});
