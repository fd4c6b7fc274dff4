/** Distributed rate limiting: in the process, or over HTTP. */
export { TollgateError, UnavailableError } from "./errors.js";
export type { InProcessOptions, TollgateOptions } from "./options.js";
export { Tollgate } from "./tollgate.js";
export type * from "./types.js";
export type { UnavailablePolicies } from "./unavailable.js";
