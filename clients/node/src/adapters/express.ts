/** Express 4 and 5: `app.use(tollgate({ client, limits: "api" }))`. */
import type { Request, RequestHandler, Response } from "express";
import { Guard, PROBLEM_JSON } from "../guard.js";
import type { AdmittedRequest, Denial, GuardOptions, MaybePromise } from "../guard.js";
import { then } from "../guard/demands.js";
import { admitNode, nodeView } from "../guard/node.js";

export * from "../guard.js";

declare global {
  // eslint-disable-next-line @typescript-eslint/no-namespace -- how Express types are extended
  namespace Express {
    interface Request {
      /** The decision about this request, and `report` for its actual cost. */
      tollgate?: AdmittedRequest;
    }
  }
}

export interface ExpressOptions extends GuardOptions<Request, Response> {
  /** Answers a denied request. The headers are already set; by default it is a problem document. */
  onDenied?: (denial: Denial, request: Request, response: Response) => MaybePromise<void>;
}

/** Middleware that checks every request. Errors of configuration go to the error handler. */
export function tollgate(options: ExpressOptions): RequestHandler {
  const guard = new Guard<Request, Response>(options, nodeView);
  const onDenied = options.onDenied ?? sendProblem;

  return (request, response, next) => {
    const proceed = () =>
      then(admitNode(guard, request, { response, raw: response }), (admission) => {
        if (admission === undefined) return;
        if (!admission.allowed) return onDenied(admission, request, response);
        request.tollgate = admission;
        next();
      });
    try {
      const pending = proceed();
      if (pending instanceof Promise) pending.catch(next);
    } catch (error) {
      next(error);
    }
  };
}

function sendProblem(denial: Denial, _request: Request, response: Response): void {
  response.status(denial.status).setHeader("content-type", PROBLEM_JSON);
  response.end(JSON.stringify(denial.problem));
}
