/** Watches whether limits are enforced: decides by policy where they cannot be, and says why. */
import { errorFrom } from "./decision.js";
import type { Answer, Engine } from "./engine.js";
import { TollgateError, type UnavailableError } from "./errors.js";
import type { Limits } from "./limit-book.js";
import { LimitDirectory } from "./limit-directory.js";
import { limitName } from "./operations.js";
import { monotonicMs } from "./runtime.js";
import type { Decision, DegradedReason, Demand } from "./types.js";
import type { Unavailable, UndecidedLimit } from "./unavailable.js";
import type { Warnings } from "./warnings.js";

/** Why the service decides by policies. */
const REASONS_OF_SERVICE: Readonly<Record<DegradedReason, string>> = {
  store_timeout: "its store did not reply in time",
  unavailable: "its store is unavailable",
  overload: "it is overloaded",
  refused: "its store replied with an error that needs an operator",
};

/** How often the engine is asked what the operator should know. */
const WARNINGS_MS = 60_000;

export class Availability {
  readonly directory: LimitDirectory;
  /** When the engine is asked next what the operator should know. */
  #warningsAtMs = -Infinity;

  constructor(
    private readonly engine: Engine,
    private readonly limits: Limits,
    private readonly unavailable: Unavailable,
    readonly warnings: Warnings,
  ) {
    this.directory = new LimitDirectory(engine, warnings);
  }

  /** The decision of the policies, because the engine could not be asked. */
  decide(demands: readonly Demand[], { code, detail }: UnavailableError): Decision {
    const { engine, warnings } = this;
    warnings.degraded(`${detail}. Limits follow their failure policies`);
    // What is wrong may take longer to find than a call may take.
    if (code === "timeout" && engine.whyUnavailable !== undefined) {
      warnings.degradedBy(code, engine.whyUnavailable.bind(engine));
    }
    return this.unavailable.decide(demands.map((demand) => this.#undecided(demand)));
  }

  /** The service may change the policies of its limits; an engine in the process does not. */
  refreshPolicies(demands: readonly Demand[]): void {
    if (this.engine.tryCheck !== undefined) return;
    const isConfigured = ({ limit }: Demand): boolean =>
      typeof limit === "string" && !this.limits.has(limit);
    if (demands.some(isConfigured)) this.directory.refresh();
  }

  /** Tells if a policy has decided, and when that is over. */
  observed<D extends Decision>(decision: D): D {
    const { engine, warnings } = this;
    if (!decision.degraded) {
      warnings.decided(decision);
      return decision;
    }

    // The store may return with other settings.
    this.#warningsAtMs = -Infinity;
    const reason = decision.degradedReason ?? "unavailable";
    if (engine.whyDegraded === undefined) {
      const why = REASONS_OF_SERVICE[reason];
      warnings.degraded(`the service decides by failure policies: ${why}`);
    } else {
      warnings.degradedBy(reason, engine.whyDegraded.bind(engine, reason));
    }
    return decision;
  }

  /** The same for a decision of the store, which may come with warnings. */
  answered<D extends Decision>(decision: D): D {
    if (decision.warning !== undefined) this.warnings.once(decision.warning);
    if (!decision.degraded && monotonicMs() >= this.#warningsAtMs) {
      this.#warningsAtMs = monotonicMs() + WARNINGS_MS;
      this.tellWarnings();
    }
    return this.observed(decision);
  }

  /** Tells what the operator should know about the store, each text once. */
  tellWarnings(): void {
    for (const warning of this.engine.warnings?.() ?? []) this.warnings.once(warning);
  }

  /** The error of an answer without a decision. */
  rejection({ status, body }: Answer): TollgateError {
    return this.refused(errorFrom(status, body));
  }

  /** The error. One about tokens and permissions is told, too: a library may swallow it. */
  refused<E>(error: E): E {
    if (error instanceof TollgateError && (error.status === 401 || error.status === 403)) {
      this.warnings.degraded(`the service refuses requests: ${error.message}`);
    }
    return error;
  }

  #undecided({ limit }: Demand): UndecidedLimit {
    const name = limitName(limit);
    const policy = this.limits.policyOf(limit) ?? this.directory.policyOf(name);
    return { name, policy, size: this.limits.sizeOf(name) };
  }
}
