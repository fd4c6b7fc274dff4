/** What calls reject with: wrong requests, and outages where no policy applies. */

export interface ErrorInfo {
  /** For programs, such as `unknown-limit`; the codes of docs/http.md. */
  code: string;
  /** For people: what was found, and what would be right. */
  detail: string;
  /** The HTTP status of the answer; absent if nothing was sent. */
  status?: number | undefined;
  cause?: unknown;
}

/** The request is wrong, or not permitted. Asking again would not help. */
export class TollgateError extends Error {
  override name = "TollgateError";
  readonly code: string;
  readonly detail: string;
  readonly status: number | undefined;

  constructor(info: ErrorInfo) {
    super(`${info.detail} (${info.code})`, info.cause === undefined ? {} : { cause: info.cause });
    this.code = info.code;
    this.detail = info.detail;
    this.status = info.status;
  }
}

/**
 * The service, or its store, is unavailable. Whether the operation was carried out is unknown.
 * Checks, counts and reservations follow `onUnavailable` instead of rejecting with this.
 */
export class UnavailableError extends TollgateError {
  override name = "UnavailableError";
}
