/** A limiter for an application's own tests: in memory, with a clock that the test moves. */
import { durationMs } from "./duration.js";
import { NativeEngine, openCore } from "./engines/native.js";
import { requireKnown } from "./option-names.js";
import { configFrom } from "./options.js";
import { Tollgate } from "./tollgate.js";
import type { Duration, LimitOptions } from "./types.js";

/** When the clock of the core begins: 2027-01-01T00:00:00Z. */
const START_MS = 1_798_761_600_000;

export interface TestClock {
  /** Lets time pass, for the limits only: milliseconds, or a text such as `"10s"`. */
  advance(duration: Duration): void;
  /** The time of the limits, in milliseconds since the UNIX epoch. */
  now(): number;
}

export interface TestLimiter {
  limiter: Tollgate;
  clock: TestClock;
}

/** Needs no server and no sleep: time passes only when the test advances it. */
export async function createTestLimiter(options: {
  limits: readonly LimitOptions[];
}): Promise<TestLimiter> {
  requireKnown(options, { limits: true }, "createTestLimiter");
  const core = await openCore(configFrom({ limits: options.limits }), "manual-clock");
  let nowMs = START_MS;
  const clock: TestClock = {
    advance: (duration) => {
      const lengthMs = durationMs(duration);
      core.advance(lengthMs);
      nowMs += lengthMs;
    },
    now: () => nowMs,
  };
  const engine = new NativeEngine(core, () => nowMs);
  const limiter = await Tollgate.overEngine({ engine, configured: options.limits });
  return { limiter, clock };
}
