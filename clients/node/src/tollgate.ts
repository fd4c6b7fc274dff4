/** The client: one API over both engines. */
import type { KeyArguments, Limit } from "./arguments.js";
import { closedError, costMembers, costOf, demandsFrom, isDemands } from "./arguments.js";
import { knownOptions, RESERVE, validToken } from "./arguments.js";
import { Availability } from "./availability.js";
import { decisionFrom, isDecision } from "./decision.js";
import type { Answer, Engine, Operation, TryDemand } from "./engine.js";
import { type EngineOptions, isEngineOptions } from "./engine-options.js";
import { HttpEngine } from "./engines/http.js";
import { NativeEngine, openCore } from "./engines/native.js";
import { UnavailableError } from "./errors.js";
import { Limits } from "./limit-book.js";
import { durationToWire, limitList } from "./limits.js";
import { keyOperation, type KeyOptions, limitName, validCost, validKey } from "./operations.js";
import { configFrom, inProcessWarnings, requireHttpOptions } from "./options.js";
import type { InProcessOptions, TollgateOptions } from "./options.js";
import { settlementFrom, withoutReservation } from "./settlement.js";
import type { ActualCost, CheckOptions, Decision, Demand, Key } from "./types.js";
import type { Peek, ReserveOptions, Settlement } from "./types.js";
import { Unavailable } from "./unavailable.js";
import { Warnings } from "./warnings.js";

/**
 * Asks limits about keys, over HTTP (`new Tollgate({ url })`) or in this process
 * (`await Tollgate.inProcess({ limits })`).
 *
 * A wrong request rejects with `TollgateError`. While the service is unavailable, decisions follow
 * the policies of their limits and are `degraded`; operations without a decision reject with
 * `UnavailableError`.
 */
export class Tollgate {
  readonly #engine: Engine;
  readonly #limits: Limits;
  readonly #availability: Availability;
  #closing: Promise<void> | undefined;

  constructor(options: TollgateOptions | EngineOptions) {
    let unavailable = new Unavailable();
    let warnings: Warnings;
    if (isEngineOptions(options)) {
      warnings = options.warnings ?? new Warnings(undefined);
      this.#limits = Limits.configured(options.configured ?? []);
      this.#engine = options.engine;
    } else {
      requireHttpOptions(options);
      unavailable = new Unavailable(options.onUnavailable);
      this.#limits = Limits.broughtAlong(limitList(options.limits));
      warnings = new Warnings(options.onWarning);
      this.#engine = new HttpEngine(options);
    }
    this.#availability = new Availability(this.#engine, this.#limits, unavailable, warnings);
  }

  /**
   * Opens the Rust core in this process, counting in memory or in Redis. Rejects if Redis cannot be
   * used, unless the options say `lazy`.
   */
  static async inProcess(options: InProcessOptions): Promise<Tollgate> {
    const config = configFrom(options);
    const warnings = new Warnings(options.onWarning);
    for (const warning of inProcessWarnings(options)) warnings.say(warning);

    const core = await openCore(config, options.lazy === true ? "lazy" : "connect");
    const engine = new NativeEngine(core);
    const limiter = await Tollgate.overEngine({ engine, configured: options.limits, warnings });
    limiter.#availability.tellWarnings();
    return limiter;
  }

  /** A client of an engine that was just opened, with the limits of its configuration. */
  static async overEngine(options: EngineOptions): Promise<Tollgate> {
    const limiter = new Tollgate(options);
    await limiter.#availability.directory.load();
    return limiter;
  }

  /**
   * Throws if the configuration has no such limits. Over HTTP it asks the service instead, without
   * waiting, and warns: at once, or as soon as the service answers.
   */
  requireLimits(names: readonly string[]): void {
    const configured = names.filter((name) => !this.#limits.has(name));
    if (configured.length > 0) this.#availability.directory.require(configured);
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
    if (isDemands(first)) return this.#tryDemands(...demandsFrom([first, second as CheckOptions]));
    knownOptions(third);
    if (third?.attributes !== undefined || third?.tokens !== undefined) return undefined;
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
    const answer = await this.#ask("peek", demands, options);
    if (!isDecision(answer)) throw this.#availability.rejection(answer);
    const peek = this.#availability.observed(decisionFrom(answer));
    if (!peek.degraded) return peek;
    const detail = "the store is unavailable, and a peek has no fallback";
    throw new UnavailableError({ code: "store-unavailable", detail });
  }

  /** Gives back what a check with the same arguments has charged. */
  refund(limit: Limit, key: Key, options?: CheckOptions): Promise<void>;
  refund(demands: readonly Demand[], options?: CheckOptions): Promise<void>;
  async refund(...args: KeyArguments<CheckOptions>): Promise<void> {
    const [demands, options] = demandsFrom(args);
    this.#accepted(await this.#ask("refund", demands, options));
  }

  /** Forgets what the key has used. */
  reset(limit: Limit, key: Key, options?: Pick<CheckOptions, "attributes">): Promise<void>;
  reset(demands: readonly Demand[], options?: Pick<CheckOptions, "attributes">): Promise<void>;
  async reset(...args: KeyArguments<Pick<CheckOptions, "attributes">>): Promise<void> {
    const [demands, options] = demandsFrom(args);
    this.#accepted(await this.#ask("reset", demands, options));
  }

  /** Charges an estimate; `reservation` of the decision is for `settle` or `cancel`. */
  reserve(limit: Limit, key: Key, options?: ReserveOptions): Promise<Decision>;
  reserve(demands: readonly Demand[], options?: ReserveOptions): Promise<Decision>;
  async reserve(...args: KeyArguments<ReserveOptions>): Promise<Decision> {
    const [demands, options] = demandsFrom(args, RESERVE);
    const members: Record<string, unknown> = {};
    if (options.ttl !== undefined) members.ttl = durationToWire(options.ttl, "ttl");
    return this.#decide("reserve", demands, options, members);
  }

  /**
   * Charges what the work has really cost, in place of the estimate. A decision without a
   * reservation, such as one of the unavailable policy, has nothing to settle.
   */
  async settle(reservation: string | Decision, actual: ActualCost): Promise<Settlement> {
    const cost = costMembers(actual, "actual");
    const members = "units" in cost ? { actual: cost.units } : cost;
    return this.#settle("settle", reservation, members);
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
    const body = this.#accepted(await this.#send({ op: "release", permit: token }));
    return body.released === true;
  }

  /** Returns leases and closes connections. Calls after it reject. */
  close(): Promise<void> {
    this.#closing ??= this.#engine.close();
    return this.#closing;
  }

  #tryDemands(demands: readonly Demand[], options: KeyOptions): Decision | undefined {
    if (options.attributes !== undefined || options.tokens !== undefined) return undefined;
    const [demand] = demands;
    if (demand !== undefined && demands.length === 1) {
      return this.#tryOne(demand.limit, demand.key, costOf(demand, options.cost));
    }

    if (this.#closing !== undefined) throw closedError();
    const engine = this.#engine;
    const isSelected = demands.some(({ key }) => typeof key === "object");
    if (engine.tryCheckAll === undefined || isSelected || demands.length === 0) return undefined;
    const asked = demands.map((each) => this.#tryDemand(each, options.cost));
    return this.#tried(engine.tryCheckAll(asked));
  }

  #tryDemand(demand: Demand, usualCost: number | undefined): TryDemand {
    const { limit, key } = demand;
    const inline = typeof limit === "string" ? undefined : this.#limits.inline(limit);
    const name = limitName(limit);
    const units = costOf(demand, usualCost);
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
      return this.#tried(engine.tryCheck(limit, key, cost));
    }

    const name = limitName(limit);
    const inline = typeof limit === "string" ? undefined : this.#limits.inline(limit);
    return this.#tried(engine.tryCheck(name, String(validKey(key, name)), cost, inline));
  }

  async #decide(
    op: Operation["op"],
    demands: readonly Demand[],
    options: KeyOptions,
    members: Record<string, unknown> = {},
  ): Promise<Decision> {
    try {
      const sent = this.#ask(op, demands, options, members);
      this.#availability.refreshPolicies(demands);
      const answer = await sent;
      if (!isDecision(answer)) throw this.#availability.rejection(answer);
      return this.#availability.answered(decisionFrom(answer));
    } catch (error) {
      if (!(error instanceof UnavailableError)) throw error;
      return this.#availability.decide(demands, error);
    }
  }

  /** Sends an operation on keys: at once, unless a key is an object. */
  async #ask(
    op: Operation["op"],
    demands: readonly Demand[],
    options: KeyOptions,
    members: Record<string, unknown> = {},
  ): Promise<Answer> {
    const operation = keyOperation(op, demands, options, this.#limits);
    const hasAttributes = demands.some(({ key }) => typeof key === "object");
    if (hasAttributes) await this.#availability.directory.requireKeys(demands);
    return this.#send({ ...operation, ...members });
  }

  #tried(decision: Decision | undefined): Decision | undefined {
    return decision === undefined ? undefined : this.#availability.observed(decision);
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
    const settlement: Settlement =
      token === undefined
        ? withoutReservation(op)
        : settlementFrom(this.#accepted(await this.#send({ op, reservation: token, ...cost })));
    if (settlement.warning !== undefined) this.#availability.warnings.once(settlement.warning);
    return settlement;
  }

  /** The body of an answer without a decision. */
  #accepted(answer: Answer): Record<string, unknown> {
    if (answer.status === 200) return answer.body;
    throw this.#availability.rejection(answer);
  }

  #send(operation: Operation): Promise<Answer> {
    if (this.#closing !== undefined) throw closedError();
    return this.#engine.send(operation).catch((error: unknown) => {
      throw this.#availability.refused(error);
    });
  }
}
