import "reflect-metadata";
import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { test } from "node:test";
import { Catch, Controller, Get, Module, Req, Res } from "@nestjs/common";
import type { ArgumentsHost, ExceptionFilter, Type } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import type { Response as ExpressResponse } from "express";
import { by, GuardError, RateLimit, SkipRateLimit } from "../../src/adapters/nest.js";
import { TollgateDeniedException, TollgateModule } from "../../src/adapters/nest.js";
import type { NestOptions, NestRequest } from "../../src/adapters/nest.js";
import { Tollgate } from "../../src/tollgate.js";
import type { Cleanup } from "../support/process.js";
import { startService } from "../support/service.js";
import { testFramework } from "./behaviour.js";
import { customDenial, LIMITS, type Framework, type Setup } from "./harness.js";
import { testPeers } from "./peers.js";

async function startApp(
  cleanup: Cleanup,
  options: NestOptions,
  controllers: Type[],
  filters: ExceptionFilter[] = [],
): Promise<string> {
  @Module({ imports: [TollgateModule.forRoot(options)], controllers })
  // eslint-disable-next-line @typescript-eslint/no-extraneous-class -- what a Nest module is
  class AppModule {}

  const app = await NestFactory.create(AppModule, { logger: false, forceCloseConnections: true });
  app.useGlobalFilters(...filters);
  await app.listen(0, "127.0.0.1");
  cleanup.after(() => app.close());
  return app.getUrl();
}

function controllerOf({ hold, chunks, endless }: Setup): Type {
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
    stream(@Req() request: NestRequest, @Res() response: ExpressResponse): void {
      Readable.from(chunks(request.tollgate)).pipe(response);
    }

    @Get("endless")
    endless(@Req() request: NestRequest, @Res() response: ExpressResponse): void {
      Readable.from(endless(request.tollgate)).pipe(response);
    }
  }
  return AppController;
}

function filtersOf({ onError, options }: Setup): ExceptionFilter[] {
  const responseOf = (host: ArgumentsHost) => host.switchToHttp().getResponse<ExpressResponse>();

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
      responseOf(host).status(denial.status).send(customDenial(denial));
    }
  }
  return options.onDenied === undefined ? [new ErrorFilter()] : [new DenialFilter()];
}

const framework: Framework = {
  name: "nest",
  releases: "at once",
  start: (cleanup, setup) => {
    const options = { ...setup.options, onDenied: undefined };
    return startApp(cleanup, options, [controllerOf(setup)], filtersOf(setup));
  },
};

testFramework(framework);
testPeers(framework);

test("nest: limits of the module, the controller and the handler are asked at once", async (t) => {
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
  const url = await startApp(t, { client, limits: "api" }, [ReportsController]);
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
