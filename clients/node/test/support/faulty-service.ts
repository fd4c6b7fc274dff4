/** A server in place of the service, for responses and failures that the service rarely shows. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import type { Cleanup } from "./process.js";

export interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
  /** The operations of the batch. */
  requests: Record<string, unknown>[];
  /** Answers each operation with this status and body. */
  answerAll: (status: number, body: object, headers?: Record<string, string>) => void;
}

/** The address of a server that handles each batch like this. */
export async function startFaultyService(
  cleanup: Cleanup,
  handle: (exchange: Exchange) => void,
): Promise<string> {
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const { requests } = JSON.parse(body) as { requests: Record<string, unknown>[] };
      const answerAll: Exchange["answerAll"] = (status, answer, headers) => {
        const answers = requests.map(() => ({ status, body: answer, headers }));
        response.end(JSON.stringify({ answers }));
      };
      handle({ request, response, requests, answerAll });
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  cleanup.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** The body of a check that is allowed. */
export const ALLOWED = {
  allowed: true,
  source: "store",
  degraded: false,
  wait_ms: 0,
  limits: [{ name: "api", limit: 5, remaining: 4, reset_after_ms: 1, retry_after_ms: null }],
};
