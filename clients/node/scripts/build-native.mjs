// Builds the native module from a source checkout and writes native/tollgate.<platform>.node, where
// native/load.cjs looks for it first.
//
//   npm run build:native               the release profile
//   npm run build:native -- --dev      the dev profile, which compiles faster
//   npm run build:native -- --locked   further options go to `cargo build`
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, renameSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const CRATE = "tollgate-node";
/** What cargo calls the library, by platform. */
const LIBRARIES = {
  darwin: "libtollgate_node.dylib",
  linux: "libtollgate_node.so",
  win32: "tollgate_node.dll",
};

const packageRoot = dirname(dirname(fileURLToPath(import.meta.url)));
const repository = join(packageRoot, "../..");
const { platformName } = createRequire(import.meta.url)("../native/load.cjs");

try {
  console.log(`built ${build(process.argv.slice(2))}`);
} catch (error) {
  console.error(`build:native: ${error.message}`);
  process.exit(1);
}

/** Builds and installs the module, and returns its path. */
function build(args) {
  const library = LIBRARIES[process.platform];
  if (library === undefined) {
    const advice = "use new Tollgate({ url }) on this platform";
    throw new Error(`${platformName()} has no native module: ${advice}`);
  }
  if (!existsSync(join(repository, "Cargo.toml"))) {
    const advice = "run it in clients/node of a checkout of the repository";
    throw new Error(`there is no Cargo.toml in ${repository}: ${advice}`);
  }

  const isDev = args.includes("--dev");
  const options = args.filter((arg) => arg !== "--dev");
  const metadata = cargo(["metadata", "--format-version", "1", "--no-deps"], "pipe");
  cargo(["build", ...(isDev ? [] : ["--release"]), "--package", CRATE, ...options], "inherit");

  const { target_directory: target } = JSON.parse(metadata);
  return install(join(target, isDev ? "debug" : "release", library));
}

/** Runs cargo in the repository, and returns its output if that is piped. */
function cargo(args, output) {
  const { error, status, stdout } = spawnSync("cargo", args, {
    cwd: repository,
    encoding: "utf8",
    maxBuffer: 64 * 1024 * 1024,
    stdio: ["ignore", output, "inherit"],
  });
  if (error?.code === "ENOENT") {
    throw new Error("cargo was not found: install Rust from https://rustup.rs and try again");
  }
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`cargo ${args[0]} failed; the reason is above`);
  return stdout;
}

/** Replaces the file in one step: a process that has loaded the old one keeps it. */
function install(library) {
  if (!existsSync(library)) throw new Error(`cargo did not build ${library}`);
  const file = join(packageRoot, "native", `tollgate.${platformName()}.node`);
  const temporary = `${file}.${process.pid}.tmp`;
  try {
    copyFileSync(library, temporary);
    renameSync(temporary, file);
  } finally {
    rmSync(temporary, { force: true });
  }
  return file;
}
