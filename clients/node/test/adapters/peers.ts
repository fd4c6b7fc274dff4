/** Client addresses, for frameworks that know the peer. It is 127.0.0.1 in these tests. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { TestApp, type Framework } from "./harness.js";

export function testPeers(framework: Framework): void {
  const from = (list: string): [string, Record<string, string>] => [
    "/",
    { "x-forwarded-for": list },
  ];

  test(`${framework.name}: an untrusted peer cannot name another client`, async (t) => {
    const app = await TestApp.start(t, framework, { limits: "api" });
    const statuses = await app.statuses(from("203.0.113.1"), from("203.0.113.2"), from("::1"));
    assert.deepEqual(statuses, [200, 200, 429]);
  });

  test(`${framework.name}: clients behind a trusted proxy are told apart`, async (t) => {
    const clientAddress = { trustedProxies: ["127.0.0.0/8", "::1"] };
    const app = await TestApp.start(t, framework, { limits: "api", clientAddress });
    const forged = ["6.6.6.1, 203.0.113.7", "6.6.6.2, 203.0.113.7", "6.6.6.3, 203.0.113.7"];
    assert.deepEqual(await app.statuses(...forged.map(from)), [200, 200, 429]);
    assert.deepEqual(await app.statuses(from("203.0.113.8")), [200]);
  });

  test(`${framework.name}: an IPv6 client is its network`, async (t) => {
    const clientAddress = { trustedProxies: ["127.0.0.1"] };
    const app = await TestApp.start(t, framework, { limits: "api", clientAddress });
    const hosts = ["2001:db8:1:2::1", "2001:db8:1:2::2", "2001:db8:1:2:ffff::3"];
    assert.deepEqual(await app.statuses(...hosts.map(from)), [200, 200, 429]);
    assert.deepEqual(await app.statuses(from("2001:db8:1:3::1")), [200]);
  });
}
