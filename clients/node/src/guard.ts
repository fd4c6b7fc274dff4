/** Decides about requests: the part that all frameworks share. Runs wherever fetch does. */
import { costMembers } from "./arguments.js";
import { ClientResolver } from "./client-address.js";
import { Admission, type Charge } from "./guard/admission.js";
import { GuardContext } from "./guard/context.js";
import { configuredNames, demandOn, demandsOf, demandsWith, isMissing } from "./guard/demands.js";
import { plainLimit, planned, then, valueFor } from "./guard/demands.js";
import type { GuardDemand, PlainLimit, PlannedLimit } from "./guard/demands.js";
import { denialOf, type Denial } from "./guard/denial.js";
import { GuardError } from "./guard/error.js";
import { decisionHeaders } from "./guard/headers.js";
import type { Estimate, GuardOptions, LimitList, MaybePromise } from "./guard/types.js";
import type { RequestContext, RequestView } from "./guard/types.js";
import { type OptionNames, requireKnown } from "./option-names.js";
import { shown } from "./shown.js";
import type { AttributeValue, Decision } from "./types.js";

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
  /** `undefined` if a function selects the limits of each request. */
  readonly #plan: PlannedLimit<R, S>[] | undefined;
  /** The only limit, if nothing but its key depends on the request. */
  readonly #plain: PlainLimit<R, S> | undefined;

  /**
   * Throws if the options are wrong, or if a limit does not exist. `own` names the options that the
   * adapter adds.
   */
  constructor(options: GuardOptions<R, S>, view: RequestView<R>, own: readonly string[] = []) {
    validate(options, own);
    const { limits } = options;
    this.#options = options;
    this.#view = view;
    this.#clients = new ClientResolver(options.clientAddress);
    this.#plan = typeof limits === "function" ? undefined : planned(limits, options);
    options.client.requireLimits?.(configuredNames(this.#plan ?? []));
    const isPlain = options.attributes === undefined && options.estimate === undefined;
    this.#plain = isPlain ? plainLimit(this.#plan) : undefined;
  }

  /**
   * Checks a request against all its limits, which pass together or not at all. Throws or rejects
   * with a `GuardError` if the application is misconfigured: then no request passes. Answers
   * without a promise if nothing has to be waited for.
   */
  admit(request: R): MaybePromise<Admission<R, S> | Denial> {
    const context = new GuardContext(request, this.#view, this.#clients);
    const { skip } = this.#options;
    try {
      const admission =
        skip === undefined
          ? this.#limit(request, context)
          : then(skip(request, context), (isSkipped) =>
              validSkip(isSkipped) ? this.#unlimited(request) : this.#limit(request, context),
            );
      if (!(admission instanceof Promise)) return admission;
      return admission.catch((error: unknown) => { throw GuardError.from(error); });
    } catch (error) {
      throw GuardError.from(error);
    }
  }

  #unlimited(request: R): Admission<R, S> {
    return new Admission(this.#options, request);
  }

  #limit(request: R, context: RequestContext): MaybePromise<Admission<R, S> | Denial> {
    if (this.#plain !== undefined) return this.#limitPlain(this.#plain, request, context);
    return then(this.#planFor(request, context), (plan) =>
      then(demandsOf(plan, request, context), (found) => this.#askFor(request, context, found)),
    );
  }

  /** The usual case: without a promise and without a closure if the decision needs no waiting. */
  #limitPlain(
    plain: PlainLimit<R, S>,
    request: R,
    context: RequestContext,
  ): MaybePromise<Admission<R, S> | Denial> {
    const key = plain.key(request, context);
    if (typeof key !== "string" || isMissing(key)) {
      const found = then(key, (known) => demandsWith(plain, known, request, context));
      return then(found, (demands) => this.#askFor(request, context, demands));
    }

    const { client } = this.#options;
    const decision = client.tryCheck(plain.limit, key, plain.options);
    // Only a refund names the demands once more.
    const demands = plain.refund === undefined ? [] : [demandOn(plain, key)];
    if (decision !== undefined) return this.#conclude(request, { decision, demands });
    const checked = client.check(plain.limit, key, plain.options);
    return checked.then((found) => this.#conclude(request, { decision: found, demands }));
  }

  #askFor(
    request: R,
    context: RequestContext,
    demands: GuardDemand<S>[] | Denial,
  ): MaybePromise<Admission<R, S> | Denial> {
    if (!Array.isArray(demands)) return demands;
    if (demands.length === 0) return this.#unlimited(request);
    return this.#ask(request, context, demands);
  }

  #planFor(request: R, context: RequestContext): MaybePromise<PlannedLimit<R, S>[]> {
    if (this.#plan !== undefined) return this.#plan;
    const options = this.#options;
    const limits = valueFor<R, LimitList<R, S>>(options.limits, request, context);
    return then(limits, (selected) => planned(selected, options));
  }

  #ask(
    request: R,
    context: RequestContext,
    demands: GuardDemand<S>[],
  ): MaybePromise<Admission<R, S> | Denial> {
    const { attributes, estimate } = this.#options;
    if (attributes === undefined && estimate === undefined) {
      const decision = this.#decide(demands, undefined, undefined);
      return then(decision, (found) => this.#conclude(request, { decision: found, demands }));
    }

    return then(valueFor<R, Attributes | undefined>(attributes, request, context), (known) =>
      then(valueFor<R, Estimate | undefined>(estimate, request, context), (expected) =>
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
    const { client, reservationTtl, estimate: isEstimated } = this.#options;
    const asked = demands.map(({ demand }) => demand);
    const known = attributes === undefined ? {} : { attributes };

    if (isEstimated !== undefined) {
      const members = costMembers(estimate, "estimate");
      const cost = "units" in members ? { cost: members.units } : members;
      const ttl = reservationTtl ?? RESERVATION_TTL;
      return client.reserve(asked, { ...known, ...cost, ttl });
    }
    // From memory or from leases, without a promise.
    return client.tryCheck(asked, known) ?? client.check(asked, known);
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
}

/** Anything that is true by its type alone would let every request pass. */
function validSkip(isSkipped: unknown): boolean {
  if (typeof isSkipped === "boolean") return isSkipped;
  throw new GuardError(`\`skip\` must return a boolean, but it is ${shown(isSkipped)}`);
}

const NAMES: OptionNames<GuardOptions<unknown, unknown>> = {
  client: true,
  limits: true,
  clientAddress: true,
  attributes: true,
  skip: true,
  onMissingKey: true,
  headers: true,
  refund: true,
  estimate: true,
  settle: true,
  reservationTtl: true,
  onDecision: true,
  onError: true,
};

/** Throws if an option is neither one of a guard nor one of its adapter. */
export function requireGuardOptions(options: unknown, own: readonly string[]): void {
  const known = { ...NAMES, ...Object.fromEntries(own.map((name) => [name, true])) };
  requireKnown(options, known, "the options");
}

function validate<R, S>(options: GuardOptions<R, S>, own: readonly string[]): void {
  requireGuardOptions(options, own);
  const client: unknown = options.client;
  if (typeof client !== "object" || client === null) {
    throw new TypeError(`the option \`client\` must be a Tollgate, but it is ${shown(client)}`);
  }
  if (Array.isArray(options.limits) && options.limits.length === 0) {
    throw new TypeError("the option `limits` must name at least one limit");
  }
  if (options.settle !== undefined && options.estimate === undefined) {
    throw new TypeError("the option `settle` needs an `estimate`, which is reserved first");
  }
  if (typeof options.estimate !== "function" && options.estimate !== undefined) {
    costMembers(options.estimate, "the option `estimate`");
  }
}
