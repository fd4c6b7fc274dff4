/** The client: one API over both engines. */
import { decisionFrom, errorFrom, isDecision } from "./decision.js";
import type { Answer, Engine, Operation, TryDemand } from "./engine.js";
import { HttpEngine } from "./engines/http.js";
import { NativeEngine, openCore } from "./engines/native.js";
import { TollgateError, UnavailableError } from "./errors.js";
import { Limits } from "./limit-book.js";
import { durationToWire, shown } from "./limits.js";
import { keyOperation, type KeyOptions, limitName, validCost, validKey } from "./operations.js";
import { configFrom, type InProcessOptions, type TollgateOptions } from "./options.js";
import type {
  ActualCost,
  CheckOptions,
  Decision,
  Demand,
  Key,
  LimitOptions,
  Peek,
  ReserveOptions,
  Settlement,
} from "./types.js";
import { Unavailable } from "./unavailable.js";

type Limit = string | LimitOptions;

/** For an engine that exists already. */
export interface EngineOptions {
  engine: Engine;
  /** The limits that the engine is configured with. */
  configured?: readonly LimitOptions[];
}

/**
 * Asks limits about keys, over HTTP (`new Tollgate({ url })`) or in this process
 * (`await Tollgate.inProcess({ limits })`).
 *
 * A wrong request rejects with `TollgateError`. While the service is unavailable, decisions follow
 * `onUnavailable` and are `degraded`; operations without a decision reject with `UnavailableError`.
 */
export class Tollgate {
  readonly #engine: Engine;
  readonly #limits: Limits;
  readonly #unavailable: Unavailable;
  #closing: Promise<void> | undefined;

  constructor(options: TollgateOptions | EngineOptions) {
    if ("engine" in options) {
      this.#engine = options.engine;
      this.#limits = Limits.configured(options.configured ?? []);
      this.#unavailable = new Unavailable();
    } else {
      this.#unavailable = new Unavailable(options.onUnavailable);
      this.#limits = Limits.broughtAlong(options.limits ?? []);
      this.#engine = new HttpEngine(options);
    }
  }

  /** Opens the Rust core in this process, counting in memory or in Redis. */
  static async inProcess(options: InProcessOptions): Promise<Tollgate> {
    const engine = new NativeEngine(await openCore(configFrom(options)));
    return new Tollgate({ engine, configured: options.limits ?? [] });
  }

  /** Checks a key, or several limits that pass together or not at all, and charges it. */
  check(limit: Limit, key: Key, options?: CheckOptions): Promise<Decision>;
  check(demands: readonly Demand[], options?: CheckOptions): Promise<Decision>;
  async check(...args: KeyArguments<CheckOptions>): Promise<Decision> {
    const [demands, options] = demandsFrom(args);
    return this.#tryDemands(demands, options) ?? this.#decide("check", demands, options);
  }

  /**
   * Checks without waiting. `undefined` if the store must be asked: then `check` does. Over HTTP it
   * always must.
   */
  tryCheck(limit: Limit, key: Key, options?: CheckOptions): Decision | undefined;
  tryCheck(demands: readonly Demand[], options?: CheckOptions): Decision | undefined;
  tryCheck(
    first: Limit | readonly Demand[],
    second?: Key | CheckOptions,
    third?: CheckOptions,
  ): Decision | undefined {
    if (isDemands(first)) return this.#tryDemands(first, (second ?? {}) as CheckOptions);
    if (third?.attributes !== undefined) return undefined;
    return this.#tryOne(first, second as Key, third?.cost);
  }

  /** Charges whether it fits or not; `allowed` says whether it did. */
  count(limit: Limit, key: Key, options?: CheckOptions): Promise<Decision>;
  count(demands: readonly Demand[], options?: CheckOptions): Promise<Decision>;
  async count(...args: KeyArguments<CheckOptions>): Promise<Decision> {
    const [demands, options] = demandsFrom(args);
    return this.#decide("check", demands, options, { count: true });
  }

  /** The decision that a check would make now, and what the counters contain. Charges nothing. */
  peek(limit: Limit, key: Key, options?: CheckOptions): Promise<Peek>;
  peek(demands: readonly Demand[], options?: CheckOptions): Promise<Peek>;
  async peek(...args: KeyArguments<CheckOptions>): Promise<Peek> {
    const [demands, options] = demandsFrom(args);
    const answer = await this.#send(keyOperation("peek", demands, options, this.#limits));
    if (!isDecision(answer)) throw errorFrom(answer.status, answer.body);
    return decisionFrom(answer);
  }

  /** Gives back what a check with the same arguments has charged. */
  refund(limit: Limit, key: Key, options?: CheckOptions): Promise<void>;
  refund(demands: readonly Demand[], options?: CheckOptions): Promise<void>;
  async refund(...args: KeyArguments<CheckOptions>): Promise<void> {
    const [demands, options] = demandsFrom(args);
    await this.#carryOut(keyOperation("refund", demands, options, this.#limits));
  }

  /** Forgets what the key has used. */
  reset(limit: Limit, key: Key, options?: Pick<CheckOptions, "attributes">): Promise<void>;
  reset(demands: readonly Demand[], options?: Pick<CheckOptions, "attributes">): Promise<void>;
  async reset(...args: KeyArguments<Pick<CheckOptions, "attributes">>): Promise<void> {
    const [demands, options] = demandsFrom(args);
    await this.#carryOut(keyOperation("reset", demands, options, this.#limits));
  }

  /** Charges an estimate; `reservation` of the decision is for `settle` or `cancel`. */
  reserve(limit: Limit, key: Key, options?: ReserveOptions): Promise<Decision>;
  reserve(demands: readonly Demand[], options?: ReserveOptions): Promise<Decision>;
  async reserve(...args: KeyArguments<ReserveOptions>): Promise<Decision> {
    const [demands, options] = demandsFrom(args);
    const members: Record<string, unknown> = {};
    if (options.ttl !== undefined) members.ttl = durationToWire(options.ttl, "ttl");
    if (options.tokens !== undefined) members.tokens = validTokens(options.tokens);
    return this.#decide("reserve", demands, options, members);
  }

  /**
   * Charges what the work has really cost, in place of the estimate. A decision without a
   * reservation, such as one of the unavailable policy, has nothing to settle.
   */
  async settle(reservation: string | Decision, actual: ActualCost): Promise<Settlement> {
    const cost =
      typeof actual === "object"
        ? { tokens: validTokens(actual.tokens) }
        : { actual: validCost(actual, "actual") };
    return this.#settle("settle", reservation, cost);
  }

  /** Returns what was reserved. */
  async cancel(reservation: string | Decision): Promise<Settlement> {
    return this.#settle("cancel", reservation, {});
  }

  /** Checks a concurrency limit; `permit` of the decision is for `release`. */
  acquire(limit: Limit, key: Key, options?: CheckOptions): Promise<Decision>;
  acquire(demands: readonly Demand[], options?: CheckOptions): Promise<Decision>;
  async acquire(...args: KeyArguments<CheckOptions>): Promise<Decision> {
    const [demands, options] = demandsFrom(args);
    return this.#decide("check", demands, options);
  }

  /** Releases a permit; `false` if there was none, it was released before or it had timed out. */
  async release(permit: string | Decision): Promise<boolean> {
    const token = typeof permit === "object" ? permit.permit : validToken(permit, "permit");
    if (token === undefined) return false;
    const body = await this.#carryOut({ op: "release", permit: token });
    return body.released === true;
  }

  /** Returns leases and closes connections. Calls after it reject. */
  close(): Promise<void> {
    this.#closing ??= this.#engine.close();
    return this.#closing;
  }

  #tryDemands(demands: readonly Demand[], options: KeyOptions): Decision | undefined {
    if (options.attributes !== undefined) return undefined;
    const [demand] = demands;
    if (demand !== undefined && demands.length === 1) {
      return this.#tryOne(demand.limit, demand.key, demand.cost ?? options.cost);
    }

    if (this.#closing !== undefined) throw closedError();
    const engine = this.#engine;
    const isSelected = demands.some(({ key }) => typeof key === "object");
    if (engine.tryCheckAll === undefined || isSelected || demands.length === 0) return undefined;
    return engine.tryCheckAll(demands.map((each) => this.#tryDemand(each, options.cost)));
  }

  #tryDemand({ limit, key, cost }: Demand, usualCost: number | undefined): TryDemand {
    const inline = typeof limit === "string" ? undefined : this.#limits.inline(limit);
    const name = limitName(limit);
    const units = cost ?? usualCost;
    if (units !== undefined) validCost(units);
    return { limit: name, key: String(validKey(key, name)), cost: units, inline };
  }

  #tryOne(limit: Limit, key: Key, cost: number | undefined): Decision | undefined {
    if (this.#closing !== undefined) throw closedError();
    const engine = this.#engine;
    if (engine.tryCheck === undefined || typeof key === "object") return undefined;

    if (cost !== undefined) validCost(cost);
    // The usual case. The core replaces half a surrogate pair itself.
    if (typeof limit === "string" && typeof key === "string" && key !== "") {
      return engine.tryCheck(limit, key, cost);
    }

    const name = limitName(limit);
    const inline = typeof limit === "string" ? undefined : this.#limits.inline(limit);
    return engine.tryCheck(name, String(validKey(key, name)), cost, inline);
  }

  async #decide(
    op: Operation["op"],
    demands: readonly Demand[],
    options: KeyOptions,
    members: Record<string, unknown> = {},
  ): Promise<Decision> {
    const operation = keyOperation(op, demands, options, this.#limits);
    try {
      const answer = await this.#send({ ...operation, ...members });
      if (!isDecision(answer)) throw errorFrom(answer.status, answer.body);
      return decisionFrom(answer);
    } catch (error) {
      if (!(error instanceof UnavailableError)) throw error;
      const names = demands.map((demand) => limitName(demand.limit));
      return this.#unavailable.decide(names, (name) => this.#limits.sizeOf(name));
    }
  }

  async #settle(
    op: "settle" | "cancel",
    reservation: string | Decision,
    cost: Record<string, unknown>,
  ): Promise<Settlement> {
    const token =
      typeof reservation === "object"
        ? reservation.reservation
        : validToken(reservation, "reservation");
    if (token === undefined) return { charged: 0, reservation: "unknown" };
    const body = await this.#carryOut({ op, reservation: token, ...cost });
    return {
      charged: body.charged as number,
      reservation: body.reservation as Settlement["reservation"],
    };
  }

  /** Sends an operation without a decision. */
  async #carryOut(operation: Operation): Promise<Record<string, unknown>> {
    const { status, body } = await this.#send(operation);
    if (status === 200) return body;
    throw errorFrom(status, body);
  }

  #send(operation: Operation): Promise<Answer> {
    this.#assertOpen();
    return this.#engine.send(operation);
  }

  #assertOpen(): void {
    if (this.#closing !== undefined) throw closedError();
  }
}

function closedError(): TollgateError {
  return new TollgateError({ code: "closed", detail: "this Tollgate is closed" });
}

/** Arguments of an operation on keys: one limit and its key, or a list of demands. */
type KeyArguments<Options> =
  | [limit: Limit, key: Key, options?: Options]
  | [demands: readonly Demand[], options?: Options];

function demandsFrom<Options extends object>(
  args: KeyArguments<Options>,
): [readonly Demand[], Options] {
  const [first, second, third] = args;
  if (isDemands(first)) {
    return [first, (second as Options | undefined) ?? ({} as Options)];
  }
  return [[{ limit: first, key: second as Key }], third ?? ({} as Options)];
}

function isDemands(first: Limit | readonly Demand[]): first is readonly Demand[] {
  return Array.isArray(first);
}

function validTokens(tokens: { readonly [kind: string]: number }): Record<string, number> {
  const kinds = Object.entries(tokens);
  return Object.fromEntries(kinds.map(([kind, n]) => [kind, validCost(n, `tokens.${kind}`)]));
}

function validToken(token: unknown, what: string): string {
  if (typeof token === "string" && token !== "") return token;
  const detail = `${what} must be the text of a decision's \`${what}\`, but it is ${shown(token)}`;
  throw new TollgateError({ code: `bad-${what}`, detail });
}
