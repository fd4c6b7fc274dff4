/** Starts the real service on free ports, and stops it with the test. */
import { type ChildProcess, spawnSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { type Cleanup, kill, lineOf, start, temporaryDirectory } from "./process.js";

export interface Service {
  url: string;
  /** The address of the admin port. */
  adminUrl: string;
  process: ChildProcess;
  /** Kills it, as an outage would, and resolves when it is gone. */
  kill(): Promise<void>;
}

export interface ServiceOptions {
  /** The configuration file; without it, the service has one limit by client address. */
  config?: object | string;
  /** The address to listen on; a free port by default. */
  address?: string;
}

/** Resolves when the service accepts connections. */
export async function startService(
  cleanup: Cleanup,
  options: ServiceOptions = {},
): Promise<Service> {
  const { config, address = "127.0.0.1:0" } = options;
  const args = ["serve", "--http", address, "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
  if (config !== undefined) args.push("--config", temporaryConfig(cleanup, config));

  const child = start(cleanup, serviceBinary(), args);
  const [[, url = ""], [, adminUrl = ""]] = await Promise.all([
    lineOf(child, /^\s*http\s+(http:\/\/\S+)/),
    lineOf(child, /^\s*admin\s+(http:\/\/\S+)/),
  ]);
  return { url, adminUrl, process: child, kill: () => kill(child) };
}

/** The path of a file with this configuration. */
export function temporaryConfig(cleanup: Cleanup, config: object | string): string {
  const path = join(temporaryDirectory(cleanup), "tollgate.yaml");
  // JSON is YAML.
  writeFileSync(path, typeof config === "string" ? config : JSON.stringify(config));
  return path;
}

/** The binary: TOLLGATE_BIN, or that of a build. */
export function serviceBinary(): string {
  const given = process.env.TOLLGATE_BIN;
  if (given !== undefined) return given;
  const candidates = checkouts().flatMap((root) => [
    join(root, "target/release/tollgate"),
    join(root, "target/debug/tollgate"),
  ]);
  const found = candidates.find((path) => existsSync(path));
  if (found !== undefined) return found;
  throw new Error(`no service: set TOLLGATE_BIN, or build one of ${candidates.join(", ")}`);
}

/** The checkout of these tests and, if that is a worktree, the main one. */
function checkouts(): string[] {
  const here = resolve(packageRoot(), "../..");
  const query = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
  const { stdout } = spawnSync("git", query, { cwd: here, encoding: "utf8" });
  return typeof stdout === "string" && stdout !== "" ? [here, dirname(stdout.trim())] : [here];
}

/** `clients/node`. Tests run from `dist/test/test`. */
export function packageRoot(): string {
  let path = import.meta.dirname;
  while (!existsSync(join(path, "package.json"))) path = resolve(path, "..");
  return path;
}
