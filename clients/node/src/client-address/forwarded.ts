/**
 * Reads the header in which proxies name the client. Lists are read from the right, where the
 * nearest proxy appended its entry, and only as far as needed: what the client wrote is to the left
 * of that, and nothing in it can change how the trusted entries are read.
 */
import { parseAddress, type Address } from "./address.js";
import { clientOfElement, lastComma, trim } from "./element.js";

/** The maximum number of proxies to follow. Real chains have two or three. */
const HOPS_MAX = 64;
/** The maximum length of a list element. */
const ELEMENT_MAX = 1_024;

/** The headers that are lists. Every other header has a single address. */
export function isList(header: string): boolean {
  return header === "x-forwarded-for" || header === "forwarded";
}

/**
 * The addresses that proxies wrote into a list, nearest first. Ends with `undefined` at an element
 * that is not a valid address. `lines` are the values of the header, in the order of the request.
 */
export function* hops(header: string, lines: readonly string[]): Generator<Address | undefined> {
  let count = 0;
  for (const line of lines.toReversed()) {
    for (const element of elementsFromRight(header, line)) {
      if (count === HOPS_MAX) return;
      count += 1;

      const address = element === undefined ? undefined : parseElement(header, element);
      yield address;
      if (address === undefined) return;
    }
  }
}

/** The address of a header that has one value. Two mean that one may be forged: then neither. */
export function singleAddress(lines: readonly string[]): Address | undefined {
  const [line, ...others] = lines;
  return line === undefined || others.length > 0 ? undefined : parseAddress(trim(line));
}

/** The elements of one line, last first. An element that is too long is `undefined`. */
function* elementsFromRight(header: string, line: string): Generator<string | undefined> {
  let rest = line;
  for (;;) {
    // Search one character more than the longest element, for the comma before it.
    const start = Math.max(0, rest.length - ELEMENT_MAX - 1);
    const searched = rest.slice(start);
    const comma = header === "forwarded" ? lastComma(searched) : searched.lastIndexOf(",");
    if (comma < 0) {
      yield rest.length <= ELEMENT_MAX ? rest : undefined;
      return;
    }
    yield searched.slice(comma + 1);
    rest = rest.slice(0, start + comma);
  }
}

function parseElement(header: string, element: string): Address | undefined {
  return header === "forwarded" ? clientOfElement(element) : parseAddress(trim(element));
}
