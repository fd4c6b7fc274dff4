/** The options of a client whose engine exists already. */
import type { Engine } from "./engine.js";
import type { LimitOptions } from "./types.js";
import type { Warnings } from "./warnings.js";

export interface EngineOptions {
  engine: Engine;
  /** The limits that the engine is configured with. */
  configured?: readonly LimitOptions[] | undefined;
  /** Defaults to warnings on the console. */
  warnings?: Warnings;
}

export function isEngineOptions(options: unknown): options is EngineOptions {
  return typeof options === "object" && options !== null && "engine" in options;
}
