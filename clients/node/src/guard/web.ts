/** What the frameworks on `Request` and `Response` share. Nothing of Node is used. */
import type { Guard } from "../guard.js";
import type { Admission } from "./admission.js";
import { PROBLEM_JSON, type Denial } from "./denial.js";
import { writeHeaders, type HeaderSink } from "./headers.js";
import type { MaybePromise } from "./types.js";

/** Waits in the queue if a limit has one. */
export async function waitInQueue<R, S>(admission: Admission<R, S>): Promise<void> {
  const waitMs = admission.decision?.waitMs ?? 0;
  if (waitMs > 0) await new Promise((resolve) => { setTimeout(resolve, waitMs); });
}

/** What `guardWeb` guards. */
export interface Handler<R> {
  handle(admission: Admission<R, Response>): MaybePromise<Response>;
  onDenied(denial: Denial): MaybePromise<Response>;
  /** The status of the response that the framework makes of an error; 500 by default. */
  statusOf?(error: unknown): number | undefined;
}

/** Guards a handler that makes a response: admission before it, accounting after its body. */
export async function guardWeb<R>(
  guard: Guard<R, Response>,
  request: R,
  handler: Handler<R>,
): Promise<Response> {
  const admission = await guard.admit(request);
  if (!admission.allowed) {
    return withHeaders(await handler.onDenied(admission), admission.headers);
  }

  await waitInQueue(admission);
  try {
    const response = await handler.handle(admission);
    return await finishWithBody(admission, withHeaders(response, admission.headers));
  } catch (error) {
    const status = handler.statusOf?.(error) ?? 500;
    const response = new Response(null, { status });
    const finished = { status, aborted: false, response };
    await admission.finish(status < 400 ? finished : { ...finished, error });
    throw error;
  }
}

/** The response of a denied request: the problem document. */
export function denialResponse(denial: Denial): Response {
  return new Response(JSON.stringify(denial.problem), {
    status: denial.status,
    headers: { "content-type": PROBLEM_JSON },
  });
}

/** The response with the fields of a decision. It may be another one: some cannot be changed. */
export function withHeaders(response: Response, headers: Record<string, string>): Response {
  try {
    writeHeaders(headers, sinkOf(response));
    return response;
  } catch {
    const copy = new Response(response.body, response);
    writeHeaders(headers, sinkOf(copy));
    return copy;
  }
}

function sinkOf({ headers }: Response): HeaderSink {
  return {
    get: (name) => headers.get(name) ?? undefined,
    set: (name, value) => { headers.set(name, value); },
  };
}

/**
 * Finishes the admission when the body has been read to its end, or is cancelled. The end is passed
 * on after that: some runtimes stop a function once its response is complete.
 */
export async function finishWithBody<R>(
  admission: Admission<R, Response>,
  response: Response,
  error?: unknown,
): Promise<Response> {
  if (!admission.isOpen) return response;
  const finish = (aborted: boolean, failure: unknown = error) => {
    const ended = { status: response.status, aborted, response };
    return admission.finish(failure === undefined ? ended : { ...ended, error: failure });
  };
  if (response.body === null) {
    await finish(false);
    return response;
  }

  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (!done) {
          controller.enqueue(value);
          return;
        }
      } catch (failure) {
        await finish(true, failure);
        controller.error(failure);
        return;
      }
      await finish(false);
      controller.close();
    },
    async cancel(reason) {
      await Promise.all([reader.cancel(reason), finish(true)]);
    },
  });
  return new Response(body, response);
}
