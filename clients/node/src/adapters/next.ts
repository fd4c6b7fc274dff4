/**
 * Next 15 and 16: `proxy.ts` (before: middleware), route handlers and server actions. Next does not
 * tell the address of the connection, so `clientAddress` must say how proxies name the client.
 */
import { NextResponse, type NextFetchEvent, type NextRequest } from "next/server.js";
import { Guard, GuardError } from "../guard.js";
import type { AdmittedRequest, Denial, GuardOptions, MaybePromise } from "../guard.js";
import { denialResponse, guardWeb, waitInQueue, withHeaders } from "../guard/web.js";

export * from "../guard.js";

export interface RouteOptions extends GuardOptions<NextRequest, Response> {
  /** Answers a denied request; by default with a problem document. */
  onDenied?: (denial: Denial, request: NextRequest) => MaybePromise<Response>;
}

/** A proxy returns before the response is made: what needs its end belongs to a route handler. */
export interface ProxyOptions extends Omit<RouteOptions, "refund" | "estimate" | "settle"> {
  /** What the proxy does with requests that pass; by default it lets them through. */
  next?: (request: NextRequest, event: NextFetchEvent) => MaybePromise<Response>;
}

const view = {
  peer: () => undefined,
  header: (request: { headers: Headers }, name: string) => request.headers.get(name) ?? undefined,
};

/** For `proxy.ts`: `export const proxy = tollgateProxy({ client, limits, clientAddress })`. */
export function tollgateProxy(
  options: ProxyOptions,
): (request: NextRequest, event: NextFetchEvent) => Promise<Response> {
  const guard = new Guard<NextRequest, Response>(options, view, ["next", "onDenied"]);
  const next = options.next ?? (() => NextResponse.next());
  const onDenied = options.onDenied ?? denialResponse;

  return async (request, event) => {
    const admission = await guard.admit(request);
    if (!admission.allowed) {
      return withHeaders(await onDenied(admission, request), admission.headers);
    }
    if (admission.isOpen) {
      const response = new Response(null);
      await admission.finish({ status: 200, aborted: true, response });
      throw new GuardError(
        "a proxy cannot hold permits, because it does not see the end of the response: " +
          "use withTollgate in the route handler for concurrency limits",
      );
    }
    await waitInQueue(admission);
    return withHeaders(await next(request, event), admission.headers);
  };
}

/** For `route.ts`: `export const POST = withTollgate({ client, limits, .. }, handler)`. */
export function withTollgate<C>(
  options: RouteOptions,
  handler: (request: NextRequest, context: C, admitted: AdmittedRequest) => MaybePromise<Response>,
): (request: NextRequest, context: C) => Promise<Response> {
  const guard = new Guard<NextRequest, Response>(options, view, ["onDenied"]);
  const onDenied = options.onDenied ?? denialResponse;

  return (request, context) =>
    guardWeb(guard, request, {
      handle: (admission) => handler(request, context, admission),
      onDenied: (denial) => onDenied(denial, request),
      statusOf: statusOfError,
    });
}

/** A call of a server action: what key functions see. */
export interface ActionCall<A extends readonly unknown[]> {
  headers: Headers;
  args: A;
}

export interface ActionOptions<A extends readonly unknown[], T>
  extends GuardOptions<ActionCall<A>, T | undefined> {
  /** What a denied call returns. By default it throws a `DeniedError`. */
  onDenied?: (denial: Denial, ...args: A) => MaybePromise<T>;
  /** The headers of the request; by default those of `next/headers`. */
  requestHeaders?: () => MaybePromise<Headers>;
}

/** A server action was denied. */
export class DeniedError extends Error {
  override readonly name = "DeniedError";

  constructor(readonly denial: Denial) {
    super(denial.problem.detail);
  }
}

/** For server actions: `export const send = limitAction({ client, limits, .. }, action)`. */
export function limitAction<A extends readonly unknown[], T>(
  options: ActionOptions<A, T>,
  action: (...args: A) => Promise<T>,
): (...args: A) => Promise<T> {
  const own = ["onDenied", "requestHeaders"];
  const guard = new Guard<ActionCall<A>, T | undefined>(options, view, own);
  const requestHeaders = options.requestHeaders ?? nextHeaders;

  return async (...args) => {
    const headers = await requestHeaders();
    const admission = await guard.admit({ headers, args });
    if (!admission.allowed) {
      if (options.onDenied === undefined) throw new DeniedError(admission);
      return options.onDenied(admission, ...args);
    }

    await waitInQueue(admission);
    try {
      const response = await action(...args);
      await admission.finish({ status: 200, aborted: false, response });
      return response;
    } catch (error) {
      const status = statusOfError(error) ?? 500;
      const finished = { status, aborted: false, response: undefined };
      await admission.finish(status < 400 ? finished : { ...finished, error });
      throw error;
    }
  };
}

/** Loaded when it is needed: only Next has it, and only on the server. */
async function nextHeaders(): Promise<Headers> {
  const { headers } = await import("next/headers.js");
  return headers();
}

/** `redirect()` and `notFound()` throw; the digest says which status Next makes of it. */
function statusOfError(error: unknown): number | undefined {
  const digest = (error as { digest?: unknown } | undefined)?.digest;
  if (typeof digest !== "string") return undefined;
  const status = /^NEXT_(?:REDIRECT;.*;(\d{3});|HTTP_ERROR_FALLBACK;(\d{3})$)/.exec(digest);
  return status === null ? undefined : Number(status[1] ?? status[2]);
}
