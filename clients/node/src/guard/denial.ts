/** Turns a denied decision into a response: status, header fields and a problem document. */
import type { Decision, LimitOutcome } from "../types.js";

export const PROBLEM_JSON = "application/problem+json";

const TYPES = "https://iana.org/assignments/http-problem-types";
const QUOTA_EXCEEDED = {
  type: `${TYPES}#quota-exceeded`,
  title: "Request cannot be satisfied as assigned quota has been exceeded",
  status: 429,
};
const ABNORMAL_USAGE_DETECTED = {
  type: `${TYPES}#abnormal-usage-detected`,
  title: "Request not satisfied due to detection of abnormal request pattern",
  status: 429,
};
const TEMPORARY_REDUCED_CAPACITY = {
  type: `${TYPES}#temporary-reduced-capacity`,
  title: "Request cannot be satisfied due to temporary server capacity constraints",
  status: 503,
};
const PHRASES = { 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden" };

/** A problem document (RFC 9457), as the service writes it. It never contains keys. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  [member: string]: unknown;
}

/** The request is denied. */
export interface Denial {
  readonly allowed: false;
  /**
   * 429, or 503 if a failure policy denied it; 403 if an operator has blocked the key so; 400, 401
   * or 403 if the key is missing.
   */
  readonly status: number;
  /** The header fields of the response; the content type is not among them. */
  readonly headers: Record<string, string>;
  readonly problem: Problem;
  /** Absent if the request was rejected for want of a key. */
  readonly decision?: Decision;
}

/** The denial of a request that a limit denied. */
export function denialOf(decision: Decision, headers: Record<string, string>): Denial {
  const denying = decision.limits.filter(isDenying);
  const decider = denying.reduce<LimitOutcome | undefined>(
    (longest, limit) => (longest && retryMs(longest) >= retryMs(limit) ? longest : limit),
    undefined,
  );

  const kind = kindOf(decider);
  const status = decision.blockStatus ?? kind.status;
  const problem: Problem = {
    ...kind,
    status,
    detail: detailOf(decider),
    "violated-policies": [...new Set(denying.map((limit) => limit.name))],
    allowed: false,
    source: decision.source,
    degraded: decision.degraded,
    wait_ms: decision.waitMs,
    limits: decision.limits.filter((limit) => limit.shadow !== true).map(limitBody),
  };
  return { allowed: false, status, headers, problem, decision };
}

/** The denial of a request that lacks the key of a limit. */
export function missingKeyDenial(limit: string, status: 400 | 401 | 403): Denial {
  const problem = {
    type: "about:blank",
    title: PHRASES[status],
    status,
    detail: `The request lacks what limit "${limit}" counts by.`,
  };
  return { allowed: false, status, headers: {}, problem };
}

function isDenying(limit: LimitOutcome): boolean {
  if (limit.shadow === true) return false;
  return limit.retryAfterMs !== null || limit.never === true || limit.fallback === "deny";
}

function retryMs(limit: LimitOutcome): number {
  return limit.never === true ? Number.POSITIVE_INFINITY : (limit.retryAfterMs ?? 0);
}

/** The problem type of a denial by this limit. */
function kindOf(limit: LimitOutcome | undefined): typeof QUOTA_EXCEEDED {
  if (limit === undefined || limit.fallback === "deny") return TEMPORARY_REDUCED_CAPACITY;
  const isAbnormal = limit.blocked === true || limit.lockedOut === true;
  return isAbnormal ? ABNORMAL_USAGE_DETECTED : QUOTA_EXCEEDED;
}

function detailOf(limit: LimitOutcome | undefined): string {
  if (limit === undefined) return "The rate limits are temporarily unavailable; retry later.";
  const { name, retryAfterMs } = limit;
  const retry = retryAfterMs === null ? "retry later" : `retry in ${secondsText(retryAfterMs)}`;
  if (limit.blocked === true) {
    const advice = retryAfterMs === null ? "retrying will not help" : retry;
    return `Blocked under limit "${name}"; ${advice}.`;
  }
  if (limit.never === true) {
    return `The cost exceeds limit "${name}" (${limit.limit}); the request can never pass.`;
  }
  return `Limit "${name}" ${verbOf(limit)}; ${retry}.`;
}

function verbOf(limit: LimitOutcome): string {
  if (limit.fallback === "deny") return "is temporarily unavailable";
  return limit.lockedOut === true ? "was exceeded too often" : "exceeded";
}

function secondsText(retryAfterMs: number): string {
  const seconds = retrySeconds(retryAfterMs);
  return seconds === 1 ? "1 second" : `${seconds} seconds`;
}

/** Rounded up, so that a client that waits this long is not denied again. */
export function retrySeconds(retryAfterMs: number): number {
  return Math.max(1, Math.ceil(retryAfterMs / 1_000));
}

function limitBody(limit: LimitOutcome): Record<string, unknown> {
  return {
    name: limit.name,
    limit: limit.limit,
    remaining: limit.remaining,
    reset_after_ms: limit.resetAfterMs,
    retry_after_ms: limit.retryAfterMs,
    ...(limit.never === true && { never: true }),
    ...(limit.blocked === true && { blocked: true }),
    ...(limit.exempt === true && { exempt: true }),
    ...(limit.lockedOut === true && { locked_out: true }),
    ...(limit.fallback !== undefined && { fallback: limit.fallback }),
  };
}
