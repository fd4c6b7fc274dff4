/** A limiter for an application's own tests: in memory, with a clock that the test moves. */
import { NativeEngine, loadNative } from "./engines/native.js";
import { configText } from "./options.js";
import { durationMs } from "./duration.js";
import { Tollgate } from "./tollgate.js";
import type { Duration, LimitOptions } from "./types.js";

export interface TestLimiter {
  limiter: Tollgate;
  clock: {
    /** Lets time pass, for the limits only: milliseconds, or a text such as `"10s"`. */
    advance(duration: Duration): void;
  };
}

/** Needs no server and no sleep. Time stands still until the test advances it. */
export async function createTestLimiter(options: {
  limits: readonly LimitOptions[];
}): Promise<TestLimiter> {
  const config = configText({ limits: options.limits });
  const { NativeEngine: native } = await loadNative();
  const core = native.open(config, { manualClock: true });
  return {
    limiter: new Tollgate({ engine: new NativeEngine(core), configured: options.limits }),
    clock: {
      advance: (duration) => {
        core.advance(durationMs(duration));
      },
    },
  };
}
