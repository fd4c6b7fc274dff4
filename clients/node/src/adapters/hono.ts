/** Hono: `app.use(tollgate({ client, limits: "api" }))`. Runs on Workers, Bun, Deno and Node. */
import type { Context, MiddlewareHandler } from "hono";
import { Guard, type AdmittedRequest, type Denial, type GuardOptions } from "../guard.js";
import { denialResponse, finishWithBody, waitInQueue, withHeaders } from "../guard/web.js";

export * from "../guard.js";

declare module "hono" {
  interface ContextVariableMap {
    /** The decision about this request, and `report` for its actual cost. */
    tollgate: AdmittedRequest | undefined;
  }
}

export interface HonoOptions extends GuardOptions<Context, Response> {
  /** The address of the connection, where the runtime tells it in a way of its own. */
  peer?: (context: Context) => string | undefined;
  /** Answers a denied request; by default with a problem document. */
  onDenied?: (denial: Denial, context: Context) => Response | Promise<Response>;
}

/** Middleware that checks every request. The admission is `c.get("tollgate")`. */
export function tollgate(options: HonoOptions): MiddlewareHandler {
  const guard = new Guard<Context, Response>(options, {
    peer: (context) => (options.peer ?? connectionPeer)(context),
    header: (context, name) => context.req.header(name),
  }, ["peer", "onDenied"]);
  const onDenied = options.onDenied ?? denialResponse;

  return async (context, next) => {
    const admission = await guard.admit(context);
    if (!admission.allowed) {
      return withHeaders(await onDenied(admission, context), admission.headers);
    }

    context.set("tollgate", admission);
    await waitInQueue(admission);
    await next();

    const response = withHeaders(context.res, admission.headers);
    const finished = await finishWithBody(admission, response, context.error);
    // Hono merges headers into a response that replaces another one.
    context.res = undefined;
    context.res = finished;
    return undefined;
  };
}

/** The peer as @hono/node-server, Bun and Deno tell it. Workers do not know it. */
function connectionPeer(context: Context): string | undefined {
  const env = (context.env ?? {}) as {
    incoming?: { socket?: { remoteAddress?: string } };
    remoteAddr?: { hostname?: string };
    server?: { requestIP?: (request: Request) => { address: string } | null };
    requestIP?: (request: Request) => { address: string } | null;
  };
  const bun = env.server ?? env;
  return (
    env.incoming?.socket?.remoteAddress ??
    env.remoteAddr?.hostname ??
    bun.requestIP?.(context.req.raw)?.address
  );
}
