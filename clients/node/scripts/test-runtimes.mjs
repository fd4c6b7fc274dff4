// Runs a build of the package in Cloudflare's workerd, in Deno and in Bun. Not part of `npm test`,
// because the runtimes are 300 MB: `npm run build && npm run test:runtimes`.
//
// Installs them into node_modules/.runtimes, or takes those of TOLLGATE_RUNTIMES, a directory with
// miniflare, deno and bun in its node_modules. TOLLGATE_BIN is the service.
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
const service = await startService();
try {
  for (const flags of [[], ["nodejs_compat"]]) await testWorkerd(flags);
  for (const [runtime, ...args] of [["deno", "run", "--allow-all"], ["bun"]]) {
    testInProcess(runtime, args);
  }
} finally {
  service.process.kill();
}

/** A client at the level of the module serves concurrent requests, each in a context of its own. */
async function testWorkerd(compatibilityFlags) {
  const { Miniflare } = await import(pathOf("miniflare"));
  const root = join(packageRoot, "dist/esm");
  const worker = `
    import { Tollgate } from "./index.js";
    const api = { name: "api", algorithm: "fixed_window", limit: ${REQUESTS}, window: "1h" };
    const url = ${JSON.stringify(service.url)};
    const limiter = new Tollgate({ url, limits: [api], timeoutMs: 20_000 });
    export default {
      async fetch() {
        const key = ${JSON.stringify(`worker ${compatibilityFlags}`)};
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
    console.log(`ok workerd [${compatibilityFlags}]: ${REQUESTS} concurrent requests`);
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
  const directory = join(packageRoot, "node_modules/.runtimes");
  mkdirSync(directory, { recursive: true });
  const manifest = join(directory, "package.json");
  if (!existsSync(manifest)) writeFileSync(manifest, '{ "private": true }\n');
  const args = ["install", "--no-save", "--loglevel=error", ...VERSIONS];
  const { status } = spawnSync("npm", args, { cwd: directory, stdio: "inherit" });
  assert.equal(status, 0, "npm install failed; the reason is above");
  return directory;
}

function pathOf(name) {
  return createRequire(join(runtimes, "package.json")).resolve(name);
}

/** Resolves when the service listens. */
async function startService() {
  const program = process.env.TOLLGATE_BIN;
  assert.ok(program !== undefined, "set TOLLGATE_BIN to the service");
  const ports = ["--http", "--grpc", "--admin"].flatMap((name) => [name, "127.0.0.1:0"]);
  const child = spawn(program, ["serve", ...ports], { stdio: ["ignore", "pipe", "inherit"] });
  for await (const line of createInterface({ input: child.stdout })) {
    const [, url] = /^\s*http\s+(http:\S+)/.exec(line) ?? [];
    if (url !== undefined) return { url, process: child };
  }
  throw new Error("the service did not start");
}
