/** What `npm run build` writes is what package.json promises, for `import` and for `require`. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";
import { packageRoot } from "./support/service.js";

type Target = { types: string; default: string };
interface Manifest {
  exports: Record<string, { import: Target; require: Target } | string>;
  dependencies?: object;
  peerDependencies: Record<string, string>;
  peerDependenciesMeta: Record<string, { optional: boolean }>;
}

const root = packageRoot();
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Manifest;
const entries = Object.entries(manifest.exports).flatMap(([path, target]) =>
  typeof target === "string" ? [] : [{ specifier: path.replace(/^\./, "tollgate"), target }],
);

/** What Node adds to the exports of CommonJS modules. */
const INTEROP = ["default", "__esModule", "module.exports"];
const names = (exports: object): string[] =>
  Object.keys(exports).filter((name) => !INTEROP.includes(name));

test("every entry point has code and types in both formats, with the same exports", async () => {
  const require = createRequire(join(root, "package.json"));
  assert.ok(entries.length >= 14);
  for (const { specifier, target } of entries) {
    for (const file of [target.import, target.require].flatMap((each) => Object.values(each))) {
      assert.ok(existsSync(join(root, file)), `${file} of ${specifier}; run \`npm run build\``);
    }
    const module = (await import(specifier)) as object;
    const common = require(specifier) as object;
    assert.deepEqual(names(common).sort(), names(module).sort(), specifier);
    assert.notEqual(names(module).length, 0, specifier);
  }
});

test("both formats load the native module by the same path", () => {
  const script = (load: string): string => `
    const { Tollgate } = ${load};
    const limits = [{ name: "api", algorithm: "fixed_window", limit: 5, window: "1h" }];
    Tollgate.inProcess({ limits }).then((limiter) => limiter.close(), (error) => {
      if (error.code !== "native-unavailable") throw error;
    });`;
  const runs: [string, string][] = [
    ["module", script('await import("tollgate")')],
    ["commonjs", script('require("tollgate")')],
  ];
  for (const [type, text] of runs) {
    const args = [`--input-type=${type}`, "-e", text];
    const { status, stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: "utf8" });
    assert.deepEqual([status, stderr], [0, ""], type);
  }
});

test("nothing but the frameworks of one's choice has to be installed", () => {
  assert.equal(manifest.dependencies, undefined);
  assert.deepEqual(
    Object.keys(manifest.peerDependenciesMeta).sort(),
    Object.keys(manifest.peerDependencies).sort(),
  );
  assert.ok(Object.values(manifest.peerDependenciesMeta).every(({ optional }) => optional));
});

test("the HTTP part imports no module of Node, so that it runs where only fetch exists", () => {
  const seen = new Set<string>();
  const visit = (file: string): void => {
    if (seen.has(file)) return;
    seen.add(file);
    const code = readFileSync(file, "utf8");
    for (const [, specifier = ""] of code.matchAll(/\b(?:from|import)\s*\(?\s*"([^"]+)"/g)) {
      if (specifier === "#native") continue;
      assert.match(specifier, /^\.\.?\//, `${file} imports ${specifier}`);
      visit(join(file, "..", specifier));
    }
  };
  visit(join(root, "dist/esm/index.js"));
  assert.ok(seen.size > 10);
});
