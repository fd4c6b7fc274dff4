/** Starts the examples as their readers do: against a build of the package. */
import { type ChildProcess, spawnSync } from "node:child_process";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { type Cleanup, kill, lineOf, start } from "./process.js";
import { packageRoot } from "./service.js";

export interface Example {
  url: string;
  process: ChildProcess;
  /** Asks it to end, and resolves to its exit code. */
  stop(): Promise<number | null>;
}

/** Starts a file of the package on a free port, and resolves when it listens. */
export async function startExample(
  cleanup: Cleanup,
  file: string,
  env: NodeJS.ProcessEnv = {},
): Promise<Example> {
  return startServer(cleanup, [join(packageRoot(), file)], /listening on (http\S+)/, env);
}

/** Starts a program for Node, whose line of output names its address. */
export async function startServer(
  cleanup: Cleanup,
  args: string[],
  line: RegExp,
  env: NodeJS.ProcessEnv = {},
): Promise<Example> {
  const child = start(cleanup, process.execPath, args, { ...process.env, PORT: "0", ...env });
  const [, url = ""] = await lineOf(child, line);
  const stop = async (): Promise<number | null> => {
    await kill(child, "SIGTERM");
    return child.exitCode;
  };
  return { url, process: child, stop };
}

/** Runs a program for Node to its end, and throws its output if it fails. */
export function run(args: string[], options: { cwd?: string; env?: NodeJS.ProcessEnv } = {}): void {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: options.cwd ?? packageRoot(),
    // A test that is run by a test must not report to the outer one.
    env: { ...process.env, NODE_TEST_CONTEXT: undefined, ...options.env },
    encoding: "utf8",
  });
  if (status === 0) return;
  throw new Error(`${args.join(" ")} failed with ${status ?? "a signal"}:\n${stdout}${stderr}`);
}

/** Builds the package, unless the last build is newer than its sources. */
export function buildPackage(): void {
  const builds = ["dist/esm/index.js", "dist/cjs/index.js"].map((name) => modifiedAt(name));
  const sources = readdirSync(join(packageRoot(), "src"), { recursive: true, encoding: "utf8" });
  const inputs = sources.map((name) => join("src", name));
  const newest = Math.max(...["scripts/build.mjs", ...inputs].map((name) => modifiedAt(name)));
  if (Math.min(...builds) < newest) run(["scripts/build.mjs"]);
}

function modifiedAt(name: string): number {
  return statSync(join(packageRoot(), name), { throwIfNoEntry: false })?.mtimeMs ?? 0;
}
