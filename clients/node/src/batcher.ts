/** Collects operations: what is asked in the same moment leaves together. */
import { Deadlines, type Expiring } from "./deadlines.js";
import type { Answer, Operation } from "./engine.js";
import { UnavailableError } from "./errors.js";
import { byteLength, monotonicMs, soon } from "./runtime.js";

/** A batch under way. */
export interface Trip {
  /** Set by the carrier: gives the batch up, because no caller waits for it any more. */
  abort?: () => void;
  /** Whether it was given up: nothing may be sent for it any more. */
  isAborted?: boolean;
}

/** Carries the body of a `POST /v1/batch` and returns the answers. */
export type Carry = (body: string, trip: Trip) => Promise<Answer[]>;

export interface BatcherOptions {
  /** How long an operation may take from the moment it is asked; unbounded if absent. */
  timeoutMs?: number;
  /** The most batches under way at a time. */
  inFlightMax: number;
  /** The most operations under way at a time; unbounded if absent. The owner may change it. */
  operationsMax?: number;
  /** The most operations that wait for a batch of their own. */
  waitingMax?: number;
}

/** The most operations of one batch: the bound of the service. */
const OPERATIONS_MAX = 256;
/** The most bytes of operations in one batch: below `server.body_max`, 64 KiB by default. */
const BYTES_MAX = 60_000;
const WAITING_MAX = 10_000;

/** An operation whose answer is outstanding. */
interface Pending extends Expiring {
  text: string;
  bytes: number;
  /** The batch that carries it, once it has left. */
  batch: Batch | undefined;
  resolve(answer: Answer): void;
  reject(error: unknown): void;
}

/** Operations under way together. */
interface Batch extends Trip {
  operations: Pending[];
  /** How many of them have not expired. */
  open: number;
}

export class Batcher {
  readonly #carry: Carry;
  readonly #timeoutMs: number | undefined;
  readonly #inFlightMax: number;
  readonly #options: BatcherOptions;
  readonly #waitingMax: number;
  readonly #deadlines = new Deadlines();
  #waiting: Pending[] = [];
  #inFlight = 0;
  /** The operations of the batches under way. */
  #underWay = 0;
  #isScheduled = false;
  #onDrained: (() => void)[] = [];

  constructor(carry: Carry, options: BatcherOptions) {
    this.#carry = carry;
    this.#timeoutMs = options.timeoutMs;
    this.#inFlightMax = options.inFlightMax;
    this.#options = options;
    this.#waitingMax = options.waitingMax ?? WAITING_MAX;
  }

  /** Resolves to the answer; rejects with `UnavailableError` at the deadline. */
  ask(operation: Operation): Promise<Answer> {
    if (this.#waiting.length >= this.#waitingMax) {
      const detail = `${this.#waitingMax} operations are waiting already`;
      return Promise.reject(new UnavailableError({ code: "overloaded", detail }));
    }

    return new Promise((resolve, reject) => {
      const text = wellFormed(JSON.stringify(operation));
      const pending: Pending = {
        text,
        bytes: byteLength(text),
        batch: undefined,
        deadlineMs: monotonicMs() + (this.#timeoutMs ?? 0),
        isSettled: false,
        resolve,
        reject,
        expire: () => {
          this.#expire(pending);
        },
      };
      this.#waiting.push(pending);
      if (this.#timeoutMs !== undefined) this.#deadlines.add(pending);
      this.#schedule();
    });
  }

  /** Resolves when no operation waits or is under way. */
  drained(): Promise<void> {
    return new Promise((resolve) => {
      this.#onDrained.push(resolve);
      this.#notifyIfDrained();
    });
  }

  #notifyIfDrained(): void {
    if (this.#inFlight > 0 || this.#waiting.length > 0) return;
    for (const resolve of this.#onDrained.splice(0)) resolve();
  }

  #schedule(): void {
    if (this.#isScheduled || this.#inFlight >= this.#inFlightMax) return;
    this.#isScheduled = true;
    soon(() => {
      this.#isScheduled = false;
      this.#send();
    });
  }

  /** Sends what is waiting, as far as batches may be under way. */
  #send(): void {
    while (this.#waiting.length > 0 && this.#inFlight < this.#inFlightMax) {
      const room = (this.#options.operationsMax ?? Infinity) - this.#underWay;
      if (room <= 0) break;
      const operations = this.#take(Math.min(room, OPERATIONS_MAX));
      if (operations.length === 0) continue;
      const batch: Batch = { operations, open: operations.length };
      for (const operation of operations) operation.batch = batch;
      this.#inFlight += 1;
      this.#underWay += operations.length;
      void this.#complete(batch);
    }
    // All that waited may have expired.
    this.#notifyIfDrained();
  }

  /** Takes the operations of the next batch; those that have expired are left out. */
  #take(countMax: number): Pending[] {
    const operations: Pending[] = [];
    let bytes = 0;
    let taken = 0;
    for (const operation of this.#waiting) {
      const isFull =
        operations.length >= countMax ||
        (operations.length > 0 && bytes + operation.bytes + 1 > BYTES_MAX);
      if (isFull) break;
      taken += 1;
      if (operation.isSettled) continue;
      operations.push(operation);
      bytes += operation.bytes + 1;
    }
    this.#waiting = this.#waiting.slice(taken);
    return operations;
  }

  async #complete(batch: Batch): Promise<void> {
    const { operations } = batch;
    const body = `{"headers":true,"requests":[${operations.map((op) => op.text).join(",")}]}`;
    try {
      const answers = await this.#carry(body, batch);
      if (answers.length !== operations.length) throw countMismatch(answers, operations);
      operations.forEach((operation, index) => {
        this.#settle(operation, () => {
          operation.resolve(answers[index] as Answer);
        });
      });
    } catch (error) {
      for (const operation of operations) {
        this.#settle(operation, () => {
          operation.reject(error);
        });
      }
    } finally {
      this.#inFlight -= 1;
      this.#underWay -= operations.length;
      if (this.#waiting.length > 0) this.#schedule();
      this.#notifyIfDrained();
    }
  }

  #settle(operation: Pending, conclude: () => void): void {
    if (operation.isSettled) return;
    operation.isSettled = true;
    if (this.#timeoutMs !== undefined) this.#deadlines.settled();
    conclude();
  }

  /** The caller gets its policy; a batch without waiting callers is given up. */
  #expire(operation: Pending): void {
    operation.isSettled = true;
    const detail = `no answer within ${this.#timeoutMs ?? 0} ms`;
    operation.reject(new UnavailableError({ code: "timeout", detail }));

    const { batch } = operation;
    if (batch === undefined) return;
    batch.open -= 1;
    if (batch.open > 0) return;
    batch.isAborted = true;
    batch.abort?.();
  }
}

/**
 * A key may be half a character, as a client of the program sent it. No JSON parser has to read
 * that, and one operation must not spoil the batch of the others: it becomes U+FFFD, as everywhere
 * in the process of the core.
 */
function wellFormed(json: string): string {
  if (!json.includes("\\ud")) return json;
  return json.replace(/\\(?:\\|ud[0-9a-f]{3})/g, (escape) =>
    escape === "\\\\" ? escape : "\\ufffd",
  );
}

function countMismatch(answers: Answer[], operations: Pending[]): UnavailableError {
  const detail = `${answers.length} answers to ${operations.length} operations`;
  return new UnavailableError({ code: "bad-response", detail });
}
