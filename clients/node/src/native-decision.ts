/**
 * Decisions of the native module, from numbers. A request waits for this: few objects, and texts of
 * header fields are kept as long as they are the same.
 */
import { longestRetry } from "./decision.js";
import { isReported, isTighter, policyField, retryField, stateField } from "./headers.js";
import type { Decision, DegradedReason, LimitOutcome, Source } from "./types.js";

/** The parts of a code: two bits for the verdict, then these, each with its first bit. */
const VERDICT_BITS = 0b11;
const ALLOWED = 0;
const DENIED = 1;
const SOURCE_SHIFT = 2;
const FORBIDDEN_BIT = 1 << 5;
const REASON_SHIFT = 6;

/** Where the core writes what: the wait, then a row for each demand. */
const WAIT = 0;
const FIRST_ROW = 1;
const ROW_LENGTH = 7;
/** The columns of a row. Times are in milliseconds, or negative if there is none. */
const LIMIT = 0;
const REMAINING = 1;
const RESET = 2;
const RETRY = 3;
const MORE = 4;
const WINDOW = 5;
const FLAGS = 6;
/** In place of a retry time: the request can never pass. */
const NEVER = -2;

/** The parts of the flags: two bits for the failure policy, three for the unit, then these. */
const UNIT_SHIFT = 2;
const SHADOW_BIT = 1 << 5;
const BLOCKED_BIT = 1 << 6;
const EXEMPT_BIT = 1 << 7;
const LOCKED_OUT_BIT = 1 << 8;
/** The limit was not asked, because another one of the request is blocked. */
const UNASKED_BIT = 1 << 9;
/** Flags that most outcomes have none of. */
const RARE_BITS = SHADOW_BIT | BLOCKED_BIT | EXEMPT_BIT | LOCKED_OUT_BIT;

const SOURCES: readonly Source[] = [
  "store", "lease", "deny_cache", "fallback", "local", "block", "exempt",
];
const REASONS: readonly (DegradedReason | undefined)[] = [
  undefined, "store_timeout", "unavailable", "overload", "refused",
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
  /** The limits of a decision over this one alone. */
  readonly alone: readonly KnownLimit[] = [this];
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

/** An outcome, and what its header fields say beyond it. A list without an array around it. */
interface OutcomeFacts {
  known: KnownLimit;
  outcome: LimitOutcome;
  unit: number;
  windowMs: number;
  moreAfterMs: number;
  next: OutcomeFacts | undefined;
}

/** A decision: plain members for JSON, and `headers()` on the prototype. */
export class NativeDecision implements Decision {
  readonly allowed: boolean;
  readonly source: Source;
  readonly degraded: boolean;
  readonly waitMs: number;
  readonly limits: LimitOutcome[];
  readonly retryAfterMs: number | null;
  declare readonly blockStatus?: number;
  declare readonly degradedReason?: DegradedReason;
  readonly #facts: OutcomeFacts | undefined;
  readonly #answeredAtMs: number;

  /** `limits` are those of the demands, in their order. */
  constructor(
    limits: readonly KnownLimit[],
    code: number,
    numbers: Float64Array,
    answeredAtMs: number,
  ) {
    const facts =
      limits.length === 1
        ? rowFacts(limits[0] as KnownLimit, numbers, FIRST_ROW)
        : factsFrom(limits, numbers);
    this.allowed = (code & VERDICT_BITS) === ALLOWED;
    this.source = SOURCES[(code >> SOURCE_SHIFT) & 0b111] ?? "local";
    this.degraded = this.source === "fallback";
    this.waitMs = numbers[WAIT] as number;
    this.limits = facts === undefined ? [] : [facts.outcome];
    for (let more = facts?.next; more !== undefined; more = more.next) {
      this.limits.push(more.outcome);
    }
    this.retryAfterMs = this.allowed ? null : longestRetry(this.limits);
    if ((code & FORBIDDEN_BIT) !== 0) this.blockStatus = 403;
    if (this.degraded) this.degradedReason = REASONS[code >> REASON_SHIFT] ?? "unavailable";
    this.#facts = facts;
    this.#answeredAtMs = answeredAtMs;
  }

  headers(): Record<string, string> {
    const { retryAfterMs } = this;
    const fields = this.#limitFields();
    if (!this.allowed && retryAfterMs !== null) fields["retry-after"] = retryField(retryAfterMs);
    if (this.degraded) fields["x-ratelimit-fallback"] = "true";
    return fields;
  }

  /** The fields about limits; none if no limit affects the client. */
  #limitFields(): Record<string, string> {
    const policies: string[] = [];
    const states: string[] = [];
    let tightest: OutcomeFacts | undefined;
    for (let facts = this.#facts; facts !== undefined; facts = facts.next) {
      const { known, outcome, moreAfterMs } = facts;
      if (!isReported(outcome)) continue;
      // A limit that is asked about two keys is one policy.
      const policy = known.policyField(outcome.limit, facts.windowMs, facts.unit);
      if (!policies.includes(policy)) policies.push(policy);
      const more = outcome.retryAfterMs ?? (moreAfterMs < 0 ? undefined : moreAfterMs);
      states.push(stateField(known.name, outcome.remaining, more, this.retryAfterMs));
      if (tightest === undefined || isTighter(outcome, tightest.outcome)) tightest = facts;
    }

    if (tightest === undefined) return {};
    const { known, outcome, windowMs, unit } = tightest;
    // The limit may have another size for another key.
    known.policyField(outcome.limit, windowMs, unit);
    return {
      "ratelimit-policy": policies.length === 1 ? (policies[0] as string) : policies.join(", "),
      ratelimit: states.length === 1 ? (states[0] as string) : states.join(", "),
      "x-ratelimit-limit": known.sizeText,
      "x-ratelimit-remaining": String(outcome.remaining),
      "x-ratelimit-reset": secondsText(this.#answeredAtMs + outcome.resetAfterMs),
    };
  }
}

/** The outcomes of the limits that were asked, in their order. */
function factsFrom(
  limits: readonly KnownLimit[],
  numbers: Float64Array,
): OutcomeFacts | undefined {
  let first: OutcomeFacts | undefined;
  for (let index = limits.length - 1; index >= 0; index -= 1) {
    const row = FIRST_ROW + index * ROW_LENGTH;
    const isAsked = ((numbers[row + FLAGS] as number) & UNASKED_BIT) === 0;
    if (!isAsked) continue;
    const facts = rowFacts(limits[index] as KnownLimit, numbers, row);
    facts.next = first;
    first = facts;
  }
  return first;
}

function rowFacts(known: KnownLimit, numbers: Float64Array, row: number): OutcomeFacts {
  const retryAfterMs = numbers[row + RETRY] as number;
  const flags = numbers[row + FLAGS] as number;
  const policy = POLICIES[flags & 0b11];
  const outcome: LimitOutcome = {
    name: known.name,
    limit: numbers[row + LIMIT] as number,
    remaining: numbers[row + REMAINING] as number,
    resetAfterMs: numbers[row + RESET] as number,
    retryAfterMs: retryAfterMs < 0 ? null : retryAfterMs,
  };
  if (retryAfterMs === NEVER) outcome.never = true;
  if ((flags & RARE_BITS) !== 0) addRareMembers(outcome, flags);
  if (policy !== undefined) outcome.fallback = policy;
  return {
    known,
    outcome,
    unit: (flags >> UNIT_SHIFT) & 0b111,
    windowMs: numbers[row + WINDOW] as number,
    moreAfterMs: numbers[row + MORE] as number,
    next: undefined,
  };
}

function addRareMembers(outcome: LimitOutcome, flags: number): void {
  if ((flags & SHADOW_BIT) !== 0) outcome.shadow = true;
  if ((flags & BLOCKED_BIT) !== 0) outcome.blocked = true;
  if ((flags & EXEMPT_BIT) !== 0) outcome.exempt = true;
  if ((flags & LOCKED_OUT_BIT) !== 0) outcome.lockedOut = true;
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
