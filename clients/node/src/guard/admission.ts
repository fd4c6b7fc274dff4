/** A request that passed, and what is owed when its response has ended. */
import { costMembers } from "../arguments.js";
import type { ActualCost, AttributeValue, Decision } from "../types.js";
import type { GuardDemand } from "./demands.js";
import { isUnavailable } from "./error.js";
import type { AdmittedRequest, Estimate, FinishedResponse, GuardOptions } from "./types.js";

/** Delays before a settlement or a release is repeated: together about half a minute. */
const RETRY_DELAYS_MS = [100, 400, 1_600, 6_400, 25_600];

/** What was asked for a request that passed. */
export interface Charge<S> {
  decision: Decision;
  demands: readonly GuardDemand<S>[];
  attributes?: { readonly [attribute: string]: AttributeValue } | undefined;
  estimate?: Estimate | undefined;
}

/** The request may pass. Adapters hand it to the application, as `AdmittedRequest`. */
export class Admission<R, S> implements AdmittedRequest {
  readonly allowed = true;
  /** The header fields of the response. */
  readonly headers: Record<string, string>;
  readonly #charge: Charge<S> | undefined;
  readonly #options: GuardOptions<R, S>;
  readonly #request: R;
  #reported: ActualCost | undefined;
  #isFinished = false;

  constructor(
    options: GuardOptions<R, S>,
    request: R,
    headers: Record<string, string> = {},
    charge?: Charge<S>,
  ) {
    this.#options = options;
    this.#request = request;
    this.headers = headers;
    this.#charge = charge;
  }

  get decision(): Decision | undefined {
    return this.#charge?.decision;
  }

  /** Whether something happens at the end of the response. */
  get isOpen(): boolean {
    if (this.#charge === undefined || this.#isFinished) return false;
    const { decision, demands } = this.#charge;
    const isRefundable = !decision.degraded && demands.some(({ refund }) => refund !== undefined);
    return decision.permit !== undefined || decision.reservation !== undefined || isRefundable;
  }

  report(cost: ActualCost): void {
    costMembers(cost, "the reported cost");
    this.#reported = cost;
  }

  /**
   * Ends the admission once: settles or cancels the reservation, releases the permit, and refunds
   * free responses. Never rejects; what fails goes to `onError`.
   */
  async finish(finished: FinishedResponse<S>): Promise<void> {
    if (!this.isOpen || this.#charge === undefined) return;
    this.#isFinished = true;

    const { decision } = this.#charge;
    const steps: Promise<unknown>[] = [];
    if (decision.reservation !== undefined) {
      steps.push(this.#settle(decision.reservation, this.#charge, finished));
    } else {
      if (decision.permit !== undefined) steps.push(this.#release(decision.permit));
      steps.push(this.#refund(this.#charge, finished));
    }
    await Promise.all(steps.map((step) => step.catch((error: unknown) => { this.#fail(error); })));
  }

  /** What a request costs: see the table in docs/node-express.md. */
  async #settle(
    reservation: string,
    charge: Charge<S>,
    finished: FinishedResponse<S>,
  ): Promise<void> {
    const { client, settle, refund } = this.#options;
    const cost = this.#reported ?? this.#valid(await settle?.(finished, this.#request));
    const isFailed = finished.error !== undefined || finished.status >= 400;
    const isFree = refund?.(finished) === true;

    if (isFree || (cost === undefined && isFailed && !finished.aborted)) {
      await this.#persist(() => client.cancel(reservation));
    } else {
      const actual = cost ?? charge.estimate ?? 1;
      await this.#persist(() => client.settle(reservation, actual));
    }
  }

  /** The cost, if it is one. A wrong one is reported, and the estimate stays charged. */
  #valid(cost: ActualCost | undefined): ActualCost | undefined {
    if (cost === undefined) return undefined;
    try {
      costMembers(cost, "the settled cost");
      return cost;
    } catch (error) {
      this.#fail(error);
      return undefined;
    }
  }

  async #release(permit: string): Promise<void> {
    await this.#persist(() => this.#options.client.release(permit));
  }

  async #refund(charge: Charge<S>, finished: FinishedResponse<S>): Promise<void> {
    // What a failure policy admitted was not charged.
    if (charge.decision.degraded) return;
    const free = charge.demands.filter(({ refund }) => refund?.(finished) === true);
    if (free.length === 0) return;
    const demands = free.map(({ demand }) => demand);
    const { attributes } = charge;
    await this.#options.client.refund(demands, attributes === undefined ? {} : { attributes });
  }

  /**
   * Repeats a call that has the same effect once and many times. The first attempt is awaited; the
   * others happen in the background, so that no response waits for a service that is unavailable.
   */
  async #persist(call: () => Promise<unknown>, attempt = 0): Promise<void> {
    try {
      await call();
    } catch (error) {
      const delayMs = RETRY_DELAYS_MS[attempt];
      if (!isUnavailable(error) || delayMs === undefined) throw error;
      later(delayMs, () => {
        this.#persist(call, attempt + 1).catch((failure: unknown) => { this.#fail(failure); });
      });
    }
  }

  #fail(error: unknown): void {
    const { onError } = this.#options;
    if (onError !== undefined) onError(error, this.#request);
    else console.warn("tollgate: the end of a response could not be accounted for:", error);
  }
}

/** Timers of a server must not keep the process from ending. */
function later(delayMs: number, run: () => void): void {
  const timer: unknown = setTimeout(run, delayMs);
  if (typeof timer === "object" && timer !== null && "unref" in timer) {
    (timer as { unref(): void }).unref();
  }
}
