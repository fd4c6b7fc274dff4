/** What the frameworks on `node:http` share. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Guard } from "../guard.js";
import type { Admission } from "./admission.js";
import { then } from "./demands.js";
import type { Denial } from "./denial.js";
import { writeHeaders, type HeaderSink } from "./headers.js";
import type { MaybePromise, RequestView } from "./types.js";

/** The response of a framework, and the one of Node below it. */
export interface Exchange<S> {
  response: S;
  raw: ServerResponse;
}

/** The peer is that of the connection: what a framework makes of forwarding headers is not used. */
export const nodeView: RequestView<IncomingMessage> = {
  peer: (request) => request.socket.remoteAddress,
  header: (request, name) => request.headers[name],
};

/**
 * Admits a request, writes the headers, waits in the queue if a limit has one, and arranges for the
 * end of the response. `undefined` if the client has disconnected meanwhile.
 */
export function admitNode<R, S>(
  guard: Guard<R, S>,
  request: R,
  exchange: Exchange<S>,
): MaybePromise<Admission<R, S> | Denial | undefined> {
  return then(guard.admit(request), (admission) => {
    if (!exchange.raw.headersSent) writeHeaders(admission.headers, sinkOf(exchange.raw));
    if (!admission.allowed) return admission;

    if (admission.isOpen) finishWithResponse(admission, exchange);
    const waitMs = admission.decision?.waitMs ?? 0;
    if (waitMs === 0) return exchange.raw.destroyed ? undefined : admission;
    const waited = waitUnlessClosed(exchange.raw, waitMs);
    return waited.then((isOpen) => (isOpen ? admission : undefined));
  });
}

function finishWithResponse<R, S>(admission: Admission<R, S>, exchange: Exchange<S>): void {
  const { response, raw } = exchange;
  const finish = (aborted: boolean) => {
    void admission.finish({ status: raw.statusCode, aborted, response });
  };
  if (raw.destroyed) {
    finish(true);
    return;
  }
  raw.once("finish", () => { finish(false); });
  raw.once("close", () => { finish(!raw.writableFinished); });
}

/** False if the response was closed before the time was over. */
function waitUnlessClosed(raw: ServerResponse, waitMs: number): Promise<boolean> {
  if (raw.destroyed) return Promise.resolve(false);
  return new Promise((resolve) => {
    const closed = () => {
      clearTimeout(timer);
      resolve(false);
    };
    const timer = setTimeout(() => {
      raw.off("close", closed);
      resolve(true);
    }, waitMs);
    raw.once("close", closed);
  });
}

function sinkOf(raw: ServerResponse): HeaderSink {
  return {
    get: (name) => {
      const value = raw.getHeader(name);
      return value === undefined ? undefined : String(value);
    },
    set: (name, value) => { raw.setHeader(name, value); },
  };
}
