/** Decides about requests: the part that all frameworks share. Runs wherever fetch does. */
import { ClientResolver, type Sender } from "./client-address.js";
import { Admission, type Charge } from "./guard/admission.js";
import { demandsOf, then, valueFor, type GuardDemand } from "./guard/demands.js";
import { denialOf, type Denial } from "./guard/denial.js";
import { GuardError } from "./guard/error.js";
import { decisionHeaders } from "./guard/headers.js";
import type { Estimate, GuardOptions, MaybePromise } from "./guard/types.js";
import type { RequestContext, RequestView } from "./guard/types.js";
import type { AttributeValue, Decision, Demand } from "./types.js";

export type { Admission } from "./guard/admission.js";
export { by } from "./guard/by.js";
export { PROBLEM_JSON, type Denial, type Problem } from "./guard/denial.js";
export { GuardError } from "./guard/error.js";
export type {
  AdmittedRequest,
  Estimate,
  FinishedResponse,
  FromRequest,
  GuardLimit,
  GuardOptions,
  KeyFunction,
  Limiter,
  MaybePromise,
  MissingKeyPolicy,
  RefundPredicate,
  RequestContext,
  RequestView,
} from "./guard/types.js";

/** Longer than most responses take; an hour is the most that the service allows. */
const RESERVATION_TTL = "10m";

type Attributes = Record<string, AttributeValue>;

/** Decides about the requests `R` of a framework, whose responses are `S`. */
export class Guard<R, S> {
  readonly #options: GuardOptions<R, S>;
  readonly #view: RequestView<R>;
  readonly #clients: ClientResolver;

  /** Throws a `TypeError` if the options are wrong. */
  constructor(options: GuardOptions<R, S>, view: RequestView<R>) {
    if (typeof options.client !== "object") {
      throw new TypeError("the option `client` must be a Tollgate");
    }
    if (Array.isArray(options.limits) && options.limits.length === 0) {
      throw new TypeError("the option `limits` must name at least one limit");
    }
    if (options.settle !== undefined && options.estimate === undefined) {
      throw new TypeError("the option `settle` needs an `estimate`, which is reserved first");
    }
    this.#options = options;
    this.#view = view;
    this.#clients = new ClientResolver(options.clientAddress);
  }

  /**
   * Checks a request against all its limits, which pass together or not at all. Throws or rejects
   * with a `GuardError` if the application is misconfigured: then no request passes. Answers
   * without a promise if nothing has to be waited for.
   */
  admit(request: R): MaybePromise<Admission<R, S> | Denial> {
    try {
      const admission = this.#admit(request, this.#contextOf(request));
      if (!(admission instanceof Promise)) return admission;
      return admission.catch((error: unknown) => { throw GuardError.from(error); });
    } catch (error) {
      throw GuardError.from(error);
    }
  }

  #admit(request: R, context: RequestContext): MaybePromise<Admission<R, S> | Denial> {
    const options = this.#options;
    return then(options.skip?.(request, context) ?? false, (isSkipped) => {
      if (isSkipped) return new Admission(options, request);
      return then(demandsOf(options, request, context), (demands) => {
        if (!Array.isArray(demands)) return demands;
        if (demands.length === 0) return new Admission(options, request);
        return this.#ask(request, context, demands);
      });
    });
  }

  #ask(
    request: R,
    context: RequestContext,
    demands: GuardDemand<S>[],
  ): MaybePromise<Admission<R, S> | Denial> {
    const options = this.#options;
    const attributes =
      options.attributes === undefined
        ? undefined
        : valueFor<R, Attributes>(options.attributes, request, context);
    const estimate =
      options.estimate === undefined
        ? undefined
        : valueFor<R, Estimate>(options.estimate, request, context);

    return then(attributes, (known) =>
      then(estimate, (expected) =>
        then(this.#decide(demands, known, expected), (decision) =>
          this.#conclude(request, { decision, demands, attributes: known, estimate: expected }),
        ),
      ),
    );
  }

  /** Reserves the estimate if there is one, else charges. */
  #decide(
    demands: GuardDemand<S>[],
    attributes: Attributes | undefined,
    estimate: Estimate | undefined,
  ): MaybePromise<Decision> {
    const { client, reservationTtl } = this.#options;
    const asked: Demand[] = demands.map(({ demand }) => demand);
    const known = attributes === undefined ? {} : { attributes };

    if (estimate !== undefined) {
      const cost = typeof estimate === "number" ? { cost: estimate } : estimate;
      const ttl = reservationTtl ?? RESERVATION_TTL;
      return client.reserve(asked, { ...known, ...cost, ttl });
    }
    return tryFirst(client, asked, attributes) ?? client.check(asked, known);
  }

  #conclude(request: R, charge: Charge<S>): Admission<R, S> | Denial {
    const { decision } = charge;
    const options = this.#options;
    options.onDecision?.(decision, request);

    const headers = decisionHeaders(decision, options.headers !== false);
    return decision.allowed
      ? new Admission(options, request, headers, charge)
      : denialOf(decision, headers);
  }

  #contextOf(request: R): RequestContext {
    const view = this.#view;
    const sender: Sender = {
      get peer() {
        return view.peer(request);
      },
      header: (name) => view.header(request, name),
    };
    return {
      clientAddress: () => this.#clients.key(sender),
      header: (name) => {
        const value = view.header(request, name.toLowerCase());
        const text = (typeof value === "object" ? value.join(", ") : value)?.trim();
        return text === "" ? undefined : text;
      },
    };
  }
}

/** A decision from memory or from a lease, for one limit of an engine in the process. */
function tryFirst(
  client: GuardOptions<unknown, unknown>["client"],
  demands: Demand[],
  attributes: Attributes | undefined,
): Decision | undefined {
  const [demand, ...others] = demands;
  if (demand === undefined || others.length > 0 || attributes !== undefined) return undefined;
  if (typeof demand.limit !== "string" || typeof demand.key === "object") return undefined;
  const cost = demand.cost === undefined ? {} : { cost: demand.cost };
  return client.tryCheck(demand.limit, demand.key, cost);
}
