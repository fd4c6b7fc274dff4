// Builds the package twice: ES modules in dist/esm, CommonJS in dist/cjs.
import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");

for (const [format, type] of [["esm", "module"], ["cjs", "commonjs"]]) {
  const output = join(root, "dist", format);
  rmSync(output, { recursive: true, force: true });
  mkdirSync(output, { recursive: true });

  // Node reads the format of a .js file from the nearest package.json.
  writeFileSync(join(output, "package.json"), `{ "type": "${type}" }\n`);

  const { status } = spawnSync(process.execPath, [tsc, "-p", join(root, `tsconfig.${format}.json`)], { stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}
