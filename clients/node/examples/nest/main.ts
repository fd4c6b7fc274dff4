// Nest 11 with limits in the process: in memory, or in Redis if REDIS_URL is set. The guard asks
// all limits of a route at once: they pass together, or nothing is charged.
//
//   npx tsc -p nest && node ../dist/examples/nest/main.js
//   curl -i -H 'x-user: ann' http://127.0.0.1:3000/
import "reflect-metadata";
import { Controller, Get, HttpCode, Module, Post } from "@nestjs/common";
import type { OnApplicationShutdown } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { Tollgate } from "tollgate";
import { by, RateLimit, SkipRateLimit, TollgateModule } from "tollgate/nest";

const { PORT = "3000", REDIS_URL } = process.env;

const limiter = await Tollgate.inProcess({
  ...(REDIS_URL !== undefined && { redis: REDIS_URL }),
  limits: [
    { name: "api", algorithm: "sliding_window", limit: 5, window: "1h" },
    { name: "export", algorithm: "fixed_window", limit: 1, window: "1h" },
  ],
});

@Controller()
class AppController {
  @Get()
  hello() {
    return { hello: "world" };
  }

  /** Needs a unit of `api` and one of `export`. */
  @Post("export")
  @HttpCode(202)
  @RateLimit({ limit: "export", key: by.header("x-user"), onMissingKey: 401 })
  export() {
    return { export: "started" };
  }

  @Get("health")
  @SkipRateLimit()
  health() {
    return { ok: true };
  }
}

@Module({
  imports: [
    TollgateModule.forRoot({
      client: limiter,
      limits: { limit: "api", key: by.header("x-user"), onMissingKey: 401 },
    }),
  ],
  controllers: [AppController],
})
class AppModule implements OnApplicationShutdown {
  async onApplicationShutdown() {
    await limiter.close();
  }
}

const app = await NestFactory.create(AppModule, { logger: ["error", "warn"] });
app.enableShutdownHooks();
await app.listen(Number(PORT), "127.0.0.1");
console.log(`listening on ${await app.getUrl()}`);
