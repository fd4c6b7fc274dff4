/** Limits as the service reads them: snake case, durations as text. */
import { TollgateError } from "./errors.js";
import type { Duration, LimitOptions } from "./types.js";

/** A limit in the form of the configuration file, without its key. */
export type WireLimit = { name: string } & Record<string, unknown>;

/** For each option of a limit: its name in the file, and whether it is a duration. */
const OPTIONS: Record<keyof LimitOptions, { wire: string; duration?: true }> = {
  name: { wire: "name" },
  algorithm: { wire: "algorithm" },
  limit: { wire: "limit" },
  window: { wire: "window", duration: true },
  align: { wire: "align" },
  capacity: { wire: "capacity" },
  refillRate: { wire: "refill_rate" },
  leakRate: { wire: "leak_rate" },
  mode: { wire: "mode" },
  permitTimeout: { wire: "permit_timeout", duration: true },
  consistency: { wire: "consistency" },
  onStoreFailure: { wire: "on_store_failure" },
  shadow: { wire: "shadow" },
  unit: { wire: "unit" },
  debtMax: { wire: "debt_max" },
  reservationMax: { wire: "reservation_max" },
  onReservationExpiry: { wire: "on_reservation_expiry" },
};

/** The limit as the service reads it. An unknown option is an error, so that no typo is lost. */
export function limitToWire(limit: LimitOptions): WireLimit {
  // Callers without types may pass anything.
  const name: unknown = (limit as Partial<LimitOptions> | null | undefined)?.name;
  if (typeof name !== "string" || name === "") {
    throw badLimit(`a limit must be an object with a name, but it is ${shown(limit)}`);
  }
  const wire: WireLimit = { name };
  for (const [option, value] of Object.entries(limit) as [string, unknown][]) {
    if (value === undefined || value === null) continue;
    if (!Object.hasOwn(OPTIONS, option)) throw unknownOption(name, option);
    const known = OPTIONS[option as keyof LimitOptions];
    wire[known.wire] = known.duration
      ? durationToWire(value as Duration, `limits[${name}].${option}`)
      : value;
  }
  return wire;
}

/** `1500` is `"1500ms"`; a text stays as it is. */
export function durationToWire(duration: Duration, where: string): string {
  if (typeof duration === "string" && duration !== "") return duration;
  if (typeof duration === "number" && Number.isSafeInteger(duration) && duration >= 0) {
    return `${duration}ms`;
  }
  const right = 'a whole number of milliseconds, or a text such as "10s"';
  throw badLimit(`${where} must be ${right}, but it is ${shown(duration)}`);
}

/** A value for an error message, at most 80 characters of it. */
export function shown(value: unknown): string {
  let text: string | undefined;
  try {
    text = typeof value === "bigint" ? `${value}n` : JSON.stringify(value);
  } catch {
    // A value that JSON cannot contain, such as a cycle.
  }
  if (typeof value === "number") text = String(value);
  text ??= String(value);
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}

function badLimit(detail: string): TollgateError {
  return new TollgateError({ code: "bad-limit", detail });
}

function unknownOption(limit: string, option: string): TollgateError {
  const letters = (name: string): string => name.replace(/[^a-z]/gi, "").toLowerCase();
  const meant = Object.keys(OPTIONS).find((name) => isNear(letters(name), letters(option)));
  const advice =
    meant === undefined
      ? `expected one of ${Object.keys(OPTIONS).join(", ")}`
      : `did you mean "${meant}"?`;
  return badLimit(`limits[${limit}]: unknown option ${JSON.stringify(option)}; ${advice}`);
}

/** Whether two words differ in at most one letter that is missing, added or another one. */
function isNear(left: string, right: string): boolean {
  let start = 0;
  while (start < left.length && left[start] === right[start]) start += 1;
  const leftRest = left.slice(start);
  const rightRest = right.slice(start);
  return [
    [leftRest, rightRest],
    [leftRest.slice(1), rightRest],
    [leftRest, rightRest.slice(1)],
    [leftRest.slice(1), rightRest.slice(1)],
  ].some(([a, b]) => a === b);
}
