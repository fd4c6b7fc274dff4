import type { NativeChecker, NativeCore } from "../../src/engines/native.js";
import { ALLOWED } from "./faulty-service.js";

/** A core whose checker returns a code and numbers. */
export class PlayedCore implements NativeCore {
  code = 0;
  numbers: number[] = [];
  readonly lookups: string[] = [];
  readonly tried: unknown[][] = [];
  readonly bodies: { requests: { op: string }[] }[] = [];
  isClosed = false;

  limit(limit: string): number {
    if (limit === "one too many") throw new Error("more than 4096 limits");
    if (!this.lookups.includes(limit)) this.lookups.push(limit);
    return this.lookups.indexOf(limit);
  }

  checker(): NativeChecker {
    const numbers = new Float64Array(1 + 2 * 7);
    const checker = (...demands: (number | string)[]): number => {
      const isLimit = (index: number): boolean => index % 3 === 0;
      const named = demands.map((value, at) => (isLimit(at) ? this.lookups[Number(value)] : value));
      this.tried.push(named);
      numbers.set(this.numbers);
      return this.code;
    };
    return Object.assign(checker, { numbers });
  }

  batch(body: string): Promise<string> {
    const parsed = JSON.parse(body) as { requests: { op: string }[] };
    this.bodies.push(parsed);
    const limits = [{ name: "api", key: ["key"], on_store_failure: "allow" }];
    const answers = parsed.requests.map(({ op }) => ({
      status: 200,
      body: op === "limits" ? { limits } : ALLOWED,
    }));
    return Promise.resolve(JSON.stringify({ answers }));
  }

  advance(): void {
    throw new Error("not part of this test");
  }

  warnings = (): string[] => [];
  storeError = (): Promise<string | null> => Promise.resolve("no route to the store");

  close(): Promise<void> {
    this.isClosed = true;
    return Promise.resolve();
  }
}
