/** Remembers until when keys are denied. */

/** Keys; the oldest one makes room. */
const SIZE_MAX = 10_000;

export class DenialCache {
  readonly #deniedUntil: Map<string, number>;

  /** The map may be shared between limiters with different prefixes. */
  constructor(map = new Map<string, number>()) {
    this.#deniedUntil = map;
  }

  /** Unix time in milliseconds, if the key is denied now. */
  deniedUntil(key: string): number | undefined {
    const until = this.#deniedUntil.get(key);
    if (until === undefined || until > Date.now()) return until;
    this.#deniedUntil.delete(key);
    return undefined;
  }

  add(key: string, until: number): void {
    const [oldest] = this.#deniedUntil.keys();
    if (this.#deniedUntil.size >= SIZE_MAX && oldest !== undefined) {
      this.#deniedUntil.delete(oldest);
    }
    this.#deniedUntil.set(key, until);
  }

  delete(key: string): void {
    this.#deniedUntil.delete(key);
  }
}
