// Runs a build of the package in Cloudflare's workerd, in Deno and in Bun. Not part of `npm test`,
// because the runtimes are 300 MB: `npm run build && npm run test:runtimes`, or `cargo xtask test`.
//
// Installs them into target/, or takes those of TOLLGATE_RUNTIMES, a directory with
// miniflare, deno and bun in its node_modules. TOLLGATE_BIN is the service. Without a registry that
// has the runtimes, it says so and tests nothing, unless TOLLGATE_RUNTIMES_REQUIRED is set.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const VERSIONS = ["miniflare@4.20260730.0", "deno@2.9.6", "bun@1.4.4"];
const REQUESTS = 30;

const packageRoot = dirname(dirname(fileURLToPath(import.meta.url)));
const runtimes = process.env.TOLLGATE_RUNTIMES ?? install();
if (runtimes === undefined) {
  console.log("skipped: npm cannot install workerd, Deno and Bun; the reason is above");
  process.exit(process.env.TOLLGATE_RUNTIMES_REQUIRED === undefined ? 0 : 1);
}
const service = await startService();
try {
  for (const flags of [[], ["nodejs_compat"]]) await testWorkerd(flags);
  for (const [runtime, ...args] of [["deno", "run", "--allow-all"], ["bun"]]) {
    testInProcess(runtime, args);
  }
} finally {
  service.process.kill();
}

/**
 * A client and a middleware at the level of the module serve concurrent requests, each in a context
 * of its own. The limit of the middleware is one of the service's file.
 */
async function testWorkerd(compatibilityFlags) {
  const { Miniflare } = await import(pathOf("miniflare"));
  const root = join(packageRoot, "dist/esm");
  const worker = `
    import { tollgate } from "./adapters/hono.js";
    import { Tollgate } from "./index.js";
    const api = { name: "api", algorithm: "fixed_window", limit: ${REQUESTS}, window: "1h" };
    const url = ${JSON.stringify(service.url)};
    const limiter = new Tollgate({ url, limits: [api], timeoutMs: 20_000 });
    const key = ${JSON.stringify(`worker ${compatibilityFlags}`)};
    const service = new Tollgate({ url, timeoutMs: 20_000 });
    const middleware = tollgate({ client: service, limits: { limit: "file", key: () => key } });
    export default {
      async fetch(request) {
        if (new URL(request.url).pathname === "/middleware") {
          const header = (name) => request.headers.get(name) ?? undefined;
          const context = { req: { header }, set() {}, res: new Response("hello") };
          return (await middleware(context, async () => {})) ?? context.res;
        }
        const checks = [key, key].map((each) => limiter.check("api", each));
        return Response.json((await Promise.all(checks)).map(({ allowed }) => allowed));
      },
    };`;
  const names = readdirSync(root, { recursive: true }).filter((name) => name.endsWith(".js"));
  const read = (name) => readFileSync(join(root, name), "utf8");
  const files = names.map((name) => ({ type: "ESModule", path: name, contents: read(name) }));
  const modules = [{ type: "ESModule", path: "worker.js", contents: worker }, ...files];

  const compatibilityDate = "2026-07-01";
  const miniflare = new Miniflare({ modules, compatibilityDate, compatibilityFlags });
  try {
    await miniflare.ready;
    const ask = () => miniflare.dispatchFetch("http://worker/");
    const responses = await Promise.all(Array.from({ length: REQUESTS }, ask));
    const answers = await Promise.all(responses.map((response) => response.json()));
    assert.equal(answers.flat().filter((allowed) => allowed).length, REQUESTS);

    const guard = () => miniflare.dispatchFetch("http://worker/middleware");
    const guarded = await Promise.all(Array.from({ length: REQUESTS }, guard));
    const statuses = guarded.map(({ status }) => status).sort();
    const half = REQUESTS / 2;
    assert.deepEqual(statuses, [...Array(half).fill(200), ...Array(half).fill(429)]);
    assert.ok(guarded.every(({ headers }) => !headers.has("x-ratelimit-fallback")));
    console.log(`ok workerd [${compatibilityFlags}]: ${REQUESTS} concurrent requests, twice`);
  } finally {
    await miniflare.dispose();
  }
}

/** The native module, and the HTTP engine. */
function testInProcess(runtime, args) {
  const program = join(runtimes, `${runtime}.mjs`);
  const index = join(packageRoot, "dist/esm/index.js");
  writeFileSync(program, `
    import { Tollgate } from ${JSON.stringify(index)};
    const limits = [{ name: "api", algorithm: "fixed_window", limit: 2, window: "1h" }];
    for (const limiter of [
      await Tollgate.inProcess({ limits }),
      new Tollgate({ url: ${JSON.stringify(service.url)}, limits, timeoutMs: 20_000 }),
    ]) {
      const checks = [1, 2, 3].map(() => limiter.check("api", ${JSON.stringify(runtime)}));
      const decisions = await Promise.all(checks);
      console.log(decisions.map(({ allowed, degraded }) => allowed && !degraded).join());
      await limiter.close();
    }`);
  const command = join(runtimes, "node_modules/.bin", runtime);
  const { stdout, stderr, status } = spawnSync(command, [...args, program], {
    encoding: "utf8",
    timeout: 120_000,
  });
  const expected = "true,true,false\n".repeat(2);
  assert.deepEqual({ status, stdout }, { status: 0, stdout: expected }, `${runtime}: ${stderr}`);
  console.log(`ok ${runtime}: in process and over HTTP`);
}

function install() {
  // Deno does not run programs inside of node_modules.
  const directory = join(packageRoot, "../../target/node-runtimes");
  mkdirSync(directory, { recursive: true });
  const manifest = join(directory, "package.json");
  if (!existsSync(manifest)) writeFileSync(manifest, '{ "private": true }\n');
  if (VERSIONS.every((version) => isInstalled(directory, version))) return directory;
  const args = ["install", "--no-save", "--fetch-retries=1", "--loglevel=error", ...VERSIONS];
  const { status } = spawnSync("npm", args, { cwd: directory, stdio: "inherit" });
  return status === 0 ? directory : undefined;
}

function isInstalled(directory, version) {
  const [name, expected] = version.split("@");
  const manifest = join(directory, "node_modules", name, "package.json");
  return existsSync(manifest) && JSON.parse(readFileSync(manifest, "utf8")).version === expected;
}

function pathOf(name) {
  return createRequire(join(runtimes, "package.json")).resolve(name);
}

/** Resolves when the service listens. */
async function startService() {
  const program = process.env.TOLLGATE_BIN;
  assert.ok(program !== undefined, "set TOLLGATE_BIN to the service");
  const ports = ["--http", "--grpc", "--admin"].flatMap((name) => [name, "127.0.0.1:0"]);
  const config = join(runtimes, "tollgate.yaml");
  const file = { name: "file", key: ["user"], algorithm: "fixed_window", window: "1h" };
  writeFileSync(config, JSON.stringify({ limits: [{ ...file, limit: REQUESTS / 2 }] }));
  const args = ["serve", "--config", config, ...ports];
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
  for await (const line of createInterface({ input: child.stdout })) {
    const [, url] = /^\s*http\s+(http:\S+)/.exec(line) ?? [];
    if (url !== undefined) return { url, process: child };
  }
  throw new Error("the service did not start");
}
