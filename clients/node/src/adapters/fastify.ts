/** Fastify 5: `app.register(tollgate, { client, limits: "api" })`. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { Guard, PROBLEM_JSON } from "../guard.js";
import type { AdmittedRequest, Denial, GuardOptions } from "../guard.js";
import { admitNode, nodeView } from "../guard/node.js";

export * from "../guard.js";

declare module "fastify" {
  interface FastifyRequest {
    /** The decision about this request, and `report` for its actual cost. */
    tollgate?: AdmittedRequest | undefined;
  }
  interface FastifyContextConfig {
    /** Limits of this route instead of those of the plugin; `false` for none. */
    tollgate?: false | Partial<GuardOptions<FastifyRequest, FastifyReply>>;
  }
}

export interface FastifyOptions extends GuardOptions<FastifyRequest, FastifyReply> {
  /** When to check: `preHandler` for keys that the body or the authentication provides. */
  hook?: "onRequest" | "preValidation" | "preHandler";
  /** Answers a denied request. The headers are already set; by default it is a problem document. */
  onDenied?: (denial: Denial, request: FastifyRequest, reply: FastifyReply) => unknown;
}

/** Beside those of the guard; Fastify itself reads the last three. */
const OWN_OPTIONS = ["hook", "onDenied", "prefix", "logLevel", "logSerializers"];

type FastifyGuard = Guard<FastifyRequest, FastifyReply>;

/** Plugin that checks every request of the instance on which it is registered. */
export function tollgate(
  instance: FastifyInstance,
  options: FastifyOptions,
  done: (error?: Error) => void,
): void {
  const guards = new WeakMap<object, FastifyGuard>();
  const whole = newGuard(options);
  const onDenied = options.onDenied ?? sendProblem;

  const guardOf = (request: FastifyRequest): FastifyGuard | undefined => {
    const own = request.routeOptions.config.tollgate;
    if (own === undefined) return whole;
    if (own === false) return undefined;
    let guard = guards.get(own);
    if (guard === undefined) guards.set(own, (guard = newGuard({ ...options, ...own })));
    return guard;
  };

  // Wrong options of a route are found when it is added, not when it is requested.
  instance.addHook("onRoute", ({ config }) => {
    const own = config?.tollgate;
    if (own) guards.set(own, newGuard({ ...options, ...own }));
  });
  if (!instance.hasRequestDecorator("tollgate")) instance.decorateRequest("tollgate", undefined);
  instance.addHook(options.hook ?? "onRequest", async (request, reply) => {
    const guard = guardOf(request);
    if (guard === undefined) return;

    const admission = await admitNode(guard, request, reply, reply.raw);
    if (admission === undefined) reply.hijack();
    else if (admission.allowed) request.tollgate = admission;
    else await onDenied(admission, request, reply);
  });
  done();
}

/** Fastify then adds the hook to the instance itself, not to a child of it. */
Object.assign(tollgate, { [Symbol.for("skip-override")]: true });

function newGuard(options: FastifyOptions): FastifyGuard {
  return new Guard<FastifyRequest, FastifyReply>(options, {
    peer: (request) => nodeView.peer(request.raw),
    header: (request, name) => nodeView.header(request.raw, name),
  }, OWN_OPTIONS);
}

function sendProblem(denial: Denial, _request: FastifyRequest, reply: FastifyReply): FastifyReply {
  // Fastify adds a charset to the type of a text, which JSON does not have.
  const body = Buffer.from(JSON.stringify(denial.problem));
  return reply.code(denial.status).header("content-type", PROBLEM_JSON).send(body);
}
