/** What the engine says about the limits of its configuration: names, keys and failure policies. */
import { errorFrom } from "./decision.js";
import type { Answer, Engine } from "./engine.js";
import { TollgateError, UnavailableError } from "./errors.js";
import { nearestName } from "./option-names.js";
import { monotonicMs } from "./runtime.js";
import { shown } from "./shown.js";
import type { Demand, UnavailablePolicy } from "./types.js";
import type { Warnings } from "./warnings.js";

/** How long an answer is used. */
const FRESH_MS = 60_000;
/** When to ask again if there was no answer. */
const RETRY_MS = 1_000;

/** A limit in the answer to the operation `limits`. */
interface ListedLimit {
  name: string;
  /** The attributes of its key. */
  key: readonly string[];
  on_store_failure: unknown;
}

export class LimitDirectory {
  readonly #engine: Engine;
  readonly #warnings: Warnings;
  #limits: ReadonlyMap<string, ListedLimit> | undefined;
  /** Why the engine does not list its limits. */
  #refusal: string | undefined;
  /** Names whose existence is still to be checked. */
  readonly #expected = new Set<string>();
  #askAtMs = -Infinity;
  /** When to ask again because of a limit that is not known. */
  #reloadAtMs = -Infinity;
  #reloading: Promise<void> | undefined;

  constructor(engine: Engine, warnings: Warnings) {
    this.#engine = engine;
    this.#warnings = warnings;
  }

  /**
   * The policy that a limit is configured with, if it denies. One that allows cannot be told from
   * one that says nothing: then the policy of the client decides.
   */
  policyOf(name: string): UnavailablePolicy | undefined {
    return this.#limits?.get(name)?.on_store_failure === "deny" ? "deny" : undefined;
  }

  /** Throws if one of the limits does not exist, or warns as soon as the engine answers. */
  require(names: readonly string[]): void {
    for (const name of names) this.#expected.add(name);
    if (this.#limits === undefined) this.refresh();
    else this.#check((detail) => { throw new TollgateError({ code: "unknown-limit", detail }); });
  }

  /**
   * Rejects a key that is an object with other attributes than those of the limit's key: one that a
   * client of the application sent could choose its tier or its cost.
   */
  async requireKeys(demands: readonly Demand[]): Promise<void> {
    for (const { limit, key } of demands) {
      if (typeof limit !== "string" || typeof key !== "object") continue;
      const known = (await this.#attributesOf(limit)).map(attributeName);
      const other = Object.keys(key).find((name) => !known.includes(attributeName(name)));
      if (other === undefined) continue;
      const right = `the attributes ${known.join(", ")}; others belong into \`attributes\``;
      const detail = `the key of "${limit}" must have ${right}, but it has ${shown(other)}`;
      throw new TollgateError({ code: "bad-key", detail });
    }
  }

  /** The attributes of a limit's key. Without knowledge of them, no key that has some is safe. */
  async #attributesOf(limit: string): Promise<readonly string[]> {
    if (!this.#limits?.has(limit) && monotonicMs() >= this.#reloadAtMs) {
      this.#reloadAtMs = monotonicMs() + RETRY_MS;
      this.#reloading = this.#ask();
    }
    // An outage is one of the check, too: then its policy decides.
    if (!this.#limits?.has(limit)) await this.#reloading;
    const known = this.#limits?.get(limit);
    if (known !== undefined) return known.key;

    if (this.#limits !== undefined) {
      const detail = unknownLimit(limit, [...this.#limits.keys()]);
      throw new TollgateError({ code: "unknown-limit", detail });
    }
    const detail =
      `the attributes of the key of "${limit}" are unknown, so it cannot be an object: ` +
      (this.#refusal ?? "the limits were not listed");
    throw new TollgateError({ code: "bad-key", detail });
  }

  /** Asks with the next batch, unless the last answer is fresh. */
  refresh(): void {
    if (monotonicMs() < this.#askAtMs) return;
    void this.load();
  }

  /** Asks now. An engine that does not answer changes nothing. */
  async load(): Promise<void> {
    try {
      await this.#ask();
    } catch {
      // The operation that is sent along tells the reason.
      this.#askAtMs = monotonicMs() + RETRY_MS;
    }
  }

  async #ask(): Promise<void> {
    this.#askAtMs = monotonicMs() + FRESH_MS;
    const answer = await this.#engine.send({ op: "limits" });
    if (answer.status === 200) this.#learn(answer.body);
    else this.#refused(errorFrom(answer.status, answer.body));
  }

  #refused(error: TollgateError): void {
    if (error instanceof UnavailableError) throw error;
    this.#refusal = error.detail;
  }

  #learn({ limits }: Answer["body"]): void {
    if (!Array.isArray(limits) || !limits.every(isListed)) return;
    this.#limits = new Map(limits.map((limit) => [limit.name, limit]));
    this.#check((detail) => { this.#warnings.say(`${detail}: requests that ask it fail`); });
  }

  #check(report: (detail: string) => void): void {
    const known = [...(this.#limits?.keys() ?? [])];
    const missing = [...this.#expected].filter((name) => !known.includes(name));
    this.#expected.clear();
    for (const name of missing) report(unknownLimit(name, known));
  }
}

function isListed(value: unknown): value is ListedLimit {
  const limit = value as Partial<ListedLimit> | null;
  return typeof limit?.name === "string" && Array.isArray(limit.key);
}

/** Names of headers ignore case. */
function attributeName(name: string): string {
  return name.startsWith("header:") ? name.toLowerCase() : name;
}

/** Names that are listed in a message. */
const LISTED_MAX = 20;

function unknownLimit(name: string, known: readonly string[]): string {
  const meant = nearestName(name, known);
  const own = known.filter((each) => !each.startsWith("tollgate:"));
  const listed = own.length === 0 ? "there are none" : own.slice(0, LISTED_MAX).join(", ");
  const advice = meant === undefined ? `configured limits: ${listed}` : `did you mean ${meant}?`;
  return `unknown limit ${JSON.stringify(name)}; ${advice}`;
}
