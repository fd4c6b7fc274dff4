/** The engine in the process: the Rust core as a native module. */
import { Batcher } from "../batcher.js";
import { errorFrom } from "../decision.js";
import type { Answer, Engine, Operation, TryDemand } from "../engine.js";
import { TollgateError } from "../errors.js";
import type { WireLimit } from "../limits.js";
import { isDecided, KnownLimit, NativeDecision } from "../native-decision.js";
import type { Config } from "../options.js";
import type { Decision, DegradedReason } from "../types.js";

/** The native module. */
export interface NativeModule {
  NativeEngine: {
    /** Opens the text of a configuration file; `file` is its name in errors. */
    open(text: string, file: string, mode: OpenMode): Promise<NativeCore>;
  };
}

/** Whether to wait for the store, or to count in memory by a clock that a test moves. */
export type OpenMode = "connect" | "lazy" | "manual-clock";

/** One limiter in Rust. */
export interface NativeCore {
  /** The number of a limit, given by its name or as JSON text. */
  limit(limit: string): number;
  /** A function that decides without waiting. */
  checker(): NativeChecker;
  /** Body and answer of `POST /v1/batch`. */
  batch(body: string): Promise<string>;
  /** What the operator should know about the configuration and its store. */
  warnings(): string[];
  /** Why the store does not answer, or `null` if it does. */
  storeError(): Promise<string | null>;
  /** Moves a manual clock. */
  advance(ms: number): void;
  close(): Promise<void>;
}

/**
 * Decides without waiting about one demand or several, each a limit, a key and a cost. Writes the
 * details to `numbers` and returns a code, see native-decision.ts.
 */
export interface NativeChecker {
  (limit: number, key: string, cost: number, ...more: (number | string)[]): number;
  readonly numbers: Float64Array;
}

/** A negative cost is that of the limit. */
const OWN_COST = -1;

/** The platforms that the native module is built and tested for. */
const PLATFORMS = ["linux-x64-gnu"];

/** The most batches that the core gets at a time. */
const IN_FLIGHT_MAX = 64;
/**
 * The most operations. The core bounds how long each of them takes from then on: a burst of this
 * process waits for its turn here instead of being decided by policies for its own length.
 */
const OPERATIONS_MAX = 128;

/** Reasons that the store cannot tell. */
const REASONS: Readonly<Partial<Record<DegradedReason, string>>> = {
  store_timeout: "the store did not reply within `storeTimeout`",
  overload: "this process is overloaded: a decision took longer than `decisionTimeout`",
};

/** Finds the native module, or says why there is none. */
type Load = () => { platform: string; module?: unknown; error?: unknown };

/** Loads the native module of this platform. */
export async function loadNative(load?: Load): Promise<NativeModule> {
  load ??= (await import("#native")).load;
  const { platform, module, error } = load();
  if (module !== undefined) return module as NativeModule;

  const reason = error instanceof Error ? `: ${error.message.split("\n")[0] ?? ""}` : "";
  const detail =
    `no native module for ${platform}${reason}. It is built for ${PLATFORMS.join(", ")}, as the ` +
    "optional packages @tollgate/<platform>, which npm leaves out with --omit=optional; in a " +
    "source checkout, `npm run build:native` builds it. On every other platform, " +
    "new Tollgate({ url }) asks a service over HTTP instead";
  throw new TollgateError({ code: "native-unavailable", detail, cause: error });
}

/** Opens a configuration. An invalid one, or a store that cannot be used, is an error. */
export async function openCore(config: Config, mode: OpenMode): Promise<NativeCore> {
  const { NativeEngine: native } = await loadNative();
  try {
    return await native.open(config.text, config.file, mode);
  } catch (cause) {
    const detail = cause instanceof Error ? cause.message : String(cause);
    const code = detail.includes("cannot use the store") ? "store-unavailable" : "bad-config";
    throw new TollgateError({ code, detail, cause });
  }
}

export class NativeEngine implements Engine {
  readonly #core: NativeCore;
  readonly #checker: NativeChecker;
  readonly #nowMs: () => number;
  readonly #batcher: Batcher;
  readonly #bounds = { inFlightMax: IN_FLIGHT_MAX, operationsMax: OPERATIONS_MAX };
  readonly #limits = new Map<string, KnownLimit>();
  #isClosed = false;

  constructor(core: NativeCore, nowMs: () => number = Date.now) {
    this.#core = core;
    this.#checker = core.checker();
    this.#nowMs = nowMs;
    this.#batcher = new Batcher((body) => this.#carry(body), this.#bounds);
  }

  send(operation: Operation): Promise<Answer> {
    return this.#batcher.ask(operation);
  }

  tryCheck(
    limit: string,
    key: string,
    cost: number | undefined,
    inline?: WireLimit,
  ): Decision | undefined {
    const known = this.#known(limit, inline);
    if (known === undefined) return undefined;
    return this.#decision(known.alone, this.#checker(known.id, key, cost ?? OWN_COST));
  }

  tryCheckAll(demands: readonly TryDemand[]): Decision | undefined {
    const limits: KnownLimit[] = [];
    const demanded: (number | string)[] = [];
    for (const { limit, key, cost, inline } of demands) {
      const known = this.#known(limit, inline);
      if (known === undefined) return undefined;
      limits.push(known);
      demanded.push(known.id, key, cost ?? OWN_COST);
    }
    const checker = this.#checker as (...demanded: (number | string)[]) => number;
    return this.#decision(limits, checker(...demanded));
  }

  warnings(): readonly string[] {
    return this.#isClosed ? [] : this.#core.warnings();
  }

  async whyDegraded(reason: DegradedReason): Promise<string> {
    const found = REASONS[reason] ?? (await this.#core.storeError());
    const why = found ?? "the store was unavailable for a moment";
    return `${why}. Limits follow their failure policies`;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    // The core drops what is under way when it closes.
    await this.#batcher.drained();
    await this.#core.close();
  }

  async #carry(body: string): Promise<Answer[]> {
    const answers = answersFrom(await this.#core.batch(body));
    // In an outage, nothing waits long for others; a store that was late once is none.
    const { operationsMax } = this.#bounds;
    const isOutage = answers.every(isWithoutStore);
    this.#bounds.operationsMax = isOutage ? operationsMax + OPERATIONS_MAX : OPERATIONS_MAX;
    return answers;
  }

  #known(limit: string, inline: WireLimit | undefined): KnownLimit | undefined {
    const text = inline === undefined ? limit : JSON.stringify(inline);
    return this.#limits.get(text) ?? this.#lookUp(limit, text);
  }

  /** The decision that the checker has just written, if it could decide. */
  #decision(limits: readonly KnownLimit[], code: number): Decision | undefined {
    return isDecided(code)
      ? new NativeDecision(limits, code, this.#checker.numbers, this.#nowMs())
      : undefined;
  }

  #lookUp(name: string, text: string): KnownLimit | undefined {
    try {
      const known = new KnownLimit(name, this.#core.limit(text));
      this.#limits.set(text, known);
      return known;
    } catch {
      // More limits than the core remembers: they are sent with each operation.
      return undefined;
    }
  }
}

/** Whether the store did not answer. That this process is overloaded is another reason. */
function isWithoutStore({ status, body }: Answer): boolean {
  return body.degraded_reason !== "overload" && (body.degraded === true || status === 503);
}

/** The answers of the core, or the problem document that it answers to the whole batch. */
function answersFrom(text: string): Answer[] {
  const body = JSON.parse(text) as { answers?: Answer[]; status?: number };
  if (body.answers !== undefined) return body.answers;
  throw errorFrom(body.status ?? 500, body);
}
