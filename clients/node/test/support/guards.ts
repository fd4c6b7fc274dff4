/** Guards with a client that does what the test says. */
import assert from "node:assert/strict";
import { PlainDecision } from "../../src/decision.js";
import { Guard } from "../../src/guard.js";
import type { Admission, FinishedResponse, GuardOptions, Limiter } from "../../src/guard.js";
import type { Decision } from "../../src/types.js";

export const finished: FinishedResponse<unknown> = {
  status: 200,
  aborted: false,
  response: undefined,
};

export function decision(parts: Partial<Decision> = {}): Decision {
  const limit = { name: "api", limit: 5, remaining: 4, resetAfterMs: 1_000, retryAfterMs: null };
  const allowed = { allowed: true, source: "store", degraded: false, waitMs: 0 } as const;
  return new PlainDecision({ ...allowed, limits: [limit], ...parts }, { answeredAtMs: 0 });
}

/** Decides as given, and records what is called. */
export function fakeClient(given: Partial<Decision> = {}, fail?: () => Error | undefined) {
  const calls: unknown[][] = [];
  const answer = <T>(name: string, value: T) => (...args: unknown[]) => {
    calls.push([name, ...args]);
    const error = fail?.();
    return error === undefined ? Promise.resolve(value) : Promise.reject(error);
  };
  const client = {
    check: answer("check", decision(given)),
    reserve: answer("reserve", decision({ reservation: "r", ...given })),
    tryCheck: () => undefined,
    refund: answer("refund", undefined),
    release: answer("release", true),
    settle: answer("settle", { charged: 1, reservation: "open" as const }),
    cancel: answer("cancel", { charged: 0, reservation: "open" as const }),
  };
  return { client: client as unknown as Limiter, calls };
}

type AllOptions = GuardOptions<object, unknown>;
export type Options = Partial<AllOptions> & Pick<AllOptions, "client">;

export function guardWith(options: Options): Guard<object, unknown> {
  const view = { peer: () => "203.0.113.7", header: () => undefined };
  return new Guard<object, unknown>({ limits: "api", ...options }, view);
}

export async function admitted(options: Options): Promise<Admission<object, unknown>> {
  const admission = await guardWith(options).admit({});
  assert.ok(admission.allowed);
  return admission;
}
