/** The seam between the API and the two engines: operations and answers of `POST /v1/batch`. */
import type { WireLimit } from "./limits.js";
import type { Decision, DegradedReason } from "./types.js";

/** One request of a batch: `op`, and the members of that operation's body. */
export interface Operation {
  op:
    | "check"
    | "peek"
    | "refund"
    | "release"
    | "reserve"
    | "settle"
    | "cancel"
    | "reset"
    | "limits";
  [member: string]: unknown;
}

/** The answer to one operation, with the status that its own path would have. */
export interface Answer {
  status: number;
  /** The rate limit header fields, if the answer is a decision. */
  headers?: Record<string, string>;
  body: Record<string, unknown>;
}

/** One of several demands that are decided without waiting. */
export interface TryDemand {
  /** The name of the limit. */
  limit: string;
  key: string;
  /** That of the limit if it is absent. */
  cost: number | undefined;
  /** A limit that is not configured. */
  inline: WireLimit | undefined;
}

/** Carries operations to where they are decided. */
export interface Engine {
  /**
   * Rejects with `UnavailableError` if nothing can be said about the operation; whether it was
   * carried out is then unknown.
   */
  send(operation: Operation): Promise<Answer>;
  /**
   * Decides without waiting; `undefined` if the store must be asked. In-process engines only.
   * `cost` is that of the limit if it is absent, and `inline` a limit that is not configured.
   */
  tryCheck?(
    limit: string,
    key: string,
    cost: number | undefined,
    inline?: WireLimit,
  ): Decision | undefined;
  /** The same for several demands, which pass together or not at all. */
  tryCheckAll?(demands: readonly TryDemand[]): Decision | undefined;
  /** What the operator should know about the store now. In-process engines only. */
  warnings?(): readonly string[];
  /** Why the core has decided by failure policies, in words. In-process engines only. */
  whyDegraded?(reason: DegradedReason): Promise<string>;
  /** Why the service does not answer, if that takes longer than a call. HTTP engines only. */
  whyUnavailable?(): Promise<string | undefined>;
  /** Waits for what is under way, returns leases and closes connections. */
  close(): Promise<void>;
}
