/** An application in Nest, on Express or on Fastify, and what both must do. */
import "reflect-metadata";
import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { test } from "node:test";
import { Catch, Controller, Get, Module, Req, Res } from "@nestjs/common";
import type { ArgumentsHost, ExceptionFilter, INestApplication, Type } from "@nestjs/common";
import { by, GuardError, RateLimit, SkipRateLimit } from "../../src/adapters/nest.js";
import { TollgateDeniedException, TollgateModule } from "../../src/adapters/nest.js";
import type { NestOptions, NestRequest } from "../../src/adapters/nest.js";
import { createTestLimiter } from "../../src/testing.js";
import { Tollgate } from "../../src/tollgate.js";
import type { Cleanup } from "../support/process.js";
import { startService } from "../support/service.js";
import { testFramework } from "./behaviour.js";
import { customDenial, LIMITS, type Framework, type Setup } from "./harness.js";
import { testPeers } from "./peers.js";

const API = { name: "api", algorithm: "fixed_window", limit: 5, window: "1h" } as const;

/** The server below Nest. */
export interface Platform {
  name: string;
  /** Creates the application of a module. */
  create(module: Type): Promise<INestApplication>;
  /** Sends a stream as the body of a response. */
  send(stream: Readable, response: unknown): void;
}

/** What the responses of both servers have. */
interface PlatformResponse {
  status(code: number): this;
  header(name: string, value: string): this;
  send(body: string): unknown;
}

/** Declares the tests of the adapter on this platform. */
export function testNest(platform: Platform): void {
  const framework: Framework = {
    name: platform.name,
    releases: "at once",
    start: (cleanup, setup) => {
      const { onDenied, ...options } = setup.options;
      const controllers = [controllerOf(platform, setup)];
      const filters = filtersOf(setup, onDenied !== undefined);
      return startApp(platform, cleanup, options, controllers, filters);
    },
  };
  testFramework(framework);
  testPeers(framework);
  testDecorators(platform);
}

async function startApp(
  platform: Platform,
  cleanup: Cleanup,
  options: NestOptions,
  controllers: Type[],
  filters: ExceptionFilter[] = [],
): Promise<string> {
  @Module({ imports: [TollgateModule.forRoot(options)], controllers })
  // eslint-disable-next-line @typescript-eslint/no-extraneous-class -- what a Nest module is
  class AppModule {}

  const app = await platform.create(AppModule);
  app.useGlobalFilters(...filters);
  await app.listen(0, "127.0.0.1");
  cleanup.after(() => app.close());
  return app.getUrl();
}

function controllerOf(platform: Platform, { hold, chunks, endless }: Setup): Type {
  @Controller()
  class AppController {
    @Get()
    hello(): string {
      return "hello";
    }

    @Get("fail")
    fail(): never {
      throw new Error("failed on purpose");
    }

    @Get("slow")
    async slow(): Promise<string> {
      await hold();
      return "slow";
    }

    @Get("stream")
    stream(@Req() request: NestRequest, @Res() response: unknown): void {
      platform.send(Readable.from(chunks(request.tollgate)), response);
    }

    @Get("endless")
    endless(@Req() request: NestRequest, @Res() response: unknown): void {
      platform.send(Readable.from(endless(request.tollgate)), response);
    }
  }
  return AppController;
}

function filtersOf({ onError }: Setup, isCustom: boolean): ExceptionFilter[] {
  const responseOf = (host: ArgumentsHost) => host.switchToHttp().getResponse<PlatformResponse>();

  @Catch(GuardError)
  class ErrorFilter implements ExceptionFilter<GuardError> {
    catch(error: GuardError, host: ArgumentsHost): void {
      onError(error);
      responseOf(host).status(500).send("failed");
    }
  }

  @Catch(TollgateDeniedException)
  class DenialFilter implements ExceptionFilter<TollgateDeniedException> {
    catch({ denial }: TollgateDeniedException, host: ArgumentsHost): void {
      const response = responseOf(host).status(denial.status).header("content-type", "text/html");
      response.send(customDenial(denial));
    }
  }
  return isCustom ? [new DenialFilter()] : [new ErrorFilter()];
}

function testDecorators(platform: Platform): void {
  test(`${platform.name}: wrong limits of decorators are found at the start`, async (t) => {
    @Controller()
    class Misspelt {
      @Get()
      @RateLimit("aip")
      hello(): string {
        return "hello";
      }
    }
    const [MisspeltClass, Right, Unlimited] = [[RateLimit("aip")], [RateLimit("api")], []].map(
      (decorators) => {
        class Empty {
          readonly isEmpty = true;
        }
        for (const decorate of [Controller(), ...decorators]) decorate(Empty);
        return Empty;
      },
    ) as [Type, Type, Type];

    const { limiter: client } = await createTestLimiter({ limits: [API] });
    t.after(() => client.close());
    const start = (options: NestOptions, controller: Type) =>
      startApp(platform, t, options, [controller]);
    for (const controller of [Misspelt, MisspeltClass]) {
      await assert.rejects(start({ client }, controller), /"aip"; did you mean "api"\?/);
    }
    await start({ client }, Right);
    await start({ client, limits: "api" }, Unlimited);
    const message = /`limits` must be limits of all routes, or be left out .*, but it is absent/;
    await assert.rejects(start({ client }, Unlimited), message);
  });

  const title = "limits of the module, the controller and the handler are asked at once";
  test(`${platform.name}: ${title}`, async (t) => {
    @Controller("reports")
    @RateLimit({ limit: "user", key: by.header("x-user") })
    class ReportsController {
      @Get()
      list(): string {
        return "list";
      }

      @Get("big")
      @RateLimit({ limit: "user", key: by.header("x-user"), cost: 4 }, "other")
      big(): string {
        return "big";
      }

      @Get("free")
      @SkipRateLimit("user")
      free(): string {
        return "free";
      }

      @Get("open")
      @SkipRateLimit()
      open(): string {
        return "open";
      }
    }

    const api = { ...LIMITS[0], limit: 100 };
    const other = { ...LIMITS[0], name: "other", limit: 1 };
    const limits = [api, LIMITS[1], other];
    const service = await startService(t, { config: { limits } });
    const client = new Tollgate({ url: service.url, timeoutMs: 5_000 });
    t.after(() => client.close());
    const url = await startApp(platform, t, { client, limits: "api" }, [ReportsController]);
    const get = (path: string) => fetch(`${url}/reports${path}`, { headers: { "x-user": "ann" } });
    const used = async (limit: string, key: string) =>
      (await client.peek(limit, key)).limits[0]?.used;

    const policies = async (path: string) => {
      const field = (await get(path)).headers.get("ratelimit") ?? "";
      return [...field.matchAll(/"([^"]+)"/g)].map(([, name]) => name);
    };
    assert.deepEqual(await policies("/big"), ["api", "user", "other"]);
    assert.equal(await used("user", "ann"), 4);

    const denied = await get("/big");
    assert.equal(denied.status, 429);
    assert.equal(denied.headers.get("content-type"), "application/problem+json");
    assert.equal(await used("api", "127.0.0.1"), 1, "a denied request is charged to no limit");
    assert.deepEqual(await policies(""), ["api", "user"]);
    assert.deepEqual(await policies("/free"), ["api"]);
    assert.deepEqual(await policies("/open"), []);
  });
}
