/** From the limits of a guard and a request to the demands of a check. */
import { limitToWire } from "../limits.js";
import { validCost } from "../operations.js";
import { badOption, type OptionNames, requireKnown } from "../option-names.js";
import { shown } from "../shown.js";
import type { Demand, Key } from "../types.js";
import { by } from "./by.js";
import { missingKeyDenial, type Denial } from "./denial.js";
import { GuardError } from "./error.js";
import type {
  FromRequest,
  GuardLimit,
  GuardOptions,
  KeyFunction,
  LimitList,
  MaybePromise,
  MissingKeyPolicy,
  RefundPredicate,
  RequestContext,
} from "./types.js";

/** A limit of the guard with all defaults. */
export interface PlannedLimit<R, S> {
  limit: Demand["limit"];
  key: KeyFunction<R>;
  cost: FromRequest<R, number> | undefined;
  onMissingKey: MissingKeyPolicy;
  refund: RefundPredicate<S> | undefined;
}

/** A limit of which only the key depends on the request. */
export interface PlainLimit<R, S> extends PlannedLimit<R, S> {
  limit: string;
  cost: number | undefined;
  /** The options of a check. */
  options: { cost: number } | undefined;
}

/** A demand of the request, with what the guard has to know at the end of the response. */
export interface GuardDemand<S> {
  demand: Demand;
  refund: RefundPredicate<S> | undefined;
}

type Found<S> = GuardDemand<S> | Denial | undefined;

const byClientAddress = by.clientAddress();

/** The limits with the defaults of the guard. */
export function planned<R, S>(
  limits: LimitList<R, S>,
  options: GuardOptions<R, S>,
): PlannedLimit<R, S>[] {
  const list = (Array.isArray(limits) ? limits : [limits]) as (string | GuardLimit<R, S>)[];
  return list.map((entry) => {
    const limit: GuardLimit<R, S> = typeof entry === "string" ? { limit: entry } : entry;
    validate(limit);
    return {
      limit: limit.limit,
      key: limit.key ?? byClientAddress,
      cost: limit.cost,
      onMissingKey: limit.onMissingKey ?? options.onMissingKey ?? "error",
      refund: limit.refund === false ? undefined : (limit.refund ?? options.refund),
    };
  });
}

const NAMES: OptionNames<GuardLimit<unknown>> = {
  limit: true,
  key: true,
  cost: true,
  onMissingKey: true,
  refund: true,
};

function validate<R, S>(entry: GuardLimit<R, S>): void {
  // A limit itself in the place of an entry is the mistake that is made most.
  const found: unknown = entry;
  if (typeof found === "object" && found !== null && "algorithm" in found) {
    throw badOption(`an entry of \`limits\` names its limit: write { limit: ${shown(found)} }`);
  }
  requireKnown(found, NAMES, "an entry of `limits`");
  const { limit, key, cost } = entry;
  if (typeof limit !== "string") limitToWire(limit);
  else if (limit === "") throw badOption("the name of a limit must not be empty");
  if (key !== undefined && typeof key !== "function") {
    throw badOption(`key must be a function of the request, but it is ${shown(key)}`);
  }
  if (cost !== undefined && typeof cost !== "function") validCost(cost);
}

/** The names of limits that the code does not describe itself. */
export function configuredNames<R, S>(plan: readonly PlannedLimit<R, S>[]): string[] {
  return plan.map(({ limit }) => limit).filter((limit) => typeof limit === "string");
}

/** The only limit of a plan, if it is plain. */
export function plainLimit<R, S>(
  plan: readonly PlannedLimit<R, S>[] | undefined,
): PlainLimit<R, S> | undefined {
  const only = plan?.[0];
  if (only === undefined || plan?.length !== 1) return undefined;
  const { limit, cost } = only;
  if (typeof limit !== "string" || typeof cost === "function") return undefined;
  return { ...only, limit, cost, options: cost === undefined ? undefined : { cost } };
}

/** The demands of a request, or a denial if it lacks a key that it needs. */
export function demandsOf<R, S>(
  plan: readonly PlannedLimit<R, S>[],
  request: R,
  context: RequestContext,
): MaybePromise<GuardDemand<S>[] | Denial> {
  const found = plan.map((limit) => demandOf(limit, request, context));
  return found.some(isThenable)
    ? Promise.all(found as Promise<Found<S>>[]).then(collect)
    : collect(found as Found<S>[]);
}

/** The same for a single limit whose key is there. */
export function demandsWith<R, S>(
  planned: PlannedLimit<R, S>,
  key: Key | null | undefined,
  request: R,
  context: RequestContext,
): MaybePromise<GuardDemand<S>[] | Denial> {
  return then(demandWith(planned, key, request, context), (found) => collect([found]));
}

/** A demand of a plain limit. */
export function demandOn<R, S>(plain: PlainLimit<R, S>, key: string): GuardDemand<S> {
  const { limit, options, refund } = plain;
  return { demand: { limit, key, ...options }, refund };
}

/** The value for a request; functions are called. */
export function valueFor<R, T>(
  value: FromRequest<R, T>,
  request: R,
  context: RequestContext,
): MaybePromise<T> {
  if (typeof value !== "function") return value;
  return (value as (request: R, context: RequestContext) => MaybePromise<T>)(request, context);
}

/** Continues at once if the value is there, so that a decision from memory needs no promise. */
export function then<T, U>(
  value: MaybePromise<T>,
  next: (value: T) => MaybePromise<U>,
): MaybePromise<U> {
  return isThenable(value) ? Promise.resolve(value).then(next) : next(value);
}

/** Promises of libraries and of other realms are not instances of `Promise`. */
function isThenable<T>(value: MaybePromise<T>): value is Promise<T> {
  if (typeof value !== "object" || value === null) return false;
  return typeof (value as Partial<Promise<T>>).then === "function";
}

function collect<S>(found: Found<S>[]): GuardDemand<S>[] | Denial {
  const demands: GuardDemand<S>[] = [];
  for (const demand of found) {
    if (demand === undefined) continue;
    if ("allowed" in demand) return demand;
    demands.push(demand);
  }
  return demands;
}

function demandOf<R, S>(
  planned: PlannedLimit<R, S>,
  request: R,
  context: RequestContext,
): MaybePromise<Found<S>> {
  const key = planned.key(request, context);
  return then(key, (known) => demandWith(planned, known, request, context));
}

function demandWith<R, S>(
  { limit, cost, refund, onMissingKey }: PlannedLimit<R, S>,
  key: Key | null | undefined,
  request: R,
  context: RequestContext,
): MaybePromise<Found<S>> {
  if (isMissing(key)) return withoutKey(limit, onMissingKey);
  if (cost === undefined) return { demand: { limit, key }, refund };
  return then(valueFor(cost, request, context), (units) => ({
    // Without this, a cost that is missing in the request would be 1.
    demand: { limit, key, cost: validCost(units) },
    refund,
  }));
}

/** Whether a limit cannot count by the key. */
export function isMissing(key: Key | null | undefined): key is null | undefined {
  if (typeof key === "string") return key.trim() === "";
  return key === undefined || key === null || Number.isNaN(key);
}

function withoutKey(limit: Demand["limit"], policy: MissingKeyPolicy): Denial | undefined {
  const name = typeof limit === "string" ? limit : limit.name;
  if (policy === "skip") return undefined;
  if (policy !== "error") return missingKeyDenial(name, policy);
  throw new GuardError(
    `the request has no key for limit "${name}". Return a key, or set onMissingKey to "skip" ` +
      "or to a status such as 401",
  );
}
