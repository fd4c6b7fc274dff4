/** Durations as milliseconds. */
import { TollgateError } from "./errors.js";
import { shown } from "./shown.js";
import type { Duration } from "./types.js";

const UNITS_MS: ReadonlyMap<string, number> = new Map([
  ...units(1, "ms", "milli", "millis", "millisecond", "milliseconds"),
  ...units(1_000, "s", "sec", "secs", "second", "seconds"),
  ...units(60_000, "m", "min", "mins", "minute", "minutes"),
  ...units(3_600_000, "h", "hr", "hrs", "hour", "hours"),
  ...units(86_400_000, "d", "day", "days"),
  ...units(604_800_000, "w", "week", "weeks"),
]);

/** `"10s"` is 10,000; a number is milliseconds already. */
export function durationMs(duration: Duration): number {
  if (typeof duration === "number" && Number.isSafeInteger(duration) && duration >= 0) {
    return duration;
  }
  const [, digits, unit] = /^(\d+)\s*([a-z]+)$/i.exec(String(duration)) ?? [];
  const unitMs = UNITS_MS.get(unit?.toLowerCase() ?? "");
  if (typeof duration === "string" && digits !== undefined && unitMs !== undefined) {
    return Number(digits) * unitMs;
  }
  const right = 'a whole number of milliseconds, or a text such as "10s"';
  const detail = `a duration must be ${right}, but it is ${shown(duration)}`;
  throw new TollgateError({ code: "bad-duration", detail });
}

function units(ms: number, ...names: string[]): [string, number][] {
  return names.map((name) => [name, ms]);
}
