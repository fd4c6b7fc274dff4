/** Limiters in the process, for tests that need the native module. */
import { loadNative } from "../../src/engines/native.js";
import { type InProcessOptions, Tollgate } from "../../src/index.js";
import type { Cleanup } from "./process.js";

const hasNative = await loadNative().then(
  () => true,
  () => false,
);

/** Why a test is skipped, or `false`. */
export const skip = hasNative
  ? false
  : "the native module is not built: run `npm run build:native`";

/** Opens a limiter that is closed after the test. */
export async function open(cleanup: Cleanup, options: InProcessOptions): Promise<Tollgate> {
  const limiter = await Tollgate.inProcess(options);
  cleanup.after(() => limiter.close());
  return limiter;
}
