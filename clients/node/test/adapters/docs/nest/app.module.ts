import { Controller, Get, Module, Post, type OnApplicationShutdown } from "@nestjs/common";
import { by, RateLimit, SkipRateLimit, TollgateModule } from "../../../../src/adapters/nest.js";
import { client } from "./limiter.js";

@Controller()
class AppController {
  @Get() // "api"
  hello() {
    return "hello";
  }

  @Post("export") // "api" and "export" at once
  @RateLimit({ limit: "export", key: by.header("x-user"), onMissingKey: 401 })
  export() {
    return "started";
  }

  @Get("healthz") // none
  @SkipRateLimit()
  health() {
    return "ok";
  }
}

@Module({
  imports: [TollgateModule.forRoot({ client, limits: "api" })],
  controllers: [AppController],
})
export class AppModule implements OnApplicationShutdown {
  async onApplicationShutdown() {
    await client.close();
  }
}
