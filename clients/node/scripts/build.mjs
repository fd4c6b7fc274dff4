// Builds the package twice: ES modules in dist/esm, CommonJS in dist/cjs.
import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");

for (const format of ["esm", "cjs"]) {
  const output = join(root, "dist", format);
  rmSync(output, { recursive: true, force: true });
  mkdirSync(output, { recursive: true });
  if (format === "cjs") writeCommonJsScope(output);

  const args = [tsc, "-p", join(root, `tsconfig.${format}.json`)];
  const { status } = spawnSync(process.execPath, args, { stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}

/**
 * Node reads the format of a .js file from the nearest package.json. That file also resolves
 * `#native`, whose targets must be below it, so two files lead to those of the package.
 */
function writeCommonJsScope(output) {
  const imports = { "#native": { node: "./native/load.cjs", default: "./native/absent.cjs" } };
  const scope = { type: "commonjs", imports };
  writeFileSync(join(output, "package.json"), `${JSON.stringify(scope, null, 2)}\n`);

  mkdirSync(join(output, "native"));
  for (const name of ["load.cjs", "absent.cjs"]) {
    const lines = ['"use strict";', `module.exports = require("../../../native/${name}");`, ""];
    writeFileSync(join(output, "native", name), lines.join("\n"));
  }
}
