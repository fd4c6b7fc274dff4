/** Starts a real Redis server on a free port, and stops it with the test. */
import type { ChildProcess } from "node:child_process";
import { type Cleanup, kill, lineOf, start, temporaryDirectory } from "./process.js";
import { freePort } from "./ports.js";

export interface Redis {
  url: string;
  port: number;
  process: ChildProcess;
  kill(): Promise<void>;
}

/** How often another port is tried, because a program took the free one. */
const ATTEMPTS = 5;

export async function startRedis(cleanup: Cleanup, more: string[] = []): Promise<Redis> {
  const program = process.env.TOLLGATE_REDIS_SERVER ?? "redis-server";
  const directory = temporaryDirectory(cleanup);
  for (let attempt = 1; ; attempt += 1) {
    const port = await freePort();
    const args = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--dir", directory];
    const child = start(cleanup, program, [...args, ...more]);
    try {
      await lineOf(child, /Ready to accept connections/);
      return { url: `redis://127.0.0.1:${port}`, port, process: child, kill: () => kill(child) };
    } catch (error) {
      if (attempt === ATTEMPTS) throw error;
    }
  }
}
