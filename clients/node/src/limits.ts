/** Limits as the service reads them: snake case, durations as text. */
import { TollgateError } from "./errors.js";
import type { Duration, LimitOptions, LockoutOptions } from "./types.js";

/** A limit in the form of the configuration file, without its key. */
export type WireLimit = { name: string } & Record<string, unknown>;

/** What an option becomes: its name in the file, whether it is a duration, or its own options. */
interface OptionRule {
  wire: string;
  duration?: true;
  options?: OptionRules;
}

type OptionRules = Readonly<Record<string, OptionRule>>;

const LOCKOUT: Record<keyof LockoutOptions, OptionRule> = {
  after: { wire: "after" },
  within: { wire: "within", duration: true },
  for: { wire: "for", duration: true },
  factor: { wire: "factor" },
  max: { wire: "max", duration: true },
};

const OPTIONS: Record<keyof LimitOptions, OptionRule> = {
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
  lockout: { wire: "lockout", options: LOCKOUT },
};

/** The limit as the service reads it. An unknown option is an error, so that no typo is lost. */
export function limitToWire(limit: LimitOptions): WireLimit {
  // Callers without types may pass anything.
  const name: unknown = (limit as Partial<LimitOptions> | null | undefined)?.name;
  if (typeof name !== "string" || name === "") {
    throw badLimit(`a limit must be an object with a name, but it is ${shown(limit)}`);
  }
  return { name, ...optionsToWire(limit, OPTIONS, `limits[${name}]`) };
}

function optionsToWire(
  options: object,
  rules: OptionRules,
  where: string,
): Record<string, unknown> {
  const wire: Record<string, unknown> = {};
  for (const [option, value] of Object.entries(options) as [string, unknown][]) {
    if (value === undefined || value === null) continue;
    const rule = Object.hasOwn(rules, option) ? rules[option] : undefined;
    if (rule === undefined) throw unknownOption(where, option, Object.keys(rules));
    wire[rule.wire] = valueToWire(value, rule, `${where}.${option}`);
  }
  return wire;
}

function valueToWire(value: unknown, rule: OptionRule, where: string): unknown {
  if (rule.duration) return durationToWire(value as Duration, where);
  if (rule.options === undefined) return value;
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    return optionsToWire(value, rule.options, where);
  }
  const names = Object.keys(rule.options).join(", ");
  throw badLimit(`${where} must be an object with ${names}, but it is ${shown(value)}`);
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

function unknownOption(where: string, option: string, known: string[]): TollgateError {
  const letters = (name: string): string => name.replace(/[^a-z]/gi, "").toLowerCase();
  const meant = known.find((name) => isNear(letters(name), letters(option)));
  const advice =
    meant === undefined ? `expected one of ${known.join(", ")}` : `did you mean "${meant}"?`;
  return badLimit(`${where}: unknown option ${JSON.stringify(option)}; ${advice}`);
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
