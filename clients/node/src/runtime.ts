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

/** Runs the callback when everything that has already arrived has been handled. */
export const soon: (callback: () => void) => void =
  globals.setImmediate === undefined
    ? (callback) => void setTimeout(callback, 0)
    : (callback) => void globals.setImmediate?.(callback);

const encoder = new TextEncoder();

/** The length of a text in UTF-8. */
export function byteLength(text: string): number {
  return globals.Buffer?.byteLength(text) ?? encoder.encode(text).length;
}
