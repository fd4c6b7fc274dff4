// Fails if an installed package has another version than package-lock.json says. `npm ci` would
// ensure that, but it fails where a registry lacks optional packages of other platforms.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const packages = (name) => JSON.parse(readFileSync(join(root, name), "utf8")).packages;

const locked = packages("package-lock.json");
const installed = Object.entries(packages("node_modules/.package-lock.json"));
const wrong = installed.filter(([path, { version }]) => locked[path]?.version !== version);
for (const [path, { version }] of wrong) {
  console.error(`${path} is ${version}, but package-lock.json says ${locked[path]?.version}`);
}
if (wrong.length > 0) {
  console.error("remove node_modules and install again");
  process.exit(1);
}
console.log(`${installed.length} packages are those of package-lock.json`);
