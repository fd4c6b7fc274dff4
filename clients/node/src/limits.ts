/** Limits as the service reads them: snake case, durations as text. */
import { TollgateError } from "./errors.js";
import { unknownOption } from "./option-names.js";
import { shown } from "./shown.js";
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

/** The limits of an option, if it is a list. */
export function limitList(limits: unknown): readonly LimitOptions[] {
  if (limits === undefined) return [];
  if (Array.isArray(limits)) return limits as LimitOptions[];
  throw badLimit(`limits must be a list of limits, but it is ${shown(limits)}`);
}

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
    const rule = Object.hasOwn(rules, option) ? rules[option] : undefined;
    if (rule === undefined) throw badLimit(unknownOption(where, option, Object.keys(rules)));
    if (value === undefined || value === null) continue;
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

function badLimit(detail: string): TollgateError {
  return new TollgateError({ code: "bad-limit", detail });
}
