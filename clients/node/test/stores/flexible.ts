/** Limiters for rate-limiter-flexible, and what they answer. */
import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import { RateLimiterRes } from "rate-limiter-flexible";

import {
  RateLimiterTollgate,
  type RateLimiterTollgateOptions,
} from "../../src/stores/rate-limiter-flexible.js";
import { sharedClient, uniqueName } from "./setup.js";

export function limiterOf(
  t: TestContext,
  options: Partial<RateLimiterTollgateOptions> = {},
): RateLimiterTollgate {
  const storeClient = options.storeClient ?? sharedClient(t);
  return new RateLimiterTollgate({
    points: 2,
    duration: 3600,
    name: uniqueName(),
    ...options,
    storeClient,
  });
}

/** The `RateLimiterRes` that a denied call rejects with. */
export async function denialOf(call: Promise<unknown>): Promise<RateLimiterRes> {
  const rejection: unknown = await call.then(
    () => assert.fail("expected a denial"),
    (reason: unknown) => reason,
  );
  assert.ok(rejection instanceof RateLimiterRes, `not a denial: ${String(rejection)}`);
  return rejection;
}

export function assertWithin(actual: number, low: number, high: number): void {
  assert.ok(actual >= low && actual <= high, `expected ${low} to ${high}, but found ${actual}`);
}
