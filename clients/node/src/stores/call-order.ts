/** Calls on one key in the order in which they were made, awaited or not. */

export class CallOrder {
  /** By key, the call that later ones wait for. */
  readonly #pending = new Map<string, Promise<void>>();

  /** Runs a call after earlier ones of several steps. Without one, at once. */
  after<T>(key: string, call: () => Promise<T>): Promise<T> {
    const earlier = this.#pending.get(key);
    return earlier === undefined ? call() : earlier.then(call);
  }

  /** The same for a call of several steps, which later ones wait for. */
  alone<T>(key: string, call: () => Promise<T>): Promise<T> {
    const result = this.after(key, call);
    const ended = result.then(ignore, ignore).then(() => {
      if (this.#pending.get(key) === ended) this.#pending.delete(key);
    });
    this.#pending.set(key, ended);
    return result;
  }
}

function ignore(): void {
  // Whoever made the call gets its error.
}
