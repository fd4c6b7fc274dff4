/** Koa: `app.use(tollgate({ client, limits: "api" }))`. */
import type { Context, Middleware } from "koa";
import { Guard, PROBLEM_JSON } from "../guard.js";
import type { Denial, GuardOptions, MaybePromise } from "../guard.js";
import { admitNode, nodeView } from "../guard/node.js";

export * from "../guard.js";

export interface KoaOptions extends GuardOptions<Context, Context> {
  /** Answers a denied request. The headers are already set; by default it is a problem document. */
  onDenied?: (denial: Denial, context: Context) => MaybePromise<void>;
}

/** Middleware that checks every request. The admission is `ctx.state.tollgate`. */
export function tollgate(options: KoaOptions): Middleware {
  const guard = new Guard<Context, Context>(options, {
    peer: (context) => nodeView.peer(context.req),
    header: (context, name) => nodeView.header(context.req, name),
  }, ["onDenied"]);
  const onDenied = options.onDenied ?? sendProblem;

  return async (context, next) => {
    const admission = await admitNode(guard, context, context, context.res);
    if (admission === undefined) {
      context.respond = false;
    } else if (admission.allowed) {
      context.state.tollgate = admission;
      await next();
    } else {
      await onDenied(admission, context);
    }
  };
}

function sendProblem(denial: Denial, context: Context): void {
  context.status = denial.status;
  context.set("content-type", PROBLEM_JSON);
  context.body = JSON.stringify(denial.problem);
}
