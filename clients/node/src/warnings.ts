/** Tells the application why limits are not enforced: once per outage and reason. */
import { badOption } from "./option-names.js";
import { monotonicMs } from "./runtime.js";
import { shown } from "./shown.js";
import type { Decision } from "./types.js";

/** Gets texts for people. */
export type OnWarning = (message: string) => void;

/** An outage is over when a decision needs no policy and the last one that did is this long ago. */
const QUIET_MS = 1_000;
/** The most reasons that are told in one outage. */
const REASONS_MAX = 16;
/** The most texts that are remembered, because they are told once. */
const TEXTS_MAX = 64;

export class Warnings {
  readonly #onWarning: OnWarning;
  readonly #nowMs: () => number;
  /** What was told in the current outage. */
  readonly #told = new Set<string>();
  /** What was told once and for all. */
  readonly #texts = new Set<string>();
  #lastMs = 0;

  /** Defaults to `console.warn`. */
  constructor(onWarning: OnWarning | undefined, nowMs = monotonicMs) {
    if (onWarning !== undefined && typeof onWarning !== "function") {
      const right = "a function that takes a text, such as (text) => logger.warn(text)";
      throw badOption(`onWarning must be ${right}, but it is ${shown(onWarning)}`);
    }
    // Looked up when called, so that an application can replace it.
    this.#onWarning = onWarning ?? ((message) => { console.warn(message); });
    this.#nowMs = nowMs;
  }

  /** Tells something. A logger that fails must not fail the request, nor lose the text. */
  say(message: string): void {
    const text = `tollgate: ${message}`;
    const failed = (error: unknown): void => {
      console.warn(text);
      console.warn("tollgate: onWarning has failed:", error);
    };
    try {
      // It may be an asynchronous function.
      const onWarning: (message: string) => unknown = this.#onWarning;
      const told = onWarning(text);
      if (told instanceof Promise) told.catch(failed);
    } catch (error) {
      failed(error);
    }
  }

  /** Tells something, unless it was told before. */
  once(message: string): void {
    if (this.#texts.has(message) || this.#texts.size >= TEXTS_MAX) return;
    this.#texts.add(message);
    this.say(message);
  }

  /** A policy has decided, or nothing could. */
  degraded(reason: string): void {
    this.#lastMs = this.#nowMs();
    if (this.#isNew(reason)) this.say(reason);
  }

  /** The same if the reason has to be asked for, once per outage. */
  degradedBy(source: string, reason: () => Promise<string | undefined>): void {
    this.#lastMs = this.#nowMs();
    if (!this.#isNew(source)) return;
    const tell = (text: string | undefined): void => {
      if (text !== undefined && this.#isNew(text)) this.say(text);
    };
    // It is asked for beside the requests, and a client may be closed meanwhile.
    reason().then(tell, () => undefined);
  }

  /** A decision that needed no policy may end the outage. */
  decided(decision: Decision): void {
    if (this.#told.size === 0 || this.#nowMs() - this.#lastMs <= QUIET_MS) return;
    if (decision.source === "store" || decision.source === "lease") this.#told.clear();
  }

  #isNew(reason: string): boolean {
    if (this.#told.has(reason) || this.#told.size >= REASONS_MAX) return false;
    this.#told.add(reason);
    return true;
  }
}
