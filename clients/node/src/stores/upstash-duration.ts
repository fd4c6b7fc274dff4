/** Durations as @upstash/ratelimit writes them. */
type Unit = "ms" | "s" | "m" | "h" | "d" | "w";

/** Such as `"10 s"` or `"10s"`. */
export type Duration = `${number} ${Unit}` | `${number}${Unit}`;

const UNITS_MS: Record<string, number> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

/** In milliseconds. */
export function durationMs(duration: Duration): number {
  const [, number, unit] = /^(\d+(?:\.\d+)?) ?(ms|s|m|h|d|w)$/.exec(duration) ?? [];
  const ms = Math.round(Number(number) * (UNITS_MS[unit ?? ""] ?? NaN));
  if (ms >= 1) return ms;
  throw new TypeError(`invalid duration "${duration}": write a number and a unit, such as "10 s"`);
}
