/**
 * Decisions of the native module, from numbers. A request waits for this: one object per decision
 * and one per outcome, and texts of header fields are kept as long as they are the same.
 */
import { policyField, retryField, stateField } from "./headers.js";
import type { Decision, LimitOutcome, Source } from "./types.js";

/** The parts of a code: two bits for the verdict, then these, each with its first bit. */
const VERDICT_BITS = 0b11;
const ALLOWED = 0;
const DENIED = 1;
const SOURCE_SHIFT = 2;
const POLICY_SHIFT = 5;
const UNIT_SHIFT = 7;
const SHADOW_SHIFT = 10;

/** Where the core writes what. Times are in milliseconds, or negative if there is none. */
const LIMIT = 0;
const REMAINING = 1;
const RESET = 2;
const RETRY = 3;
const MORE = 4;
const WAIT = 5;
const WINDOW = 6;
/** In place of a retry time: the request can never pass. */
const NEVER = -2;

const SOURCES: readonly Source[] = [
  "store", "lease", "deny_cache", "fallback", "local", "block", "exempt",
];
const POLICIES = [undefined, "allow", "deny", "local"] as const;
const UNITS = ["requests", "tokens", "input_tokens", "output_tokens", "bytes"];

/** Whether the code is a decision. If not, the whole operation must be sent. */
export function isDecided(code: number): boolean {
  const verdict = code & VERDICT_BITS;
  return verdict === ALLOWED || verdict === DENIED;
}

/** A limit that the core has looked up, and the texts about it that rarely change. */
export class KnownLimit {
  readonly name: string;
  readonly id: number;
  #size = -1;
  #windowMs = -1;
  #unit = -1;
  #sizeText = "";
  #policyField = "";

  constructor(name: string, id: number) {
    this.name = name;
    this.id = id;
  }

  /** The value of `ratelimit-policy`. */
  policyField(size: number, windowMs: number, unit: number): string {
    if (size !== this.#size || windowMs !== this.#windowMs || unit !== this.#unit) {
      this.#size = size;
      this.#windowMs = windowMs;
      this.#unit = unit;
      this.#sizeText = String(size);
      this.#policyField = policyField(this.name, size, {
        windowSecs: windowMs < 0 ? null : windowMs / 1000,
        unit: UNITS[unit] ?? null,
      });
    }
    return this.#policyField;
  }

  /** The size of the last policy. */
  get sizeText(): string {
    return this.#sizeText;
  }
}

/** A decision over one limit: plain members for JSON, and `headers()` on the prototype. */
export class NativeDecision implements Decision {
  readonly allowed: boolean;
  readonly source: Source;
  readonly degraded: boolean;
  readonly waitMs: number;
  readonly limits: LimitOutcome[];
  readonly retryAfterMs: number | null;
  readonly #known: KnownLimit;
  readonly #unit: number;
  readonly #windowMs: number;
  readonly #moreAfterMs: number;
  readonly #answeredAtMs: number;

  constructor(known: KnownLimit, code: number, numbers: Float64Array, answeredAtMs: number) {
    const retryAfterMs = numbers[RETRY] as number;
    const outcome: LimitOutcome = {
      name: known.name,
      limit: numbers[LIMIT] as number,
      remaining: numbers[REMAINING] as number,
      resetAfterMs: numbers[RESET] as number,
      retryAfterMs: retryAfterMs < 0 ? null : retryAfterMs,
    };
    const policy = POLICIES[(code >> POLICY_SHIFT) & 0b11];
    if (retryAfterMs === NEVER) outcome.never = true;
    if (((code >> SHADOW_SHIFT) & 1) === 1) outcome.shadow = true;
    if (policy !== undefined) outcome.fallback = policy;

    this.allowed = (code & VERDICT_BITS) === ALLOWED;
    this.source = SOURCES[(code >> SOURCE_SHIFT) & 0b111] ?? "local";
    this.degraded = policy !== undefined;
    this.waitMs = numbers[WAIT] as number;
    this.limits = [outcome];
    this.retryAfterMs = this.allowed || outcome.shadow === true ? null : outcome.retryAfterMs;
    this.#known = known;
    this.#unit = (code >> UNIT_SHIFT) & 0b111;
    this.#windowMs = numbers[WINDOW] as number;
    this.#moreAfterMs = numbers[MORE] as number;
    this.#answeredAtMs = answeredAtMs;
  }

  headers(): Record<string, string> {
    const outcome = this.limits[0] as LimitOutcome;
    const { retryAfterMs } = this;
    const fields: Record<string, string> =
      outcome.shadow === true || outcome.limit <= 0 ? {} : this.#limitFields(outcome);
    if (!this.allowed && retryAfterMs !== null) fields["retry-after"] = retryField(retryAfterMs);
    if (this.degraded) fields["x-ratelimit-fallback"] = "true";
    return fields;
  }

  #limitFields(outcome: LimitOutcome): Record<string, string> {
    const { limit, remaining, resetAfterMs } = outcome;
    const known = this.#known;
    const more = this.#moreAfterMs;
    const moreAfterMs = outcome.retryAfterMs ?? (more < 0 ? undefined : more);
    return {
      "ratelimit-policy": known.policyField(limit, this.#windowMs, this.#unit),
      ratelimit: stateField(known.name, remaining, moreAfterMs, this.retryAfterMs),
      "x-ratelimit-limit": known.sizeText,
      "x-ratelimit-remaining": String(remaining),
      "x-ratelimit-reset": secondsText(this.#answeredAtMs + resetAfterMs),
    };
  }
}

let lastSeconds = -1;
let lastSecondsText = "";

/** Whole seconds, rounded up. Most resets of a moment fall into the same second. */
function secondsText(timeMs: number): string {
  const seconds = Math.ceil(timeMs / 1000);
  if (seconds !== lastSeconds) {
    lastSeconds = seconds;
    lastSecondsText = String(seconds);
  }
  return lastSecondsText;
}
