/** What the tests of stores share: a service, clients of it, and listening applications. */
import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { after } from "node:test";

import { Tollgate } from "../../src/tollgate.js";
import type { Cleanup } from "../support/process.js";
import { type Service, startService } from "../support/service.js";

/** Long enough for a busy machine: no test waits for it. */
const TIMEOUT_MS = 30_000;

/** The service of a test file. Tests use keys, names or prefixes of their own. */
export const service = await startService({ after });

/** A client of the service that is closed after the test. */
export function clientOf(t: Cleanup, { url }: Pick<Service, "url">): Tollgate {
  const client = new Tollgate({ url, timeoutMs: TIMEOUT_MS });
  t.after(() => client.close());
  return client;
}

/** A client of the test file's service. */
export function sharedClient(t: Cleanup): Tollgate {
  return clientOf(t, service);
}

/** A client whose service is gone. */
export async function clientOfKilledService(t: Cleanup): Promise<Tollgate> {
  const killed = await startService(t);
  const client = clientOf(t, killed);
  await killed.kill();
  return client;
}

let names = 0;

/** A name that no other test of this process uses. */
export function uniqueName(): string {
  names += 1;
  return `test-${process.pid}-${names}`;
}

/** The address of a server that is closed after the test. */
export async function addressOf(t: Cleanup, server: Server): Promise<string> {
  if (!server.listening) await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** How many responses have each status. */
export function countStatuses(statuses: readonly number[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const status of statuses) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}
