/** What the frameworks on `node:http` share. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Guard } from "../guard.js";
import type { Admission } from "./admission.js";
import type { Denial } from "./denial.js";
import { writeHeaders, type HeaderSink } from "./headers.js";
import type { MaybePromise, RequestView } from "./types.js";

/** The peer is that of the connection: what a framework makes of forwarding headers is not used. */
export const nodeView: RequestView<IncomingMessage> = {
  peer: (request) => request.socket.remoteAddress,
  header: (request, name) => request.headers[name],
};

/**
 * Admits a request, writes the headers, waits in the queue if a limit has one, and arranges for the
 * end of the response: that of the framework, with Node's below it. `undefined` if the client has
 * disconnected meanwhile.
 */
export function admitNode<R, S>(
  guard: Guard<R, S>,
  request: R,
  response: S,
  raw: ServerResponse,
): MaybePromise<Admission<R, S> | Denial | undefined> {
  const admission = guard.admit(request);
  return admission instanceof Promise
    ? admission.then((later) => arrange(later, response, raw))
    : arrange(admission, response, raw);
}

function arrange<R, S>(
  admission: Admission<R, S> | Denial,
  response: S,
  raw: ServerResponse,
): MaybePromise<Admission<R, S> | Denial | undefined> {
  if (!raw.headersSent) writeNodeHeaders(admission.headers, raw);
  if (!admission.allowed) return admission;

  if (admission.isOpen) finishWithResponse(admission, response, raw);
  const waitMs = admission.decision?.waitMs ?? 0;
  if (waitMs === 0) return raw.destroyed ? undefined : admission;
  const waited = waitUnlessClosed(raw, waitMs);
  return waited.then((isOpen) => (isOpen ? admission : undefined));
}

/** Writes the fields. There is nothing to join them with if no earlier guard wrote its own. */
function writeNodeHeaders(headers: Record<string, string>, raw: ServerResponse): void {
  const isFirst =
    raw.getHeader("ratelimit") === undefined &&
    raw.getHeader("ratelimit-policy") === undefined &&
    raw.getHeader("x-ratelimit-remaining") === undefined;
  if (!isFirst) {
    writeHeaders(headers, sinkOf(raw));
    return;
  }
  for (const name in headers) raw.setHeader(name, headers[name] as string);
}

function finishWithResponse<R, S>(
  admission: Admission<R, S>,
  response: S,
  raw: ServerResponse,
): void {
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
