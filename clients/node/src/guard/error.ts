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

  static from(cause: unknown): GuardError {
    if (cause instanceof GuardError) return cause;
    const message = cause instanceof Error ? cause.message : String(cause);
    return new GuardError(`rate limit check failed: ${message}`, { cause });
  }
}
