/** Waits for what another process or thread does, without relying on how long it takes. */
import { setTimeout as pause } from "node:timers/promises";

const DEADLINE_MS = 30_000;

/** Asks again until there is a value, and fails at the deadline. */
export async function until<T>(
  what: string,
  ask: () => Promise<T | undefined> | T | undefined,
): Promise<T> {
  const deadline = Date.now() + DEADLINE_MS;
  for (;;) {
    const found = await ask();
    if (found !== undefined) return found;
    if (Date.now() > deadline) throw new Error(`${what} did not happen in ${DEADLINE_MS} ms`);
    await pause(10);
  }
}
