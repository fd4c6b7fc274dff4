/** Arguments of calls, checked before anything is sent. */
import { TollgateError } from "./errors.js";
import { validCost, validTokens } from "./operations.js";
import { type OptionNames, requireKnown } from "./option-names.js";
import { shown } from "./shown.js";
import type { CheckOptions, Demand, Key, LimitOptions, ReserveOptions } from "./types.js";
import type { TokenCounts } from "./types.js";

/** A limit as callers name it. */
export type Limit = string | LimitOptions;

/** Arguments of an operation on keys: one limit and its key, or a list of demands. */
export type KeyArguments<Options> =
  | [limit: Limit, key: Key, options?: Options]
  | [demands: readonly Demand[], options?: Options];

export const CHECK: OptionNames<CheckOptions> = { cost: true, tokens: true, attributes: true };
export const RESERVE: OptionNames<ReserveOptions> = { ...CHECK, ttl: true };
const DEMAND: OptionNames<Demand> = { limit: true, key: true, cost: true };

/** The demands and the options of a call. */
export function demandsFrom<Options extends object>(
  args: KeyArguments<Options>,
  names: object = CHECK,
): [readonly Demand[], Options] {
  const [first, second, third] = args;
  if (!isDemands(first)) {
    return [[{ limit: first, key: second as Key }], knownOptions(third, names)];
  }
  for (const demand of first) requireKnown(demand, DEMAND, "a demand");
  return [first, knownOptions(second as Options | undefined, names)];
}

/** The options, if all of them are known. */
export function knownOptions<Options extends object>(
  options: Options | undefined,
  names: object = CHECK,
): Options {
  if (options === undefined) return {} as Options;
  requireKnown(options, names, "the options of a call");
  return options;
}

export function isDemands(first: Limit | readonly Demand[]): first is readonly Demand[] {
  return Array.isArray(first);
}

/** The cost of a demand, or of the call. What is null is not absent: it is an error later. */
export function costOf(demand: Demand, ofCall: number | undefined): number | undefined {
  return demand.cost === undefined ? ofCall : demand.cost;
}

/** The actual or estimated cost of a reservation: whole units, or tokens by kind and no more. */
export function costMembers(
  cost: unknown,
  what: string,
): { units: number } | { tokens: TokenCounts } {
  if (typeof cost !== "object" || cost === null) return { units: validCost(cost, what) };
  const members = Object.keys(cost);
  if (members.length === 1 && members[0] === "tokens") {
    return { tokens: validTokens((cost as { tokens: unknown }).tokens, `${what}.tokens`) };
  }
  const right = "a whole number from 0 to 2^53 - 1, or { tokens: { <kind>: <number> } }";
  const detail = `${what} must be ${right}, but it is ${shown(cost)}`;
  throw new TollgateError({ code: "bad-cost", detail });
}

/** The text of a permit or of a reservation. */
export function validToken(token: unknown, what: string): string {
  if (typeof token === "string" && token !== "") return token;
  const detail = `${what} must be the text of a decision's \`${what}\`, but it is ${shown(token)}`;
  throw new TollgateError({ code: `bad-${what}`, detail });
}

export function closedError(): TollgateError {
  return new TollgateError({ code: "closed", detail: "this Tollgate is closed" });
}
