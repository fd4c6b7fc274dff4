import { NestFactory } from "@nestjs/core";
import type { Response } from "express";
import { testNest } from "./nest-app.js";

testNest({
  name: "nest",
  create: (module) =>
    NestFactory.create(module, { logger: false, forceCloseConnections: true }),
  send: (stream, response) => { stream.pipe(response as Response); },
});
