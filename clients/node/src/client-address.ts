/** Determines which client a request comes from. Runs wherever TypeScript does. */
import { formatAddress, hostOf, mask, parseAddress } from "./client-address/address.js";
import type { Address } from "./client-address/address.js";
import { hops, isList, singleAddress } from "./client-address/forwarded.js";
import { Network } from "./client-address/network.js";
import { type OptionNames, requireKnown } from "./option-names.js";

/** The maximum number of trusted networks; each is compared with every hop. */
const TRUSTED_MAX = 1_024;
/** Peers whose address is remembered: connections are kept, and proxies are few. */
const PEERS_MAX = 4_096;
/** Headers by which proxies name the client. */
const FORWARDING = ["x-forwarded-for", "forwarded", "x-real-ip"];
/** The smallest IPv6 network that a customer gets. */
const IPV6_PREFIX = 64;

/** How the proxies before the application name the client. By default no proxy is trusted. */
export interface ClientAddressOptions {
  /**
   * Networks of the proxies that may name the client: `["10.0.0.0/8", "2001:db8::/32"]`. The header
   * is ignored if the request comes from any other address.
   */
  trustedProxies?: readonly string[];
  /**
   * The header that the proxies set: `x-forwarded-for` (default), `forwarded`, or one with a single
   * address, such as `x-real-ip` or `cf-connecting-ip`. No other header is read: a client could
   * send one that its proxy does not overwrite.
   */
  header?: string;
  /**
   * Where the peer is not known (Next, edge runtimes): the number of proxies before the
   * application, each of which appends to the list in `header`. With a header that has a single
   * address, 1 says that the platform sets it in every request.
   */
  proxyCount?: number;
  /** The leading bits of an IPv6 address that identify one client; 64 by default. */
  ipv6Prefix?: number;
  /** Is told once if a peer that is not trusted names a client. Default: `console.warn`. */
  onWarning?: (message: string) => void;
}

const NAMES: OptionNames<ClientAddressOptions> = {
  trustedProxies: true,
  header: true,
  proxyCount: true,
  ipv6Prefix: true,
  onWarning: true,
};

/** What is known about the sender of a request. */
export interface Sender {
  /** The address of the connection; `undefined` if the runtime does not tell. */
  readonly peer: string | undefined;
  /** The values of a header whose name is in lower case; lines may be joined by commas. */
  header(name: string): string | readonly string[] | undefined;
}

/** An address as it is used: parsed, and as a key. */
interface Peer {
  address: Address;
  isTrusted: boolean;
  key: string;
}

/** The client of a request cannot be determined. The message says what to configure. */
export class ClientAddressError extends Error {
  override readonly name = "ClientAddressError";
}

/** Determines the client's address behind trusted proxies, and groups what one client can use. */
export class ClientResolver {
  private readonly trusted: readonly Network[];
  private readonly header: string;
  private readonly proxyCount: number | undefined;
  private readonly ipv6Prefix: number;
  private readonly peers = new Map<string, Peer>();
  /** Only if nothing was said about proxies; an empty list says that there are none. */
  private warn: ((message: string) => void) | undefined;

  constructor(options: ClientAddressOptions = {}) {
    requireKnown(options, NAMES, "clientAddress");
    const { trustedProxies = [], proxyCount, ipv6Prefix = IPV6_PREFIX } = options;
    if (!Number.isInteger(ipv6Prefix) || ipv6Prefix < 1 || ipv6Prefix > 128) {
      throw new TypeError(`invalid ipv6Prefix ${ipv6Prefix}: must be between 1 and 128`);
    }
    if (trustedProxies.length > TRUSTED_MAX) {
      throw new TypeError(
        `too many trustedProxies: found ${trustedProxies.length}, at most ${TRUSTED_MAX} allowed`,
      );
    }

    this.trusted = trustedProxies.map((text) => Network.parse(text));
    this.header = (options.header ?? "x-forwarded-for").toLowerCase();
    this.proxyCount = proxyCount;
    this.ipv6Prefix = ipv6Prefix;
    this.validateProxyCount();
    if (options.trustedProxies === undefined && proxyCount === undefined) {
      this.warn = options.onWarning ?? console.warn;
    }
  }

  /**
   * The address of the client. The header is believed only if the peer is trusted. A list is read
   * from the right, past trusted proxies, to the first address that is not trusted. An element that
   * is not an address ends the search at the last valid hop: everything further left may be forged.
   */
  address(sender: Sender): string {
    const resolved = this.resolve(sender);
    return formatAddress(hostOf("key" in resolved ? resolved.address : resolved));
  }

  /** The key of the client: its address, or the network of an IPv6 address. */
  key(sender: Sender): string {
    const resolved = this.resolve(sender);
    return "key" in resolved ? resolved.key : this.keyOf(resolved);
  }

  private keyOf(address: Address): string {
    const host = hostOf(address);
    return formatAddress(host.length === 4 ? host : mask(host, this.ipv6Prefix));
  }

  private resolve(sender: Sender): Address | Peer {
    if (this.proxyCount !== undefined) return this.behindCount(sender, this.proxyCount);

    const peer = this.peerOf(sender.peer);
    if (!peer.isTrusted) {
      if (this.warn !== undefined) this.warnAboutProxy(sender);
      return peer;
    }

    const lines = this.lines(sender);
    if (!isList(this.header)) return singleAddress(lines) ?? peer;

    let last = peer.address;
    for (const hop of hops(this.header, lines)) {
      if (hop === undefined) break;
      last = hop;
      if (!this.trusts(hop)) break;
    }
    return last;
  }

  private peerOf(text: string | undefined): Peer {
    const known = text === undefined ? undefined : this.peers.get(text);
    if (known !== undefined) return known;

    const address = text === undefined ? undefined : parseAddress(text);
    if (text === undefined || address === undefined) {
      throw new ClientAddressError(unknownPeer(text));
    }
    const peer = { address, isTrusted: this.trusts(address), key: this.keyOf(address) };
    if (this.peers.size >= PEERS_MAX) this.peers.clear();
    this.peers.set(text, peer);
    return peer;
  }

  /** The entry that the outermost of the proxies wrote. */
  private behindCount(sender: Sender, count: number): Address {
    const lines = this.lines(sender);
    if (!isList(this.header)) {
      const address = singleAddress(lines);
      if (address !== undefined) return address;
    } else {
      let position = 0;
      for (const hop of hops(this.header, lines)) {
        position += 1;
        if (hop === undefined) break;
        if (position === count) return hop;
      }
    }
    const expected = isList(this.header)
      ? `an address from each of the ${count} proxies that proxyCount says`
      : "one address, which the platform sets";
    throw new ClientAddressError(
      `the header ${this.header} does not name the client: expected ${expected}`,
    );
  }

  private warnAboutProxy(sender: Sender): void {
    let found: string | undefined;
    for (const name of FORWARDING) if (sender.header(name) !== undefined) found ??= name;
    if (found === undefined) return;

    const peer = JSON.stringify(sender.peer);
    this.warn?.(
      `tollgate: the peer ${peer} sent ${found}, but it is not a trusted proxy: all clients ` +
        "behind it share one key. If it is your proxy, set clientAddress: " +
        `{ trustedProxies: [${peer}] }. If there is no proxy, set clientAddress: ` +
        "{ trustedProxies: [] } (TG002)",
    );
    this.warn = undefined;
  }

  private trusts(address: Address): boolean {
    return this.trusted.some((network) => network.contains(address));
  }

  private lines(sender: Sender): readonly string[] {
    const value = sender.header(this.header);
    if (value === undefined) return [];
    return typeof value === "string" ? [value] : value;
  }

  private validateProxyCount(): void {
    const count = this.proxyCount;
    if (count === undefined) return;
    if (!Number.isInteger(count) || count < 1 || count > 64) {
      throw new TypeError(`invalid proxyCount ${count}: must be between 1 and 64`);
    }
    if (this.trusted.length > 0) {
      throw new TypeError("trustedProxies and proxyCount exclude each other: choose one");
    }
    if (count > 1 && !isList(this.header)) {
      throw new TypeError(`the header ${this.header} has one address: proxyCount must be 1`);
    }
  }
}

function unknownPeer(peer: string | undefined): string {
  const found = peer === undefined ? "is not known here" : `is not valid: ${JSON.stringify(peer)}`;
  return (
    `the address of the client cannot be determined: the peer address ${found}. Set ` +
    "clientAddress: { proxyCount } if proxies append to X-Forwarded-For, or clientAddress: " +
    "{ header, proxyCount: 1 } for a header that the platform sets, or count by another key"
  );
}
