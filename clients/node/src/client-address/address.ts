/**
 * Parses and formats addresses as proxies write them, with the rules of the service
 * (`crates/subject/src/address.rs`). Plain TypeScript, because edge runtimes have no `node:net`.
 */

/** The bytes of an address: 4 of IPv4, 16 of IPv6. IPv4-mapped addresses are IPv4. */
export type Address = readonly number[];

/** The maximum length of an address. IPv6 with brackets, zone and port is well below it. */
const ADDRESS_MAX = 128;
/** The maximum length of a zone: twice what Linux allows for an interface name. */
const ZONE_MAX = 32;

const V6_GROUPS = 8;

/**
 * Parses an address with an optional port, and brackets around IPv6. Octal, short and numeric forms
 * are rejected, because programs disagree on their meaning; the unspecified addresses `0.0.0.0` and
 * `::` because they mean that the address is not known. A zone (`fe80::1%eth0`) is removed.
 */
export function parseAddress(text: string): Address | undefined {
  if (text.length === 0 || text.length > ADDRESS_MAX) return undefined;

  const address = text[0] === "[" ? parseBracketed(text.slice(1)) : parseBare(text);
  if (address === undefined) return undefined;

  const canonical = unmap(address);
  return canonical.every((byte) => byte === 0) ? undefined : canonical;
}

/** Parses an address without brackets, port and zone. */
export function parsePlain(text: string): Address | undefined {
  return parseV4(text) ?? parseV6(text);
}

/** The IPv4 address inside an IPv4-mapped one (`::ffff:203.0.113.7`), else the address itself. */
export function unmap(address: Address): Address {
  return isMapped(address) ? address.slice(12) : address;
}

export function isMapped(address: Address): boolean {
  return (
    address.length === 16 &&
    address[10] === 0xff &&
    address[11] === 0xff &&
    address.slice(0, 10).every((byte) => byte === 0)
  );
}

/**
 * The host behind an address. For a NAT64 address (`64:ff9b::/96`) that is the public IPv4 address
 * inside: all of them lie in one /64, and would share one counter.
 */
export function hostOf(address: Address): Address {
  const isNat64 =
    address.length === 16 &&
    address[1] === 0x64 &&
    address[2] === 0xff &&
    address[3] === 0x9b &&
    address[0] === 0 &&
    address.slice(4, 12).every((byte) => byte === 0);
  if (!isNat64) return address;

  const v4 = address.slice(12);
  return isPublic(v4) ? v4 : address;
}

/** Clears all bits of an address after the prefix. */
export function mask(address: Address, prefix: number): Address {
  return address.map((byte, index) => {
    const kept = Math.min(8, Math.max(0, prefix - index * 8));
    return byte & (0xff00 >> kept);
  });
}

/** The text of an address; IPv6 as RFC 5952 writes it. */
export function formatAddress(address: Address): string {
  if (address.length === 4) return address.join(".");

  const groups = toGroups(address);
  const hex = (part: number[]) => part.map((group) => group.toString(16)).join(":");
  const zeros = longestZeroRun(groups);
  if (zeros.length < 2) return hex(groups);
  return `${hex(groups.slice(0, zeros.start))}::${hex(groups.slice(zeros.start + zeros.length))}`;
}

/** Pairs of bytes as numbers of 16 bits. */
function toGroups(bytes: Address): number[] {
  const groups: number[] = [];
  bytes.forEach((byte, index) => {
    if (index % 2 === 0) groups.push(byte << 8);
    else groups.push((groups.pop() ?? 0) | byte);
  });
  return groups;
}

function longestZeroRun(groups: number[]): { start: number; length: number } {
  let longest = { start: 0, length: 0 };
  let start = 0;
  groups.forEach((group, index) => {
    if (group !== 0) start = index + 1;
    else if (index + 1 - start > longest.length) longest = { start, length: index + 1 - start };
  });
  return longest;
}

/** Parses what follows an opening bracket. Only IPv6 addresses are written in brackets. */
function parseBracketed(rest: string): Address | undefined {
  const end = rest.indexOf("]");
  if (end < 0) return undefined;

  const after = rest.slice(end + 1);
  const isComplete = after === "" || (after[0] === ":" && isPort(after.slice(1)));
  return isComplete ? parseZoned(rest.slice(0, end)) : undefined;
}

/** Parses an address without brackets. Only IPv4 may have a port here. */
function parseBare(text: string): Address | undefined {
  const colon = text.indexOf(":");
  const hasPort = colon >= 0 && isPort(text.slice(colon + 1));
  return parseV4(hasPort ? text.slice(0, colon) : text) ?? parseZoned(text);
}

function parseZoned(text: string): Address | undefined {
  const percent = text.indexOf("%");
  if (percent < 0) return parseV6(text);
  return isZone(text.slice(percent + 1)) ? parseV6(text.slice(0, percent)) : undefined;
}

function isPort(text: string): boolean {
  return /^[0-9]{1,5}$/.test(text) && Number(text) <= 65_535;
}

function isZone(text: string): boolean {
  return text.length <= ZONE_MAX && /^[A-Za-z0-9._~-]+$/.test(text);
}

function parseV4(text: string): Address | undefined {
  if (text.length > 15) return undefined;
  const parts = text.split(".");
  if (parts.length !== 4) return undefined;

  const bytes: number[] = [];
  for (const part of parts) {
    if (!/^(?:0|[1-9][0-9]{0,2})$/.test(part) || Number(part) > 255) return undefined;
    bytes.push(Number(part));
  }
  return bytes;
}

function parseV6(text: string): Address | undefined {
  const [head = "", tail, ...others] = text.split("::");
  if (others.length > 0) return undefined;

  // An IPv4 address can only be at the very end.
  const first = parseGroups(head, tail === undefined);
  const last = tail === undefined ? [] : parseGroups(tail, true);
  if (first === undefined || last === undefined) return undefined;

  // `::` replaces at least one group.
  const missing = V6_GROUPS - first.length - last.length;
  if (tail === undefined ? missing !== 0 : missing < 1) return undefined;

  const groups = [...first, ...new Array<number>(missing).fill(0), ...last];
  return groups.flatMap((group) => [group >> 8, group & 0xff]);
}

function parseGroups(text: string, mayEndInV4: boolean): number[] | undefined {
  if (text === "") return [];
  const parts = text.split(":");
  const groups: number[] = [];

  for (const [index, part] of parts.entries()) {
    if (/^[0-9A-Fa-f]{1,4}$/.test(part)) {
      groups.push(Number.parseInt(part, 16));
      continue;
    }
    const v4 = mayEndInV4 && index === parts.length - 1 ? parseV4(part) : undefined;
    if (v4 === undefined) return undefined;
    groups.push(...toGroups(v4));
  }
  return groups;
}

/** NAT64 is not defined for other addresses, so that it cannot be used to pose as `10.0.0.1`. */
function isPublic(v4: Address): boolean {
  const [a = 0, b = 0] = v4;
  const isBroadcast = v4.every((byte) => byte === 255);
  return !(
    a === 0 ||
    a === 10 ||
    a === 127 ||
    (a === 100 && b >= 64 && b <= 127) ||
    (a === 169 && b === 254) ||
    (a === 172 && b >= 16 && b <= 31) ||
    (a === 192 && b === 168) ||
    (a >= 224 && a <= 239) ||
    isBroadcast
  );
}
