/** Tells the application why limits are not enforced: once per outage and reason. */
import { monotonicMs } from "./runtime.js";
import type { Decision } from "./types.js";

/** Gets texts for people. */
export type OnWarning = (message: string) => void;

/** An outage is over when a decision needs no policy and the last one that did is this long ago. */
const QUIET_MS = 1_000;
/** The most reasons that are told in one outage. */
const REASONS_MAX = 16;

export class Warnings {
  readonly #onWarning: OnWarning;
  readonly #nowMs: () => number;
  /** What was told in the current outage. */
  readonly #told = new Set<string>();
  #lastMs = 0;

  /** Defaults to `console.warn`. */
  constructor(onWarning?: OnWarning, nowMs = monotonicMs) {
    // Looked up when called, so that an application can replace it.
    this.#onWarning = onWarning ?? ((message) => { console.warn(message); });
    this.#nowMs = nowMs;
  }

  /** Tells something once and for all outages. */
  say(message: string): void {
    try {
      this.#onWarning(`tollgate: ${message}`);
    } catch {
      // A logger that fails must not fail the request.
    }
  }

  /** A policy has decided, or nothing could. */
  degraded(reason: string): void {
    this.#lastMs = this.#nowMs();
    if (this.#told.has(reason) || this.#told.size >= REASONS_MAX) return;
    this.#told.add(reason);
    this.say(reason);
  }

  /** The same if the reason has to be asked for, once per outage. */
  degradedBy(source: string, reason: () => Promise<string>): void {
    this.#lastMs = this.#nowMs();
    if (this.#told.has(source)) return;
    this.#told.add(source);
    void reason().then((text) => { this.say(text); });
  }

  /** A decision that needed no policy may end the outage. */
  decided(decision: Decision): void {
    if (this.#told.size === 0 || this.#nowMs() - this.#lastMs <= QUIET_MS) return;
    if (decision.source === "store" || decision.source === "lease") this.#told.clear();
  }
}
