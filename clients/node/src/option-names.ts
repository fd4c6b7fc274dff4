/** Options that are not known are errors, so that a typo never switches something off. */
import { TollgateError } from "./errors.js";
import { shown } from "./shown.js";

/** The names of all options of an interface. The compiler finds a missing one. */
export type OptionNames<T> = Record<keyof Required<T>, true>;

/**
 * What options of other libraries are called here: by the option that the place has, the text of
 * the suggestion.
 */
const FOREIGN: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  keyGenerator: { key: '"key"', limits: 'the "key" of an entry of "limits"' },
  getTracker: { limits: 'the "key" of an entry of "limits"' },
  windowMs: windowName(),
  timeWindow: windowName(),
  ttl: windowName(),
  duration: windowName(),
  interval: windowName(),
  max: sizeName(),
  points: sizeName(),
  tokens: { cost: '"cost"', ...sizeName() },
  limiter: { limits: '"limits"' },
  burst: { capacity: '"capacity"' },
  rate: { cost: '"cost"', refillRate: '"refillRate"' },
  weight: { cost: '"cost"' },
  handler: { onDenied: '"onDenied"' },
  message: { onDenied: '"onDenied"' },
  errorResponseBuilder: { onDenied: '"onDenied"' },
  allowList: { skip: '"skip"' },
  skipIf: { skip: '"skip"' },
  skipFailedRequests: { refund: '"refund"' },
  skipSuccessfulRequests: { refund: '"refund"' },
  standardHeaders: { headers: '"headers"' },
  legacyHeaders: { headers: '"headers"' },
  addHeaders: { headers: '"headers"' },
  trustProxy: {
    clientAddress: '"clientAddress.trustedProxies"',
    trustedProxies: '"trustedProxies"',
  },
  store: { client: '"client"' },
  storage: { client: '"client"' },
  limiterClient: { client: '"client"' },
  storeClient: { client: '"client"' },
  redis: { client: '"client"', url: "Tollgate.inProcess({ redis })" },
  redisUrl: { redis: '"redis"' },
  connection: { redis: '"redis"' },
  url: { redis: "new Tollgate({ url })" },
  config: { configFile: '"configFile"' },
  keyPrefix: { prefix: '"prefix"' },
  nameSpace: { prefix: '"prefix"' },
  timeout: {
    timeoutMs: '"timeoutMs"',
    storeTimeout: '"storeTimeout"',
    permitTimeout: '"permitTimeout"',
  },
  replicas: { expectedReplicas: '"expectedReplicas"' },
  passOnStoreError: failureName(),
  skipOnError: failureName(),
  failOpen: failureName(),
  onStoreFailure: { onUnavailable: '"onUnavailable"', limits: '"onStoreFailure" of a limit' },
  onUnavailable: { onStoreFailure: '"onStoreFailure"', limits: '"onStoreFailure" of a limit' },
  blockDuration: { lockout: '"lockout"' },
  ban: { lockout: '"lockout"' },
};

function windowName(): Record<string, string> {
  return { window: '"window"', limits: 'the "window" of a limit in "limits"' };
}

function sizeName(): Record<string, string> {
  return { limit: '"limit"', limits: 'the "limit" of a limit in "limits"' };
}

function failureName(): Record<string, string> {
  return { onUnavailable: '"onUnavailable"', onStoreFailure: '"onStoreFailure"' };
}

/** Throws if the options are not an object, or if one is not known. `where` names the place. */
export function requireKnown(options: unknown, known: object, where: string): void {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    const names = Object.keys(known).join(", ");
    throw badOption(`${where} must be an object with ${names}, but it is ${shown(options)}`);
  }
  for (const option in options) {
    if (Object.hasOwn(known, option) || !Object.hasOwn(options, option)) continue;
    throw badOption(unknownOption(where, option, Object.keys(known)));
  }
}

/** What is wrong with an option that is not among the known ones, and which one was meant. */
export function unknownOption(where: string, option: string, known: readonly string[]): string {
  const meant = foreignName(option, known) ?? nearestName(option, known);
  const advice =
    meant === undefined ? `expected one of ${known.join(", ")}` : `did you mean ${meant}?`;
  return `${where}: unknown option ${JSON.stringify(option)}; ${advice}`;
}

export function badOption(detail: string): TollgateError {
  return new TollgateError({ code: "bad-option", detail });
}

function foreignName(option: string, known: readonly string[]): string | undefined {
  const names = Object.hasOwn(FOREIGN, option) ? FOREIGN[option] : undefined;
  const found = Object.entries(names ?? {}).find(([ours]) => known.includes(ours));
  return found?.[1];
}

/** The known name with the fewest different letters, if that is at most a third of them. */
export function nearestName(option: string, known: readonly string[]): string | undefined {
  const letters = (name: string): string => name.replace(/[^a-z]/gi, "").toLowerCase();
  const given = letters(option).slice(0, 40);
  let nearest: string | undefined;
  let fewest = Math.max(1, Math.min(2, Math.floor(given.length / 3))) + 1;
  for (const name of known) {
    const found = distance(given, letters(name));
    if (found < fewest) [nearest, fewest] = [`"${name}"`, found];
  }
  return nearest;
}

/** Letters to add, drop, replace or swap with their neighbour. */
function distance(left: string, right: string): number {
  const rows = [Array.from({ length: right.length + 1 }, (_, column) => column)];
  const at = (row: number, column: number): number => rows[row]?.[column] ?? Infinity;
  for (let row = 1; row <= left.length; row += 1) {
    const cells = [row];
    rows.push(cells);
    for (let column = 1; column <= right.length; column += 1) {
      const isSame = left[row - 1] === right[column - 1];
      const isSwapped = left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1];
      cells[column] = Math.min(
        at(row - 1, column) + 1,
        at(row, column - 1) + 1,
        at(row - 1, column - 1) + (isSame ? 0 : 1),
        isSwapped ? at(row - 2, column - 2) + 1 : Infinity,
      );
    }
  }
  return at(left.length, right.length);
}
