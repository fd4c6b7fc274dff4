// Prepares npm/<platform> for publishing: its package.json and its native module, which must be in
// native/. `node scripts/platform-package.mjs [PLATFORM]`, such as linux-arm64-musl. Prints the
// folder.
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const { platformName } = createRequire(import.meta.url)("../native/load.cjs");

const platform = process.argv[2] ?? platformName();
const [os, cpu, abi] = platform.split("-");
const file = `tollgate.${platform}.node`;
const folder = join(root, "npm", platform);

// The package of linux-x64-gnu is the model of the others.
const model = readJson("npm/linux-x64-gnu/package.json");
const manifest = {
  ...model,
  name: `@tollgate/${platform}`,
  version: readJson("package.json").version,
  description: `The native module of the package tollgate for ${platform}`,
  os: [os],
  cpu: [cpu],
  libc: { gnu: ["glibc"], musl: ["musl"] }[abi],
  main: file,
  files: [file],
};

mkdirSync(folder, { recursive: true });
writeFileSync(join(folder, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
copyFileSync(join(root, "native", file), join(folder, file));
console.log(folder);

function readJson(name) {
  return JSON.parse(readFileSync(join(root, name), "utf8"));
}
