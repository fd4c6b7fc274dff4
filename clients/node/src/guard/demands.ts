/** From the options of a guard and a request to the demands of a check. */
import type { Demand, Key } from "../types.js";
import { by } from "./by.js";
import { missingKeyDenial, type Denial } from "./denial.js";
import { GuardError } from "./error.js";
import type {
  FromRequest,
  GuardLimit,
  GuardOptions,
  MaybePromise,
  RefundPredicate,
  RequestContext,
} from "./types.js";

/** A demand of the request, with what the guard has to know at the end of the response. */
export interface GuardDemand<S> {
  demand: Demand;
  refund: RefundPredicate<S> | undefined;
}

const byClientAddress = by.clientAddress();

/** The demands of a request, or a denial if it lacks a key that it needs. */
export function demandsOf<R, S>(
  options: GuardOptions<R, S>,
  request: R,
  context: RequestContext,
): MaybePromise<GuardDemand<S>[] | Denial> {
  return then(valueFor(options.limits, request, context), (limits) => {
    const list = (typeof limits === "string" || !Array.isArray(limits) ? [limits] : limits) as
      readonly (string | GuardLimit<R, S>)[];
    const demands = list.map((limit) => demandOf(options, limit, request, context));
    return then(all(demands), (found) => found.find(isDenial) ?? found.filter(isDemand));
  });
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
  return value instanceof Promise ? value.then(next) : next(value);
}

function all<T>(values: MaybePromise<T>[]): MaybePromise<T[]> {
  return values.some((value) => value instanceof Promise)
    ? Promise.all(values)
    : (values as T[]);
}

function demandOf<R, S>(
  options: GuardOptions<R, S>,
  entry: string | GuardLimit<R, S>,
  request: R,
  context: RequestContext,
): MaybePromise<GuardDemand<S> | Denial | undefined> {
  const limit: GuardLimit<R, S> = typeof entry === "string" ? { limit: entry } : entry;
  const refund = limit.refund === false ? undefined : (limit.refund ?? options.refund);
  const key = (limit.key ?? byClientAddress)(request, context);

  return then(key, (found) => {
    if (isMissing(found)) return withoutKey(limit, options);
    const demand = { limit: limit.limit, key: found };
    if (limit.cost === undefined) return { demand, refund };
    return then(valueFor(limit.cost, request, context), (cost) => ({
      demand: { ...demand, cost },
      refund,
    }));
  });
}

function isMissing(key: Key | null | undefined): key is null | undefined {
  if (typeof key === "string") return key.trim() === "";
  return key === undefined || key === null || Number.isNaN(key);
}

function withoutKey<R, S>(
  limit: GuardLimit<R, S>,
  options: GuardOptions<R, S>,
): Denial | undefined {
  const policy = limit.onMissingKey ?? options.onMissingKey ?? "error";
  const name = typeof limit.limit === "string" ? limit.limit : limit.limit.name;
  if (policy === "skip") return undefined;
  if (policy !== "error") return missingKeyDenial(name, policy);
  throw new GuardError(
    `the request has no key for limit "${name}". Return a key, or set onMissingKey to "skip" ` +
      "or to a status such as 401",
  );
}

function isDenial<S>(found: GuardDemand<S> | Denial | undefined): found is Denial {
  return found !== undefined && "allowed" in found;
}

function isDemand<S>(found: GuardDemand<S> | Denial | undefined): found is GuardDemand<S> {
  return found !== undefined;
}
