/** The engine in the process: the Rust core as a native module. */
import { Batcher } from "../batcher.js";
import { PlainDecision } from "../decision.js";
import type { Answer, Engine, Operation } from "../engine.js";
import { TollgateError } from "../errors.js";
import type { LimitFacts } from "../headers.js";
import type { Decision, LimitOutcome, Source } from "../types.js";

/** The class of the native module. */
export interface NativeModule {
  NativeEngine: { open(configText: string, options?: NativeOptions): NativeCore };
}

export interface NativeOptions {
  /** Time passes only by `advance`. */
  manualClock?: boolean;
}

/** One limiter in Rust. */
export interface NativeCore {
  limits(): { name: string; windowSecs: number | null; unit: string | null }[];
  /** Decides without waiting and writes the details to `out`; returns one of the codes below. */
  tryCheck(index: number, key: string, cost: number, out: Float64Array): number;
  /** Body and answer of `POST /v1/batch`. */
  batch(body: string): Promise<string>;
  advance(ms: number): void;
  close(): Promise<void>;
}

/** What `tryCheck` returns. Every other code means that the whole operation must be sent. */
const ALLOWED = 0;
const DENIED = 1;

/** Where `tryCheck` writes what. */
const OUT = { limit: 0, remaining: 1, reset: 2, retry: 3, more: 4, source: 5, wait: 6 } as const;
const OUT_LENGTH = 8;
/** In place of a retry time: the request can never pass. */
const NEVER = -2;
const SOURCES: readonly Source[] = ["store", "lease", "deny_cache", "fallback", "local"];

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

export class NativeEngine implements Engine {
  readonly #core: NativeCore;
  readonly #batcher: Batcher;
  readonly #indexes = new Map<string, number>();
  readonly #facts = new Map<string, LimitFacts>();
  readonly #out = new Float64Array(OUT_LENGTH);

  constructor(core: NativeCore) {
    this.#core = core;
    core.limits().forEach(({ name, windowSecs, unit }, index) => {
      this.#indexes.set(name, index);
      this.#facts.set(name, { windowSecs, unit });
    });
    this.#batcher = new Batcher(async (body) => answersFrom(await core.batch(body)), {
      inFlightMax: IN_FLIGHT_MAX,
    });
  }

  send(operations: Operation[]): Promise<Answer[]> {
    return Promise.all(operations.map((operation) => this.#batcher.ask(operation)));
  }

  tryCheck(limit: string, key: string, cost: number): Decision | undefined {
    const index = this.#indexes.get(limit);
    if (index === undefined) return undefined;
    const out = this.#out;
    const code = this.#core.tryCheck(index, key, cost, out);
    return code === ALLOWED || code === DENIED
      ? decisionFrom(limit, code === ALLOWED, out, this.#factsOf)
      : undefined;
  }

  close(): Promise<void> {
    return this.#core.close();
  }

  readonly #factsOf = (limit: string): LimitFacts | undefined => this.#facts.get(limit);
}

function decisionFrom(
  name: string,
  allowed: boolean,
  out: Float64Array,
  about: (limit: string) => LimitFacts | undefined,
): Decision {
  const retryAfterMs = number(out, OUT.retry);
  const source = SOURCES[number(out, OUT.source)] ?? "local";
  const outcome: LimitOutcome = {
    name,
    limit: number(out, OUT.limit),
    remaining: number(out, OUT.remaining),
    resetAfterMs: number(out, OUT.reset),
    retryAfterMs: retryAfterMs < 0 ? null : retryAfterMs,
  };
  if (retryAfterMs === NEVER) outcome.never = true;

  const moreAfterMs = number(out, OUT.more);
  return new PlainDecision(
    {
      allowed,
      source,
      degraded: source === "fallback",
      waitMs: number(out, OUT.wait),
      limits: [outcome],
    },
    { answeredAtMs: Date.now(), about, moreAfterMs: moreAfterMs < 0 ? undefined : moreAfterMs },
  );
}

function number(out: Float64Array, index: number): number {
  return out[index] ?? 0;
}

function answersFrom(text: string): Answer[] {
  const { answers } = JSON.parse(text) as { answers?: Answer[] };
  if (answers !== undefined) return answers;
  throw new TollgateError({ code: "bad-response", detail: `the core answered ${text}` });
}
