/** Child processes that end with the test. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** What a test context of `node:test` has; for a suite, `{ after }` of `node:test`. */
export interface Cleanup {
  after(clean: () => Promise<void> | void): void;
}

/** Starts a program that is killed after the test. */
export function start(
  cleanup: Cleanup,
  program: string,
  args: string[],
  env: NodeJS.ProcessEnv = process.env,
): ChildProcess {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"], env });
  cleanup.after(() => kill(child));
  return child;
}

/** Kills a program and waits until it is gone. */
export async function kill(child: ChildProcess, signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const exit = once(child, "exit");
  child.kill(signal);
  // A frozen process cannot act on anything else.
  if (signal === "SIGTERM") child.kill("SIGCONT");
  await exit;
}

/** Stops a program until it gets `SIGCONT`, and resolves when none of its threads runs any more. */
export async function freeze(child: ChildProcess): Promise<void> {
  child.kill("SIGSTOP");
  const tasks = `/proc/${child.pid ?? 0}/task`;
  const isStopped = (task: string): boolean =>
    /^State:\s+T/m.test(readFileSync(`${tasks}/${task}/status`, "utf8"));
  while (!readdirSync(tasks).every(isStopped)) await new Promise((done) => setImmediate(done));
}

/** Waits for a line of output that matches, and fails with all output if there is none. */
export function lineOf(child: ChildProcess, pattern: RegExp): Promise<RegExpExecArray> {
  return new Promise((resolve, reject) => {
    const output: string[] = [];
    for (const stream of [child.stdout, child.stderr]) {
      if (stream === null) continue;
      createInterface({ input: stream }).on("line", (line) => {
        output.push(line);
        const match = pattern.exec(line);
        if (match !== null) resolve(match);
      });
    }
    const fail = (why: string): void => {
      reject(new Error(`${why}; expected ${String(pattern)} in:\n${output.join("\n")}`));
    };
    child.once("error", (error) => {
      fail(error.message);
    });
    child.once("close", (code) => {
      fail(`exited with code ${code ?? "none"}`);
    });
  });
}

/** A directory that is removed after the test. */
export function temporaryDirectory(cleanup: Cleanup): string {
  const path = mkdtempSync(join(tmpdir(), "tollgate-node-"));
  cleanup.after(() => {
    rmSync(path, { recursive: true, force: true });
  });
  return path;
}
