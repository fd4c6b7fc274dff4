/** One timer for operations that all have the same time to be answered. */
import { later, monotonicMs, soon } from "./runtime.js";

/** Something that ends at its deadline, unless it is over by then. */
export interface Expiring {
  deadlineMs: number;
  isSettled: boolean;
  expire(): void;
}

/** In Node an object; elsewhere a number, which never keeps anything alive. */
type Timer = { ref?(): unknown; unref?(): unknown };

/**
 * Keeps operations in the order of their deadlines, which is the order in which they were added.
 * The timer keeps the process alive only while an operation is open.
 */
export class Deadlines {
  #queue: Expiring[] = [];
  #timer: Timer | undefined;
  #open = 0;

  add(operation: Expiring): void {
    this.#queue.push(operation);
    this.#open += 1;
    if (this.#timer === undefined) this.#arm(operation.deadlineMs);
    else if (this.#open === 1) this.#timer.ref?.();
  }

  /** To be called once for each operation that was answered before its deadline. */
  settled(): void {
    this.#open -= 1;
    if (this.#open === 0) this.#timer?.unref?.();
  }

  #arm(deadlineMs: number): void {
    const delayMs = Math.max(0, deadlineMs - monotonicMs());
    const timer = later(() => {
      // After a pause of the event loop, answers may already be there: they are read first.
      soon(() => {
        this.#expire();
      });
    }, Math.ceil(delayMs));
    this.#timer = timer as Timer;
  }

  #expire(): void {
    this.#timer = undefined;
    const nowMs = monotonicMs();
    const left = this.#queue.findIndex((op) => !op.isSettled && op.deadlineMs > nowMs);
    const due = left === -1 ? this.#queue : this.#queue.slice(0, left);
    this.#queue = left === -1 ? [] : this.#queue.slice(left);

    const [next] = this.#queue;
    if (next !== undefined) this.#arm(next.deadlineMs);
    for (const operation of due) {
      if (operation.isSettled) continue;
      this.#open -= 1;
      operation.expire();
    }
  }
}
