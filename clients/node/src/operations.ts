/** Arguments of a call as an operation of `POST /v1/batch`, checked before anything is sent. */
import type { Operation } from "./engine.js";
import { TollgateError } from "./errors.js";
import type { WireLimit } from "./limits.js";
import { shown } from "./shown.js";
import type { AttributeValue, Demand, Key, LimitOptions, TokenCounts } from "./types.js";

type Attributes = Record<string, string | number | boolean>;

/** Finds the limit that the engine has to be sent along with a name, if any. */
export interface LimitBook {
  /** The limit that this client brings along under this name. */
  broughtAlong(name: string): WireLimit | undefined;
  /** The limit as it has to be sent; `undefined` if the engine is configured with exactly this. */
  inline(limit: LimitOptions): WireLimit | undefined;
}

/** What the operations on keys share. */
export interface KeyOptions {
  cost?: number | undefined;
  tokens?: TokenCounts | undefined;
  attributes?: { readonly [attribute: string]: AttributeValue } | undefined;
}

/** An operation on keys: check, peek, refund, reserve or reset. */
export function keyOperation(
  op: Operation["op"],
  demands: readonly Demand[],
  options: KeyOptions,
  book: LimitBook,
): Operation {
  if (demands.length === 0) {
    throw wrong("no-limits", "expected a list of at least one demand, but it is empty");
  }
  const attributes: Attributes = {};
  addAttributes(attributes, options.attributes ?? {}, "attributes");
  const operation: Operation = { op, limits: demands.map((d) => entry(d, attributes, book)) };
  if (Object.keys(attributes).length > 0) operation.attributes = attributes;
  if (options.cost !== undefined) operation.cost = validCost(options.cost);
  if (options.tokens !== undefined) operation.tokens = validTokens(options.tokens);
  return operation;
}

/** The cost, if it is a whole number that JSON carries without loss. */
export function validCost(cost: unknown, what = "cost"): number {
  if (typeof cost === "number" && Number.isSafeInteger(cost) && cost >= 0) return cost;
  const right = "a whole number from 0 to 2^53 - 1";
  throw wrong("bad-cost", `${what} must be ${right}, but it is ${shown(cost)}`);
}

/** Members of usage objects of providers that no limit counts. */
const NEVER_COUNTED = ["total_tokens", "service_tier", "inference_geo"];

/**
 * Numbers of tokens by their kind, or the whole usage object of a provider. Which members count is
 * decided with the limits; here at least one of them must be a number that could.
 */
export function validTokens(tokens: unknown, what = "tokens"): TokenCounts {
  const isCounted = ([name, value]: [string, unknown]): boolean =>
    typeof value === "number" && !NEVER_COUNTED.includes(name);
  const members = isObject(tokens) ? Object.entries(tokens) : [];
  validCounts(members, what);
  if (members.some(isCounted)) return tokens as TokenCounts;

  const right = "an object with numbers by kind, such as { input: 10 }";
  throw wrong("bad-cost", `${what} must be ${right}, but it is ${shown(tokens)}`);
}

/** Checks the numbers among the members, and those one level below. */
function validCounts(members: [string, unknown][], where: string, isNested = false): void {
  for (const [name, value] of members) {
    const path = `${where}.${name}`;
    if (typeof value === "number" || typeof value === "bigint") validCost(value, path);
    else if (isObject(value) && !isNested) validCounts(Object.entries(value), path, true);
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The name of a limit, given as a name or as the limit itself. */
export function limitName(limit: Demand["limit"]): string {
  return typeof limit === "string" ? limit : limit.name;
}

function entry(demand: Demand, attributes: Attributes, book: LimitBook): unknown {
  const limit = wireLimit(demand.limit, book);
  if (demand.cost !== undefined) limit.cost = validCost(demand.cost);

  const key: unknown = demand.key;
  if (typeof key === "object" && key !== null && !Array.isArray(key)) {
    if (limit.algorithm !== undefined) {
      const right = "a limit that the client brings along counts by one value";
      throw wrong("bad-key", `${right}, but the key of "${limit.name}" is ${shown(key)}`);
    }
    addAttributes(attributes, key as Exclude<Key, string | number | boolean>, "key");
  } else {
    limit.key = validKey(key, limit.name);
  }
  return limit;
}

function wireLimit(limit: Demand["limit"], book: LimitBook): WireLimit {
  if (typeof limit === "string") {
    if (limit === "") throw wrong("unknown-limit", "the name of a limit must not be empty");
    return { ...(book.broughtAlong(limit) ?? { name: limit }) };
  }
  return book.inline(limit) ?? { name: limit.name };
}

/** The key, if a limit can count by it. */
export function validKey(key: unknown, limit: string): string | number | boolean {
  // JSON cannot carry half of a surrogate pair, and UTF-8 replaces it in the same way.
  if (typeof key === "string" && key !== "") return key.toWellFormed();
  if (typeof key === "number" && Number.isSafeInteger(key)) return key;
  if (typeof key === "boolean") return key;
  const right = "a text that is not empty, a whole number, a boolean or an object of attributes";
  throw wrong("bad-key", `the key of "${limit}" must be ${right}, but it is ${shown(key)}`);
}

/** Adds attributes that have a value; two different values for one attribute are an error. */
function addAttributes(
  attributes: Attributes,
  more: { readonly [attribute: string]: AttributeValue },
  what: string,
): void {
  for (const [name, value] of Object.entries(more)) {
    if (value === null || value === undefined) continue;
    const isValue =
      typeof value === "string" ||
      typeof value === "boolean" ||
      (typeof value === "number" && Number.isSafeInteger(value));
    if (!isValue) {
      const right = "a text, a whole number or a boolean";
      throw wrong("bad-key", `${what}.${name} must be ${right}, but it is ${shown(value)}`);
    }
    if (Object.hasOwn(attributes, name) && attributes[name] !== value) {
      const found = `${shown(attributes[name])} and ${shown(value)}`;
      throw wrong("bad-key", `conflicting values of the attribute "${name}": ${found}`);
    }
    attributes[name] = typeof value === "string" ? value.toWellFormed() : value;
  }
}

function wrong(code: string, detail: string): TollgateError {
  return new TollgateError({ code, detail });
}
