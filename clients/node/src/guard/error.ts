/**
 * The guard cannot decide, because the application is misconfigured: a misspelt limit, a missing
 * key, an unknown client address. It goes to the error handler of the framework. The request does
 * not pass, and the status is 500 whatever the service answered: the client did nothing wrong.
 */
export class GuardError extends Error {
  override readonly name = "GuardError";
  readonly status = 500;
  readonly statusCode = 500;
  /** Frameworks do not show the message to clients. */
  readonly expose = false;

  /** What the application's own functions throw stays as it is. */
  static from(cause: unknown): unknown {
    const names = ["TollgateError", "UnavailableError", "ClientAddressError"];
    if (!(cause instanceof Error) || !names.includes(cause.name)) return cause;
    return new GuardError(`rate limit check failed: ${cause.message}`, { cause });
  }
}

/** By name: a program that uses both module formats has two classes of this name. */
export function isUnavailable(error: unknown): boolean {
  return error instanceof Error && error.name === "UnavailableError";
}
