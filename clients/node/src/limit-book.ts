/** The limits that a client knows by name. */
import { limitToWire, type WireLimit } from "./limits.js";
import type { LimitBook } from "./operations.js";
import type { LimitOptions, UnavailablePolicy } from "./types.js";

export class Limits implements LimitBook {
  readonly #limits: ReadonlyMap<string, WireLimit>;
  readonly #isConfigured: boolean;

  private constructor(limits: readonly LimitOptions[], isConfigured: boolean) {
    this.#limits = new Map(limits.map((limit) => [limit.name, limitToWire(limit)]));
    this.#isConfigured = isConfigured;
  }

  /** Limits that are sent along with every request that names them. */
  static broughtAlong(limits: readonly LimitOptions[]): Limits {
    return new Limits(limits, false);
  }

  /** Limits that the engine was opened with. */
  static configured(limits: readonly LimitOptions[]): Limits {
    return new Limits(limits, true);
  }

  broughtAlong(name: string): WireLimit | undefined {
    return this.#isConfigured ? undefined : this.#limits.get(name);
  }

  /** The limit as it has to be sent; `undefined` if the engine is configured with exactly this. */
  inline(limit: LimitOptions): WireLimit | undefined {
    const wire = limitToWire(limit);
    if (!this.#isConfigured) return wire;
    const known = this.#limits.get(wire.name);
    return known !== undefined && sameMembers(known, wire) ? undefined : wire;
  }

  /** Whether the code of this program has a limit of this name. */
  has(name: string): boolean {
    return this.#limits.has(name);
  }

  /**
   * What a limit in the code says about outages. `local` needs counters, which a client without its
   * service does not have.
   */
  policyOf(limit: string | LimitOptions): UnavailablePolicy | undefined {
    const policy: unknown =
      typeof limit === "string"
        ? this.#limits.get(limit)?.on_store_failure
        : limit.onStoreFailure;
    return policy === "allow" || policy === "deny" ? policy : undefined;
  }

  /** The size of the limit, if it is known here. */
  sizeOf(name: string): number | undefined {
    const limit = this.#limits.get(name);
    const size = limit?.limit ?? limit?.capacity;
    return typeof size === "number" ? size : undefined;
  }
}

/** Whether two limits are the same: their members are values, and objects of values. */
function sameMembers(left: object, right: object): boolean {
  const [ours, theirs] = [entriesOf(left), entriesOf(right)];
  const isSame = ([name, value]: [string, unknown]): boolean => same(value, theirs.get(name));
  return ours.size === theirs.size && [...ours].every(isSame);
}

function same(left: unknown, right: unknown): boolean {
  if (typeof left !== "object" || typeof right !== "object") return left === right;
  if (left === null || right === null) return left === right;
  return sameMembers(left, right);
}

function entriesOf(value: object): Map<string, unknown> {
  return new Map(Object.entries(value) as [string, unknown][]);
}
