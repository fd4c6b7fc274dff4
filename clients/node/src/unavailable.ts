/** What a client decides while the service is unavailable. */
import { PlainDecision } from "./decision.js";
import { badOption, requireKnown } from "./option-names.js";
import { shown } from "./shown.js";
import type { Decision, UnavailablePolicy } from "./types.js";

/** A policy for all limits, or one per limit with a default. */
export type UnavailablePolicies =
  | UnavailablePolicy
  | { default?: UnavailablePolicy; limits?: { readonly [limit: string]: UnavailablePolicy } };

/** A limit without a decision, and what is known about it. */
export interface UndecidedLimit {
  name: string;
  /** What the limit says about outages. */
  policy: UnavailablePolicy | undefined;
  size: number | undefined;
}

const NAMES = { default: true, limits: true };

/** When a denied client may ask again: as long as `Retry-After` of a service that is overloaded. */
const RETRY_AFTER_MS = 1_000;

/** The policies of one client. */
export class Unavailable {
  readonly #default: UnavailablePolicy;
  readonly #limits: ReadonlyMap<string, UnavailablePolicy>;

  constructor(policies: UnavailablePolicies = "allow") {
    const given = typeof policies === "string" ? { default: policies } : policies;
    requireKnown(given, NAMES, "onUnavailable");
    this.#default = validPolicy(given.default ?? "allow", "onUnavailable");
    this.#limits = new Map(
      Object.entries(given.limits ?? {}).map(([limit, policy]) => [
        limit,
        validPolicy(policy, `onUnavailable.limits.${limit}`),
      ]),
    );
  }

  /**
   * The decision over these limits: all of their policies must allow the request. What the client
   * says about a limit comes first, then what the limit says itself, then the default.
   */
  decide(limits: readonly UndecidedLimit[]): Decision {
    const outcomes = limits.map(({ name, policy, size }) => {
      const fallback = this.#limits.get(name) ?? policy ?? this.#default;
      const limit = size ?? 0;
      return {
        name,
        limit,
        remaining: fallback === "allow" ? limit : 0,
        resetAfterMs: 0,
        retryAfterMs: fallback === "allow" ? null : RETRY_AFTER_MS,
        fallback,
      };
    });
    return new PlainDecision(
      {
        allowed: outcomes.every((outcome) => outcome.fallback === "allow"),
        source: "fallback",
        degraded: true,
        degradedReason: "unavailable",
        waitMs: 0,
        limits: outcomes,
      },
      { answeredAtMs: Date.now() },
    );
  }
}

function validPolicy(policy: unknown, what: string): UnavailablePolicy {
  if (policy === "allow" || policy === "deny") return policy;
  throw badOption(`${what} must be "allow" or "deny", but it is ${shown(policy)}`);
}
