/** The engine in the process: the Rust core as a native module. */
import { Batcher } from "../batcher.js";
import { errorFrom, PlainDecision } from "../decision.js";
import type { Answer, Engine, Operation } from "../engine.js";
import { TollgateError } from "../errors.js";
import type { LimitFacts } from "../headers.js";
import type { WireLimit } from "../limits.js";
import type { Config } from "../options.js";
import type { Decision, LimitOutcome, Source } from "../types.js";

/** The native module. */
export interface NativeModule {
  NativeEngine: {
    /** Opens the text of a configuration file; `file` is its name in errors. */
    open(text: string, file: string, manualClock?: boolean): NativeCore;
  };
}

/** One limiter in Rust. */
export interface NativeCore {
  /** The number of a limit, given by its name or as JSON text. */
  limit(limit: string): number;
  /** Decides without waiting, writes the details to `numbers` and returns a code, see below. */
  tryCheck(limit: number, key: string, cost: number, numbers: Float64Array): number;
  /** Body and answer of `POST /v1/batch`. */
  batch(body: string): Promise<string>;
  /** Moves a manual clock. */
  advance(ms: number): void;
  close(): Promise<void>;
}

/** What `tryCheck` returns. Every other code means that the whole operation must be sent. */
const ALLOWED = 0;
const DENIED = 1;

/** Where `tryCheck` writes what. Times are in milliseconds, or negative if there is none. */
const NUMBERS = {
  limit: 0,
  remaining: 1,
  reset: 2,
  retry: 3,
  more: 4,
  source: 5,
  wait: 6,
  window: 7,
  shadow: 8,
  policy: 9,
  unit: 10,
} as const;
/** In place of a retry time: the request can never pass. */
const NEVER = -2;
/** A negative cost is that of the limit. */
const OWN_COST = -1;
const POLICIES = ["allow", "deny", "local"];
const UNITS = ["requests", "tokens", "input_tokens", "output_tokens", "bytes"];
const SOURCES: readonly Source[] = ["store", "lease", "deny_cache", "fallback", "local", "block", "exempt"];

/** The platforms that the native module is built and tested for. */
const PLATFORMS = ["linux-x64-gnu"];

/** The core bounds how long each operation takes; this only bounds how many batches it gets. */
const IN_FLIGHT_MAX = 64;

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

/** Opens a configuration. An invalid one is an error that says where. */
export async function openCore(config: Config, manualClock = false): Promise<NativeCore> {
  const { NativeEngine: native } = await loadNative();
  try {
    return native.open(config.text, config.file, manualClock);
  } catch (cause) {
    const detail = cause instanceof Error ? cause.message : String(cause);
    throw new TollgateError({ code: "bad-config", detail, cause });
  }
}

export class NativeEngine implements Engine {
  readonly #core: NativeCore;
  readonly #nowMs: () => number;
  readonly #batcher: Batcher;
  readonly #ids = new Map<string, number>();
  readonly #numbers = new Float64Array(Object.keys(NUMBERS).length);

  constructor(core: NativeCore, nowMs: () => number = Date.now) {
    this.#core = core;
    this.#nowMs = nowMs;
    this.#batcher = new Batcher(async (body) => answersFrom(await core.batch(body)), {
      inFlightMax: IN_FLIGHT_MAX,
    });
  }

  send(operations: Operation[]): Promise<Answer[]> {
    return Promise.all(operations.map((operation) => this.#batcher.ask(operation)));
  }

  tryCheck(
    limit: string,
    key: string,
    cost: number | undefined,
    inline?: WireLimit,
  ): Decision | undefined {
    const id = this.#id(inline === undefined ? limit : JSON.stringify(inline));
    if (id === undefined) return undefined;

    const numbers = this.#numbers;
    const code = this.#core.tryCheck(id, key, cost ?? OWN_COST, numbers);
    if (code !== ALLOWED && code !== DENIED) return undefined;
    return decisionFrom(limit, code === ALLOWED, numbers, this.#nowMs());
  }

  async close(): Promise<void> {
    // The core drops what is under way when it closes.
    await this.#batcher.drained();
    await this.#core.close();
  }

  #id(limit: string): number | undefined {
    const known = this.#ids.get(limit);
    if (known !== undefined) return known;
    try {
      const id = this.#core.limit(limit);
      this.#ids.set(limit, id);
      return id;
    } catch {
      // More limits than the core remembers: they are sent with each operation.
      return undefined;
    }
  }
}

function decisionFrom(
  name: string,
  allowed: boolean,
  numbers: Float64Array,
  answeredAtMs: number,
): Decision {
  const retryAfterMs = at(numbers, NUMBERS.retry);
  const outcome: LimitOutcome = {
    name,
    limit: at(numbers, NUMBERS.limit),
    remaining: at(numbers, NUMBERS.remaining),
    resetAfterMs: at(numbers, NUMBERS.reset),
    retryAfterMs: retryAfterMs < 0 ? null : retryAfterMs,
  };
  if (retryAfterMs === NEVER) outcome.never = true;
  if (at(numbers, NUMBERS.shadow) === 1) outcome.shadow = true;
  const policy = POLICIES[at(numbers, NUMBERS.policy)];
  if (policy !== undefined) outcome.fallback = policy;

  const windowMs = at(numbers, NUMBERS.window);
  const facts: LimitFacts = {
    windowSecs: windowMs < 0 ? null : windowMs / 1000,
    unit: UNITS[at(numbers, NUMBERS.unit)] ?? null,
  };

  const moreAfterMs = at(numbers, NUMBERS.more);
  return new PlainDecision(
    {
      allowed,
      source: SOURCES[at(numbers, NUMBERS.source)] ?? "local",
      degraded: policy !== undefined,
      waitMs: at(numbers, NUMBERS.wait),
      limits: [outcome],
    },
    { answeredAtMs, about: () => facts, moreAfterMs: moreAfterMs < 0 ? undefined : moreAfterMs },
  );
}

function at(numbers: Float64Array, index: number): number {
  return numbers[index] ?? 0;
}

/** The answers of the core, or the problem document that it answers to the whole batch. */
function answersFrom(text: string): Answer[] {
  const body = JSON.parse(text) as { answers?: Answer[]; status?: number };
  if (body.answers !== undefined) return body.answers;
  throw errorFrom(body.status ?? 500, body);
}
