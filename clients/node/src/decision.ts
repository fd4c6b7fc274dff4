/** Answers of an engine as decisions, in camel case. */
import type { Answer } from "./engine.js";
import { TollgateError, UnavailableError } from "./errors.js";
import { type HeaderFacts, headerFields } from "./headers.js";
import type { CounterView, Decision, DegradedReason, LimitOutcome, Source } from "./types.js";

/** What a decision consists of, apart from its headers. */
export type DecisionParts<Outcome extends LimitOutcome = LimitOutcome> = Omit<
  Decision,
  "headers" | "limits" | "retryAfterMs"
> & { limits: Outcome[] };

/** A decision: plain members for JSON, and `headers()` on the prototype. */
export class PlainDecision<Outcome extends LimitOutcome = LimitOutcome> implements Decision {
  readonly allowed: boolean;
  readonly source: Source;
  readonly degraded: boolean;
  readonly waitMs: number;
  readonly limits: Outcome[];
  readonly retryAfterMs: number | null;
  declare readonly blockStatus?: number;
  declare readonly permit?: string;
  declare readonly reservation?: string;
  declare readonly degradedReason?: DegradedReason;
  declare readonly warning?: string;
  readonly #fields: Record<string, string> | HeaderFacts;

  /** `fields` are the header fields of the answer, or what is known to compute them. */
  constructor(parts: DecisionParts<Outcome>, fields: Record<string, string> | HeaderFacts) {
    this.allowed = parts.allowed;
    this.source = parts.source;
    this.degraded = parts.degraded;
    this.waitMs = parts.waitMs;
    this.limits = parts.limits;
    this.retryAfterMs = parts.allowed ? null : longestRetry(parts.limits);
    if (parts.blockStatus !== undefined) this.blockStatus = parts.blockStatus;
    if (parts.permit !== undefined) this.permit = parts.permit;
    if (parts.reservation !== undefined) this.reservation = parts.reservation;
    if (parts.degradedReason !== undefined) this.degradedReason = parts.degradedReason;
    if (parts.warning !== undefined) this.warning = parts.warning;
    this.#fields = fields;
  }

  headers(): Record<string, string> {
    const fields = this.#fields;
    return isFacts(fields) ? headerFields(this, fields) : { ...fields };
  }
}

/** Whether the answer is a decision: its body has `allowed`. */
export function isDecision(answer: Answer): boolean {
  return typeof answer.body.allowed === "boolean";
}

/** The decision that the answer contains. */
export function decisionFrom(answer: Answer): PlainDecision<CounterView> {
  const body = camelCase(answer.body) as DecisionParts<CounterView>;
  return new PlainDecision(
    {
      allowed: body.allowed,
      source: body.source,
      degraded: body.degraded,
      waitMs: body.waitMs,
      limits: body.limits,
      // Only a block has this status.
      ...(answer.status === 403 && { blockStatus: 403 }),
      ...(typeof body.permit === "string" && { permit: body.permit }),
      ...(typeof body.reservation === "string" && { reservation: body.reservation }),
      ...(typeof body.warning === "string" && { warning: body.warning }),
      ...(body.degradedReason !== undefined && { degradedReason: body.degradedReason }),
    },
    answer.headers ?? { answeredAtMs: Date.now() },
  );
}

/**
 * The error that an answer without a decision is. Whether it is worth asking again decides which:
 * a wrong request must never look like an outage, or a typo would let every request pass.
 */
export function errorFrom(status: number, body: Record<string, unknown>): TollgateError {
  const code = typeof body.code === "string" ? body.code : `http-${status}`;
  const detail =
    typeof body.detail === "string" ? body.detail : `the service answered with status ${status}`;
  const info = { code, detail, status };
  const isOutage = status === 408 || status >= 500 || (body.retryable === true && status !== 401);
  return isOutage ? new UnavailableError(info) : new TollgateError(info);
}

/** `reset_after_ms` becomes `resetAfterMs`, in objects and lists of any depth. */
function camelCase(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(camelCase);
  if (typeof value !== "object" || value === null) return value;
  const result: Record<string, unknown> = {};
  for (const name in value) {
    const member = (value as Record<string, unknown>)[name];
    result[camelName(name)] = typeof member === "object" ? camelCase(member) : member;
  }
  return result;
}

const camelNames = new Map<string, string>();

function camelName(name: string): string {
  let camel = camelNames.get(name);
  if (camel === undefined) {
    camel = name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
    // The members of answers are few; the bound is for a server that is not ours.
    if (camelNames.size < 256) camelNames.set(name, camel);
  }
  return camel;
}

/** When the last of the denying limits allows the request; `null` if none denies, or never. */
export function longestRetry(limits: readonly LimitOutcome[]): number | null {
  let longest: number | null = null;
  for (const outcome of limits) {
    if (outcome.shadow === true) continue;
    if (outcome.never === true) return null;
    if (outcome.retryAfterMs !== null && outcome.retryAfterMs > (longest ?? -1)) {
      longest = outcome.retryAfterMs;
    }
  }
  return longest;
}

function isFacts(fields: Record<string, string> | HeaderFacts): fields is HeaderFacts {
  return typeof fields.answeredAtMs === "number";
}
