/** IP networks in CIDR notation, with the rules of the service. */
import { formatAddress, isMapped, mask, parsePlain, unmap, type Address } from "./address.js";

const MAPPED_PREFIX = 96;

/**
 * A network such as `10.0.0.0/8`, or a bare address. IPv4-mapped networks are IPv4, and IPv4
 * addresses are in no IPv6 network, not even in `::/0`.
 */
export class Network {
  private constructor(
    private readonly first: Address,
    private readonly prefix: number,
  ) {}

  /** Throws a `TypeError` that says what would be right. */
  static parse(text: string): Network {
    const slash = text.indexOf("/");
    const address = parsePlain(slash < 0 ? text : text.slice(0, slash));
    const found = JSON.stringify(text.slice(0, 64));
    if (address === undefined) {
      throw new TypeError(
        `invalid network ${found}: expected one such as 10.0.0.0/8, 2001:db8::/32 or 192.0.2.1`,
      );
    }

    const max = address.length * 8;
    const prefix = slash < 0 ? max : parsePrefix(text.slice(slash + 1));
    if (prefix === undefined || prefix > max) {
      throw new TypeError(
        `invalid network ${found}: the prefix length must be between 0 and ${max}`,
      );
    }

    const network = Network.around(address, prefix);
    if (!isEqual(mask(address, prefix), address)) {
      throw new TypeError(
        `invalid network ${found}: host bits are set; did you mean ${network.toString()}?`,
      );
    }
    return network;
  }

  /** Whether the network contains an address, which must not be IPv4-mapped. */
  contains(address: Address): boolean {
    if (address.length !== this.first.length) return false;
    return isEqual(mask(address, this.prefix), this.first);
  }

  toString(): string {
    return `${formatAddress(this.first)}/${this.prefix}`;
  }

  private static around(address: Address, prefix: number): Network {
    const inner = isMapped(address) ? unmappedPrefix(prefix) : prefix;
    return new Network(mask(unmap(address), inner), inner);
  }
}

/** In `::ffff:10.0.0.0/8`, the user means eight bits of the IPv4 address. */
function unmappedPrefix(prefix: number): number {
  return prefix >= MAPPED_PREFIX ? prefix - MAPPED_PREFIX : Math.min(prefix, 32);
}

function parsePrefix(text: string): number | undefined {
  return /^(?:0|[1-9][0-9]{0,2})$/.test(text) ? Number(text) : undefined;
}

function isEqual(one: Address, other: Address): boolean {
  return one.length === other.length && one.every((byte, index) => byte === other[index]);
}
