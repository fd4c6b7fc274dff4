/** What `npm pack` makes works in a project of its own, in both module formats. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { temporaryDirectory } from "./support/process.js";
import { packageRoot, startService } from "./support/service.js";

interface Manifest {
  name: string;
  version: string;
  exports: Record<string, unknown>;
  peerDependencies: Record<string, string>;
}

interface Tarball {
  filename: string;
  files: { path: string }[];
}

const native = createRequire(import.meta.url)(join(packageRoot(), "native/load.cjs")) as {
  load(): { error?: Error };
  platformName(): string;
};
const manifest = readJson("package.json") as Manifest;
const entryPoints = Object.keys(manifest.exports)
  .filter((path) => path !== "./package.json")
  .map((path) => path.replace(/^\./, manifest.name));
/** Entry points that run without the library for which they are. */
const ALONE = ["", "/express", "/fastify", "/hono", "/koa", "/testing"];

const project = temporaryDirectory({ after });
const copy = temporaryDirectory({ after });
let packed: string[] = [];

before(() => {
  const { filename, files } = pack();
  packed = files.map(({ path }) => path);
  writeFileSync(join(project, "package.json"), '{ "private": true }\n');
  npm(project, "install", "--offline", join(copy, filename));
});

test("the package has the build and nothing else", () => {
  assert.deepEqual(
    packed.filter((path) => !/^dist\/(esm|cjs)\/.*\.(js|d\.ts)$/.test(path)).sort(),
    [
      "README.md",
      "dist/cjs/native/absent.cjs",
      "dist/cjs/native/load.cjs",
      "dist/cjs/package.json",
      "native/absent.cjs",
      "native/absent.d.cts",
      "native/load.cjs",
      "native/load.d.cts",
      "package.json",
    ],
  );
  assert.ok(packed.includes("dist/esm/index.js") && packed.includes("dist/cjs/index.js"));
  assert.ok(!packed.some((path) => path.includes("test/")));
});

test("it installs nothing else, and needs no framework", () => {
  const lock = JSON.parse(readFileSync(join(project, "package-lock.json"), "utf8")) as {
    packages: object;
  };
  assert.deepEqual(Object.keys(lock.packages), ["", "node_modules/tollgate"]);
  for (const path of ALONE) importBothWays(`tollgate${path}`);
});

test("without a native module, the process has an error that says what to do", async (t) => {
  const service = await startService(t);
  const options = { limits: [{ name: "api", algorithm: "fixed_window", limit: 5, window: "1h" }] };
  const text = JSON.stringify(options);
  const http = JSON.stringify({ ...options, url: service.url, timeoutMs: 60_000 });
  const both = `
    await Tollgate.inProcess(${text}).then(
      () => { throw new Error("there is a native module"); },
      ({ name, code, detail }) => { console.log(JSON.stringify({ name, code, detail })); },
    );
    const limiter = new Tollgate(${http});
    console.log((await limiter.check("api", "ann")).limits[0].remaining);
    await limiter.close();`;

  const esm = run("esm.mjs", `import { Tollgate } from "tollgate";${both}`);
  const cjs = run("cjs.cjs", `const { Tollgate } = require("tollgate");(async () => {${both}})();`);
  for (const [output, remaining] of [[esm, "4"], [cjs, "3"]] as const) {
    const [line = "", left] = output.trim().split("\n");
    const error = JSON.parse(line) as Record<string, string>;
    assert.equal(error.name, "TollgateError");
    assert.equal(error.code, "native-unavailable");
    assert.match(error.detail ?? "", /no native module .*@tollgate\/.*new Tollgate\(\{ url \}\)/s);
    assert.equal(left, remaining);
  }
});

test("with the package of the platform, limits are decided in the process", (t) => {
  const { error } = native.load();
  assert.equal(error, undefined, "run `npm run build:native` first");
  runFile(copy, "scripts/platform-package.mjs");
  const [tarball] = packedBy(npm(copy, "pack", `./npm/${native.platformName()}`, "--json"));
  npm(project, "install", "--offline", "--no-save", join(copy, tarball.filename));
  t.after(() => { rmSync(join(project, "node_modules/@tollgate"), { recursive: true }); });

  const body = `
    const limits = [{ name: "api", algorithm: "fixed_window", limit: 2, window: "1h" }];
    const limiter = await Tollgate.inProcess({ limits });
    const decisions = [1, 2, 3].map(() => limiter.tryCheck("api", "ann").allowed);
    await limiter.close();
    console.log(decisions.join());`;
  const esm = run("in.mjs", `import { Tollgate } from "tollgate";${body}`);
  const cjs = run("in.cjs", `const { Tollgate } = require("tollgate");(async () => {${body}})();`);
  assert.deepEqual([esm, cjs], ["true,true,false\n", "true,true,false\n"]);
});

test("every entry point can be imported in both formats, and has types", () => {
  linkPeers();
  for (const entryPoint of entryPoints) importBothWays(entryPoint);

  const imports = entryPoints.map((path, index) => `import * as e${index} from "${path}";`);
  const uses = entryPoints.map((_, index) => `void e${index};`);
  for (const name of ["types.mts", "types.cts"]) {
    writeFileSync(join(project, name), [...imports, ...uses, ""].join("\n"));
  }
  const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");
  const options = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext"];
  const types = ["--types", "node", "--experimentalDecorators"];
  const args = [tsc, ...options, ...types, "types.mts", "types.cts"];
  const checked = spawnSync(process.execPath, args, {
    cwd: project,
    encoding: "utf8",
  });
  assert.equal(checked.stdout, "");
});

test("the package of a platform fits the package", () => {
  const platform = readJson("npm/linux-x64-gnu/package.json") as Record<string, unknown>;
  assert.equal(platform.name, "@tollgate/linux-x64-gnu");
  assert.equal(platform.version, manifest.version);
  assert.equal(platform.main, "tollgate.linux-x64-gnu.node");
  assert.deepEqual(platform.files, [platform.main]);
});

/** Packs a copy, so that the build does not disturb tests that use the checkout's. */
function pack(): Tarball {
  const config = ["tsconfig.json", "tsconfig.esm.json", "tsconfig.cjs.json"];
  for (const name of ["package.json", "README.md", "src", "scripts", "native", "npm", ...config]) {
    cpSync(join(packageRoot(), name), join(copy, name), { recursive: true });
  }
  symlinkSync(join(packageRoot(), "node_modules"), join(copy, "node_modules"));
  return packedBy(npm(copy, "pack", "--json"))[0];
}

/** What `npm pack --json` has packed: a list, or an object by name in newer versions. */
function packedBy(output: string): [Tarball] {
  // Before it, npm prints what the build prints.
  const json = output.slice(output.search(/^[[{]$/m));
  return Object.values(JSON.parse(json) as Record<string, Tarball>) as [Tarball];
}

/** The libraries for which the package has adapters and stores, as a project would have them. */
function linkPeers(): void {
  const names = [...Object.keys(manifest.peerDependencies), "@types/node", "@types/express"];
  for (const name of [...names, "@types/koa", "rxjs", "reflect-metadata"]) {
    const link = join(project, "node_modules", name);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(packageRoot(), "node_modules", name), link);
  }
}

function importBothWays(entryPoint: string): void {
  const esm = run("entry.mjs", `import * as all from "${entryPoint}"; ${PRINT}`);
  const cjs = run("entry.cjs", `const all = require("${entryPoint}"); ${PRINT}`);
  assert.notEqual(esm, "\n", `${entryPoint} exports nothing`);
  assert.equal(cjs, esm, `${entryPoint} exports the same in both formats`);
}

/** `default`, `module.exports` and `__esModule` come with a format. */
const PRINT = `console.log(Object.keys(all).filter((name) =>
  !/^(default|module.exports|__esModule)$/.test(name)).sort().join());`;

/** Runs a file of the project, and returns its output. */
function run(name: string, text: string): string {
  writeFileSync(join(project, name), text);
  return runFile(project, name);
}

function runFile(cwd: string, name: string): string {
  const options = { cwd, encoding: "utf8" } as const;
  const { status, stdout, stderr } = spawnSync(process.execPath, [name], options);
  assert.equal(status, 0, `${name}:\n${stderr}`);
  return stdout;
}

function npm(cwd: string, ...args: string[]): string {
  const quiet = ["--no-audit", "--no-fund", "--loglevel=error"];
  const { status, stdout, stderr } = spawnSync("npm", [...args, ...quiet], {
    cwd,
    encoding: "utf8",
    shell: process.platform === "win32",
  });
  assert.equal(status, 0, `npm ${args.join(" ")}:\n${stdout}${stderr}`);
  return stdout;
}

function readJson(name: string): unknown {
  return JSON.parse(readFileSync(join(packageRoot(), name), "utf8"));
}
