// Compiles src and test to dist/test, then runs the tests.
// `npm test -- batcher http` runs the test files whose paths contain one of the words.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");
const words = process.argv.slice(2);

/** Runs a program of Node and returns its exit code. */
function run(...args) {
  return spawnSync(process.execPath, args, { stdio: "inherit", cwd: root }).status ?? 1;
}

// Tests of the package and its examples import what `npm run build` writes.
if (words.length === 0 || !existsSync(join(root, "dist/esm/index.js"))) {
  const status = run(join(root, "scripts/build.mjs"));
  if (status !== 0) process.exit(status);
}
const compiled = run(tsc, "-p", join(root, "tsconfig.test.json"));

// Only tests whose source is there: dist/test may contain what an older build left.
const files = readdirSync(join(root, "test"), { recursive: true })
  .filter((name) => name.endsWith(".test.ts"))
  .filter((name) => words.length === 0 || words.some((word) => name.includes(word)))
  .map((name) => join(root, "dist/test/test", name.replace(/\.ts$/, ".js")))
  .sort();
if (files.length === 0) {
  console.error(`no test file contains ${words.map((word) => JSON.stringify(word)).join(" or ")}`);
  process.exit(1);
}

const tested = run("--enable-source-maps", "--test", ...files);
process.exit(compiled || tested);
