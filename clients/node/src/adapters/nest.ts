/** Nest 11: a module, a guard that asks all limits of a route at once, and decorators. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Catch, HttpException, Inject, Injectable, Module, SetMetadata } from "@nestjs/common";
import type { ArgumentsHost, CanActivate, DynamicModule } from "@nestjs/common";
import type { ExceptionFilter, ExecutionContext, OnModuleInit } from "@nestjs/common";
import { APP_FILTER, APP_GUARD, MetadataScanner, ModulesContainer, Reflector } from "@nestjs/core";
import { Guard, PROBLEM_JSON, requireGuardOptions } from "../guard.js";
import type { AdmittedRequest, Denial, GuardLimit, GuardOptions } from "../guard.js";
import type { RequestView } from "../guard.js";
import { valueFor } from "../guard/demands.js";
import { admitNode, nodeView } from "../guard/node.js";
import { badOption } from "../option-names.js";
import { shown } from "../shown.js";

export * from "../guard.js";

/** A request of Express or Fastify; `raw` is that of Node below a Fastify request. */
export type NestRequest = IncomingMessage & {
  raw?: IncomingMessage;
  /** The decision about this request, and `report` for its actual cost. */
  tollgate?: AdmittedRequest;
  [member: string]: unknown;
};

/** A response of Express or Fastify. */
export type NestResponse = ServerResponse & {
  raw?: ServerResponse;
  status(code: number): unknown;
  header(name: string, value: string): unknown;
  send(body: Uint8Array): unknown;
};

export interface NestOptions extends Omit<GuardOptions<NestRequest, NestResponse>, "limits"> {
  /** Limits of all routes. Those of decorators are asked together with them. */
  limits?: GuardOptions<NestRequest, NestResponse>["limits"];
  /** Whether the guard applies to every route of the application. Default: true. */
  global?: boolean;
}

const OWN_OPTIONS = ["global"];

type NestLimit = string | GuardLimit<NestRequest, NestResponse>;
type NestGuard = Guard<NestRequest, NestResponse>;

export const TOLLGATE_OPTIONS = Symbol("TOLLGATE_OPTIONS");
const LIMITS = Symbol("tollgate limits");
const SKIPPED = Symbol("tollgate skipped limits");

/** Adds limits to a controller or a handler. One of the same name takes the place of an outer. */
export const RateLimit = (...limits: NestLimit[]) => SetMetadata(LIMITS, limits);

/** Exempts a controller or a handler from these limits, or from all. */
export const SkipRateLimit = (...names: string[]) => SetMetadata(SKIPPED, names);

/** A denied request, for exception filters. Its response is a problem document. */
export class TollgateDeniedException extends HttpException {
  constructor(readonly denial: Denial) {
    super(denial.problem, denial.status);
  }
}

/** Sends problem documents. Nest itself would send them as `application/json`. */
@Catch(TollgateDeniedException)
export class TollgateDeniedFilter implements ExceptionFilter<TollgateDeniedException> {
  catch(exception: TollgateDeniedException, host: ArgumentsHost): void {
    const response = host.switchToHttp().getResponse<NestResponse>();
    response.status(exception.getStatus());
    response.header("content-type", PROBLEM_JSON);
    response.send(Buffer.from(JSON.stringify(exception.denial.problem)));
  }
}

/** Asks all limits of a route at once: they pass together, or nothing is charged. */
@Injectable()
export class TollgateGuard implements CanActivate {
  readonly #guards = new Map<unknown, Map<unknown, NestGuard | undefined>>();

  constructor(
    @Inject(TOLLGATE_OPTIONS) private readonly options: NestOptions,
    @Inject(Reflector) private readonly reflector: Reflector,
  ) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const guard = this.#guardOf(context);
    if (guard === undefined) return true;

    const { request, response } = this.exchange(context);
    const raw = response.raw ?? response;
    const admission = await admitNode(guard, request, response, raw);
    if (admission === undefined) return false;
    if (!admission.allowed) throw new TollgateDeniedException(admission);
    request.tollgate = admission;
    return true;
  }

  /** Where the request and the response are; override it for GraphQL. */
  protected exchange(context: ExecutionContext): { request: NestRequest; response: NestResponse } {
    const http = context.switchToHttp();
    return { request: http.getRequest(), response: http.getResponse() };
  }

  /** The guard of a route; `undefined` if it has no limits. Routes are known and few. */
  #guardOf(context: ExecutionContext): NestGuard | undefined {
    const [handler, controller] = [context.getHandler(), context.getClass()];
    const ofHandler = this.#guards.get(handler) ?? new Map<unknown, NestGuard | undefined>();
    if (!ofHandler.has(controller)) {
      ofHandler.set(controller, this.#newGuard(context));
      this.#guards.set(handler, ofHandler);
    }
    return ofHandler.get(controller);
  }

  #newGuard(context: ExecutionContext): NestGuard | undefined {
    const places = [context.getClass(), context.getHandler()];
    const own = this.reflector.getAll<(NestLimit[] | undefined)[]>(LIMITS, places);
    const skips = this.reflector.getAll<(string[] | undefined)[]>(SKIPPED, places);
    const decorated = own.flatMap((limits) => limits ?? []);
    const skipped = skips.filter((names) => names !== undefined);
    const { limits } = this.options;

    const isExempt = skipped.some((names) => names.length === 0);
    if (isExempt || (limits === undefined && decorated.length === 0)) return undefined;

    const merge = (outer: NestLimit | readonly NestLimit[]) =>
      merged([...[outer].flat(), ...decorated], new Set(skipped.flat()));
    const isFunction = typeof limits === "function";
    const all: NestOptions["limits"] = isFunction
      ? async (request, context) => merge(await valueFor(limits, request, context))
      : merge(limits ?? []);
    if (Array.isArray(all) && all.length === 0) return undefined;

    return newGuard({ ...this.options, limits: all });
  }
}

/** Finds wrong limits of decorators when the application starts, not at the first request. */
@Injectable()
export class TollgateDecorators implements OnModuleInit {
  constructor(
    @Inject(TOLLGATE_OPTIONS) private readonly options: NestOptions,
    @Inject(Reflector) private readonly reflector: Reflector,
    @Inject(ModulesContainer) private readonly modules: ModulesContainer,
  ) {}

  onModuleInit(): void {
    const decorated = [...this.#places()].flatMap((place) => {
      const limits = this.reflector.get<NestLimit[] | undefined>(LIMITS, place) ?? [];
      return limits.length === 0 ? [] : [limits];
    });
    for (const limits of decorated) newGuard({ ...this.options, limits });
    if (this.options.limits === undefined && decorated.length === 0) throw noLimits("absent");
  }

  /** The classes whose methods may handle requests, and these methods. */
  *#places(): Generator<PlaceOfDecorator> {
    const scanner = new MetadataScanner();
    for (const { controllers, providers } of this.modules.values()) {
      for (const { metatype } of [...controllers.values(), ...providers.values()]) {
        if (typeof metatype !== "function") continue;
        yield metatype;
        const prototype = metatype.prototype as Record<string, unknown> | undefined;
        for (const name of scanner.getAllMethodNames(prototype ?? null)) {
          yield prototype?.[name] as PlaceOfDecorator;
        }
      }
    }
  }
}

type PlaceOfDecorator = Parameters<Reflector["get"]>[1];

function noLimits(found: string): Error {
  const right = "limits of all routes, or be left out if limits are named by @RateLimit";
  return badOption(`the option \`limits\` must be ${right}, but it is ${found}`);
}

function newGuard(options: GuardOptions<NestRequest, NestResponse>): NestGuard {
  const view: RequestView<NestRequest> = {
    peer: (request) => nodeView.peer(request.raw ?? request),
    header: (request, name) => nodeView.header(request.raw ?? request, name),
  };
  return new Guard<NestRequest, NestResponse>(options, view, OWN_OPTIONS);
}

/** Later limits replace earlier ones of the same name. */
function merged(limits: NestLimit[], skipped: ReadonlySet<string>): NestLimit[] {
  const byName = new Map(limits.map((limit) => [nameOf(limit), limit]));
  return [...byName].filter(([name]) => !skipped.has(name)).map(([, limit]) => limit);
}

function nameOf(limit: NestLimit): string {
  if (typeof limit === "string") return limit;
  return typeof limit.limit === "string" ? limit.limit : limit.limit.name;
}

/** `TollgateModule.forRoot({ client, limits: ["api"] })` guards the whole application. */
@Module({})
// eslint-disable-next-line @typescript-eslint/no-extraneous-class -- what a Nest module is
export class TollgateModule {
  static forRoot(options: NestOptions): DynamicModule {
    // Wrong options are found now, not by the first request.
    requireGuardOptions(options, OWN_OPTIONS);
    if ("limits" in options && options.limits == null) throw noLimits(shown(options.limits));
    newGuard({ ...options, limits: options.limits ?? (() => []) });
    const isGlobal = options.global ?? true;
    const guard = isGlobal ? [{ provide: APP_GUARD, useClass: TollgateGuard }] : [];
    return {
      module: TollgateModule,
      global: true,
      providers: [
        { provide: TOLLGATE_OPTIONS, useValue: options },
        { provide: APP_FILTER, useClass: TollgateDeniedFilter },
        TollgateGuard,
        TollgateDecorators,
        ...guard,
      ],
      exports: [TOLLGATE_OPTIONS, TollgateGuard],
    };
  }
}
