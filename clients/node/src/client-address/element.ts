/** Parses the elements of a `Forwarded` list (RFC 7239): `for="[2001:db8::1]:443";proto=https`. */
import { parseAddress, type Address } from "./address.js";

/**
 * The position of the last comma outside quotes, or -1. The list is read backwards: the first quote
 * found this way closes a quoted string, and the next unescaped one opens it. Reading forwards, a
 * client could open a quote, never close it, and so hide the element that its proxy appends.
 */
export function lastComma(list: string): number {
  let isQuoted = false;
  for (let at = list.length - 1; at >= 0; at -= 1) {
    const character = list[at];
    if (character === '"' && !(isQuoted && list[at - 1] === "\\")) isQuoted = !isQuoted;
    else if (character === "," && !isQuoted) return at;
  }
  return -1;
}

/**
 * The address in the `for` parameter. `undefined` if it is `unknown` or an obfuscated name
 * (`_hidden`), if there is not exactly one such parameter, or if any part is malformed.
 */
export function clientOfElement(element: string): Address | undefined {
  let rest = trim(element);
  let client: string | undefined;

  while (rest !== "") {
    const parameter = readParameter(rest);
    if (parameter === undefined) return undefined;
    rest = parameter.rest;

    if (parameter.name?.toLowerCase() !== "for") continue;
    if (client !== undefined) return undefined;
    client = parameter.value;
  }
  return client === undefined ? undefined : parseNode(client);
}

/** Removes ASCII white space at both ends. */
export function trim(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && isSpace(text, start)) start += 1;
  while (end > start && isSpace(text, end - 1)) end -= 1;
  return text.slice(start, end);
}

function trimStart(text: string): string {
  let start = 0;
  while (start < text.length && isSpace(text, start)) start += 1;
  return text.slice(start);
}

function isSpace(text: string, at: number): boolean {
  return " \t\n\f\r".includes(text.charAt(at));
}

interface Parameter {
  /** Absent if the parameter is empty, as between two semicolons. */
  name?: string;
  value?: string;
  rest: string;
}

function readParameter(text: string): Parameter | undefined {
  if (text[0] === ";") return { rest: trimStart(text.slice(1)) };

  const name = /^[A-Za-z0-9!#$%&'*+\-.^_`|~]+/.exec(text)?.[0];
  if (name === undefined || text[name.length] !== "=") return undefined;

  const value = readValue(text.slice(name.length + 1));
  if (value === undefined) return undefined;

  const rest = trimStart(value.rest);
  const isComplete = rest === "" || rest[0] === ";";
  return isComplete ? { name, value: value.text, rest } : undefined;
}

/**
 * The value at the start of a text, without quotes and escapes. Addresses with colons and brackets
 * should be quoted, but some proxies do not quote them; they are unambiguous.
 */
function readValue(text: string): { text: string; rest: string } | undefined {
  if (text[0] !== '"') {
    const value = /^[A-Za-z0-9!#$%&'*+\-.^_`|~:[\]]+/.exec(text)?.[0];
    return value === undefined ? undefined : { text: value, rest: text.slice(value.length) };
  }

  let value = "";
  for (let at = 1; at < text.length; at += 1) {
    if (text[at] === '"') return { text: value, rest: text.slice(at + 1) };
    if (text[at] === "\\") at += 1;
    value += text[at] ?? "";
  }
  return undefined;
}

/** An address with an optional port, which may be an obfuscated name such as `_port` here. */
function parseNode(node: string): Address | undefined {
  const hidden = node.indexOf(":_");
  if (hidden < 0) return parseAddress(node);

  const address = node.slice(0, hidden);
  const isPort = /^[A-Za-z0-9._-]+$/.test(node.slice(hidden + 2));
  const isBare = address.endsWith("]") || !address.includes(":");
  return isPort && isBare ? parseAddress(address) : undefined;
}
