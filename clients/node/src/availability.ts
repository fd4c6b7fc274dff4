/** Watches whether limits are enforced: decides by policy where they cannot be, and says why. */
import { errorFrom } from "./decision.js";
import type { Answer, Engine } from "./engine.js";
import { TollgateError, type UnavailableError } from "./errors.js";
import type { Limits } from "./limit-book.js";
import { LimitDirectory } from "./limit-directory.js";
import { limitName } from "./operations.js";
import type { Decision, Demand } from "./types.js";
import type { Unavailable, UndecidedLimit } from "./unavailable.js";
import type { Warnings } from "./warnings.js";

/** Why the service decides by policies, if it does not say more. */
const STORE_OF_SERVICE =
  "the service decides by failure policies: its store is unavailable or too slow";

export class Availability {
  readonly directory: LimitDirectory;

  constructor(
    private readonly engine: Engine,
    private readonly limits: Limits,
    private readonly unavailable: Unavailable,
    readonly warnings: Warnings,
  ) {
    this.directory = new LimitDirectory(engine, warnings);
  }

  /** The decision of the policies, because the engine could not be asked. */
  decide(demands: readonly Demand[], { detail }: UnavailableError): Decision {
    this.warnings.degraded(`${detail}. Limits follow their failure policies`);
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
    if (!decision.degraded) warnings.decided(decision);
    else if (engine.whyDegraded === undefined) warnings.degraded(STORE_OF_SERVICE);
    else warnings.degradedBy("store", engine.whyDegraded.bind(engine));
    return decision;
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
