/** What differs between Node and runtimes that only have web APIs. Imports no module of Node. */

import type * as fs from "node:fs";
import type * as http from "node:http";
import type * as https from "node:https";

interface NodeModules {
  "node:http": typeof http;
  "node:https": typeof https;
  "node:fs": typeof fs;
}

interface Globals {
  process?: {
    versions?: { node?: string };
    getBuiltinModule?: <Name extends keyof NodeModules>(name: Name) => NodeModules[Name];
  };
  navigator?: { userAgent?: string };
  setImmediate?: (callback: () => void) => unknown;
  Buffer?: { byteLength(text: string): number };
}

const globals = globalThis as unknown as Globals;

/** A module of Node, or `undefined` where there is none. Bundlers cannot see this, on purpose. */
export function nodeModule<Name extends keyof NodeModules>(
  name: Name,
): NodeModules[Name] | undefined {
  const { process } = globals;
  return process?.versions?.node === undefined ? undefined : process.getBuiltinModule?.(name);
}

/**
 * Whether each request has a context of its own, outside of which its promises and timers must not
 * be used: in Cloudflare's workerd.
 */
export const hasRequestContexts = globals.navigator?.userAgent === "Cloudflare-Workers";

// As they are now: an application's tests may replace them later, and deadlines are real.
const immediate = globals.setImmediate?.bind(globalThis);
const delay = setTimeout.bind(globalThis);

/** Runs the callback when everything that has already arrived has been handled. */
export function soon(callback: () => void): void {
  if (immediate === undefined || hasRequestContexts) delay(callback, 0);
  else immediate(callback);
}

/** Runs the callback after a time. */
export function later(callback: () => void, delayMs: number): unknown {
  return delay(callback, delayMs);
}

/** A clock that is never set, in milliseconds. */
export const monotonicMs: () => number = performance.now.bind(performance);

const encoder = new TextEncoder();

/** The length of a text in UTF-8. */
export function byteLength(text: string): number {
  return globals.Buffer?.byteLength(text) ?? encoder.encode(text).length;
}
