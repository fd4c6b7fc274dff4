// The cases of the service's own tests, and what is particular to this package.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { ClientAddressError, ClientResolver, type Sender } from "../src/client-address.js";
import { parseAddress, formatAddress } from "../src/client-address/address.js";
import { Network } from "../src/client-address/network.js";

const CORPUS = "../../crates/subject/tests/forwarding.txt";
const ROWS_MIN = 140;

interface Row {
  title: string;
  resolver: ClientResolver;
  peer: string;
  headers: Map<string, string[]>;
  client: string;
}

/** Node decodes the bytes of a header as Latin-1, whatever the client meant. */
function decoded(value: string): string {
  return Buffer.from(value, "utf8").toString("latin1");
}

function readRow(line: string, header: string): Row {
  const columns = line.split("|").map((column) => column.trim());
  assert.equal(columns.length, 5, line);
  const [title, trusted, peer, lines, client] = columns as [string, string, string, string, string];

  const headers = new Map<string, string[]>();
  for (const text of lines === "" ? [] : lines.split("¶").map((part) => part.trim())) {
    const named = /^([A-Za-z0-9_-]+):(?: (.*))?$/.exec(text);
    const isNamed = named !== null && (named[2] !== undefined || named[1] === header);
    const name = isNamed ? named[1]!.toLowerCase() : header;
    const value = decoded((isNamed ? (named[2] ?? "") : text).trim());
    headers.set(name, [...(headers.get(name) ?? []), value]);
  }

  const trustedProxies = trusted.split(/\s+/).filter((network) => network !== "");
  const resolver = new ClientResolver({ trustedProxies, header });
  return { title, resolver, peer, headers, client: canonical(client) };
}

function canonical(address: string): string {
  return formatAddress(parseAddress(address) ?? assert.fail(address));
}

function rows(): Row[] {
  const found: Row[] = [];
  let header = "";
  for (const line of readFileSync(CORPUS, "utf8").split("\n")) {
    if (line.startsWith("[")) header = line.slice(1, -1);
    else if (line !== "" && !line.startsWith("#")) found.push(readRow(line, header));
  }
  return found;
}

function sender(peer: string | undefined, headers: Record<string, string | string[]> = {}): Sender {
  return { peer, header: (name) => headers[name] };
}

test("every row of the service's table gives the expected client", () => {
  const all = rows();
  assert.ok(all.length >= ROWS_MIN, `only ${all.length} rows were read`);
  for (const { title, resolver, peer, headers, client } of all) {
    const lines = { peer, header: (name: string) => headers.get(name) };
    assert.equal(resolver.address(lines), client, title);
    const joined = { peer, header: (name: string) => headers.get(name)?.join(", ") };
    assert.equal(resolver.address(joined), client, `${title} (lines joined, as Node does)`);
  }
});

test("an untrusted peer cannot forge any header of the table", () => {
  for (const { title, headers } of rows()) {
    for (const header of ["x-forwarded-for", "forwarded", "x-real-ip", "cf-connecting-ip"]) {
      const resolver = new ClientResolver({ trustedProxies: ["10.0.0.0/8"], header });
      const forged = { peer: "198.51.100.9", header: (name: string) => headers.get(name) };
      assert.equal(resolver.address(forged), "198.51.100.9", title);
    }
  }
});

test("a chain is followed for sixty-four hops, and a long forged list changes nothing", () => {
  const resolver = new ClientResolver({ trustedProxies: ["10.0.0.0/8"] });
  const chain = (proxies: number) => ["203.0.113.7", ...Array<string>(proxies).fill("10.0.0.2")];
  const client = (list: string) =>
    resolver.address(sender("10.0.0.1", { "x-forwarded-for": list }));

  assert.equal(client(chain(63).join(", ")), "203.0.113.7");
  assert.equal(client(chain(64).join(", ")), "10.0.0.2");
  assert.equal(client(chain(100_000).join(", ")), "10.0.0.2");
  for (const forged of ["6.6.6.6, ".repeat(50_000), "x".repeat(500_000), '"\\,'.repeat(50_000)]) {
    assert.equal(client(`${forged}, ${chain(2).join(", ")}`), "203.0.113.7");
  }
});

test("elements of up to a kibibyte are read", () => {
  const resolver = new ClientResolver({ trustedProxies: ["10.0.0.0/8"], header: "Forwarded" });
  const longest = 1_024 - " for=203.0.113.7;host=".length;
  const client = (length: number) => {
    const list = `for=6.6.6.6, for=203.0.113.7;host=${"h".repeat(length)}`;
    return resolver.address(sender("10.0.0.1", { forwarded: list }));
  };
  assert.equal(client(longest), "203.0.113.7");
  assert.equal(client(longest + 1), "10.0.0.1");
});

test("the key of an IPv6 client is its network, that of an IPv4 client its address", () => {
  const key = (peer: string, ipv6Prefix?: number) =>
    new ClientResolver(ipv6Prefix === undefined ? {} : { ipv6Prefix }).key(sender(peer));
  assert.equal(key("2001:db8:1:2::1"), "2001:db8:1:2::");
  assert.equal(key("2001:db8:1:2:ffff::1"), "2001:db8:1:2::");
  assert.equal(key("2001:db8:1:3::1"), "2001:db8:1:3::");
  assert.equal(key("2001:db8:1:2ff::1", 56), "2001:db8:1:200::");
  assert.equal(key("2001:db8:1:f::1", 61), "2001:db8:1:8::");
  assert.equal(key("2001:db8::1", 128), "2001:db8::1");
  assert.equal(key("::ffff:203.0.113.7"), "203.0.113.7");
  assert.equal(key("64:ff9b::203.0.113.7"), "203.0.113.7");
  assert.equal(key("203.0.113.7", 1), "203.0.113.7");
});

test("without a peer address, proxyCount says which entry to believe", () => {
  const resolver = new ClientResolver({ proxyCount: 2 });
  const client = (list: string | string[]) =>
    resolver.address(sender(undefined, { "x-forwarded-for": list }));
  assert.equal(client("203.0.113.7, 198.51.100.2"), "203.0.113.7");
  assert.equal(client("6.6.6.6, 203.0.113.7, 198.51.100.2"), "203.0.113.7");
  assert.equal(client(["6.6.6.6", "203.0.113.7", "198.51.100.2"]), "203.0.113.7");
  for (const list of ["203.0.113.7", "", "203.0.113.7, garbage", "garbage, 198.51.100.2"]) {
    assert.throws(() => client(list), ClientAddressError, list);
  }
});

test("without a peer address, a header of the platform names the client", () => {
  const resolver = new ClientResolver({ header: "CF-Connecting-IP", proxyCount: 1 });
  const client = (value?: string) =>
    resolver.address(sender(undefined, value === undefined ? {} : { "cf-connecting-ip": value }));
  assert.equal(client("203.0.113.7"), "203.0.113.7");
  assert.throws(() => client("6.6.6.6, 203.0.113.7"), ClientAddressError);
  assert.throws(() => client(), ClientAddressError);
});

test("an unknown client is an error that says what to configure, never a shared key", () => {
  const resolver = new ClientResolver({ trustedProxies: ["10.0.0.0/8"] });
  for (const peer of [undefined, "", "localhost", "0.0.0.0", "::"]) {
    assert.throws(
      () => resolver.key(sender(peer, { "x-forwarded-for": "203.0.113.7" })),
      (error: Error) => error instanceof ClientAddressError && /proxyCount/.test(error.message),
    );
  }
});

test("an untrusted proxy causes one warning, and no proxy causes none", () => {
  const warnings: string[] = [];
  const onWarning = (message: string) => warnings.push(message);
  const silent = new ClientResolver({ trustedProxies: [], onWarning });
  const resolver = new ClientResolver({ onWarning });
  const forwarded = sender("10.0.0.3", { "x-forwarded-for": "203.0.113.7" });

  assert.equal(resolver.key(sender("10.0.0.3")), "10.0.0.3");
  assert.equal(silent.key(forwarded), "10.0.0.3");
  assert.equal(warnings.length, 0);
  assert.equal(resolver.key(forwarded), "10.0.0.3");
  resolver.key(forwarded);
  assert.equal(warnings.length, 1);
  assert.match(warnings[0] ?? "", /trustedProxies: \["10\.0\.0\.3"\]/);
});

test("wrong options are errors that say what would be right", () => {
  for (const [options, message] of [
    [{ trustedProxies: ["10.1.2.3/8"] }, /did you mean 10\.0\.0\.0\/8\?/],
    [{ trustedProxies: ["10.0.0.0/33"] }, /between 0 and 32/],
    [{ trustedProxies: ["localhost"] }, /invalid network "localhost"/],
    [{ trustedProxies: Array<string>(1_025).fill("10.0.0.0/8") }, /at most 1024/],
    [{ ipv6Prefix: 0 }, /between 1 and 128/],
    [{ proxyCount: 0 }, /between 1 and 64/],
    [{ proxyCount: 1, trustedProxies: ["10.0.0.0/8"] }, /exclude each other/],
    [{ proxyCount: 2, header: "x-real-ip" }, /must be 1/],
  ] as const) {
    assert.throws(() => new ClientResolver(options), message);
  }
});

test("networks have one form, and IPv4 is in no IPv6 network", () => {
  assert.equal(Network.parse("203.0.113.7").toString(), "203.0.113.7/32");
  assert.equal(Network.parse("2001:0DB8::0/32").toString(), "2001:db8::/32");
  assert.equal(Network.parse("::ffff:10.0.0.0/104").toString(), "10.0.0.0/8");
  assert.throws(() => Network.parse("::ffff:10.0.0.1/64"), /did you mean 10\.0\.0\.1\/32\?/);
  assert.throws(() => Network.parse("10.0.0.0/08"), /prefix length/);
});

test("ambiguous and invalid addresses are rejected", () => {
  for (const text of [
    ...["010.0.0.1", "10.0.0.01", "1.2", "1", "2130706433", "0x7f.0.0.1", "1.2.3.4.5", "1.2.3.256"],
    ...["1.2.3.4:", "1.2.3.4:x", "1.2.3.4:65536", "1.2.3.4:000080", "1.2.3.4:+80", "1.2.3.4:80:80"],
    ...["1.2.3.4/32", "[1.2.3.4]", "[::1", "::1]", "[::1]x", "[::1]:", "[::1]:x", "[]", "[[::1]]"],
    ...["::ffff:1.2.3.4:80", ":80", "fe80::1%", "fe80::1%a b", "fe80::1%eth0%eth1", "1.2.3.4%eth0"],
    ...["%eth0", "1.2.3.4 ", " 1.2.3.4", "1.2.3.4\0", "0.0.0.0", "::", "[::]:80", "::ffff:0.0.0.0"],
    ...["localhost", "unknown", "_hidden", "\uff11.2.3.4", "1.2.3.4,5.6.7.8", "", "1".repeat(129)],
    ...[":::", "1::2::3", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1:2:3:4::5:6:7:8", "12345::"],
    ...[":1", "1.2.3.4::", "::1.2.3.4:5", `fe80::1%${"z".repeat(33)}`],
  ]) {
    assert.equal(parseAddress(text), undefined, text);
  }
  assert.equal(canonical("1:2:3:4:5:6:7::"), "1:2:3:4:5:6:7:0");
  assert.equal(canonical("1:0:0:2:0:0:0:3"), "1:0:0:2::3");
  assert.equal(canonical("[fe80::1%25eth0]:80"), "fe80::1");
  assert.equal(canonical("1:2:3:4:5:6:1.2.3.4"), "1:2:3:4:5:6:102:304");
});
