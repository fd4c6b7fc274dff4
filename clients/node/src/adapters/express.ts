/** Express 4 and 5: `app.use(tollgate({ client, limits: "api" }))`. */
import type { NextFunction, Request, RequestHandler, Response } from "express";
import { Guard, PROBLEM_JSON } from "../guard.js";
import type { Admission, AdmittedRequest, Denial } from "../guard.js";
import type { GuardOptions, MaybePromise } from "../guard.js";
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
  const guard = new Guard<Request, Response>(options, nodeView, ["onDenied"]);
  const onDenied = options.onDenied ?? sendProblem;

  const conclude = (
    admission: Admission<Request, Response> | Denial | undefined,
    request: Request,
    response: Response,
    next: NextFunction,
  ): MaybePromise<void> => {
    if (admission === undefined) return;
    if (!admission.allowed) return onDenied(admission, request, response);
    request.tollgate = admission;
    next();
  };

  return (request, response, next) => {
    try {
      const admission = admitNode(guard, request, response, response);
      const concluded =
        admission instanceof Promise
          ? admission.then((later) => conclude(later, request, response, next))
          : conclude(admission, request, response, next);
      if (concluded instanceof Promise) concluded.catch(next);
    } catch (error) {
      next(error);
    }
  };
}

function sendProblem(denial: Denial, _request: Request, response: Response): void {
  response.status(denial.status).setHeader("content-type", PROBLEM_JSON);
  response.end(JSON.stringify(denial.problem));
}
