import { NestFactory } from "@nestjs/core";
import { FastifyAdapter, type NestFastifyApplication } from "@nestjs/platform-fastify";
import type { FastifyReply } from "fastify";
import { testNest } from "./nest-app.js";

testNest({
  name: "nest on fastify",
  create: (module) => {
    const adapter = new FastifyAdapter({ forceCloseConnections: true });
    return NestFactory.create<NestFastifyApplication>(module, adapter, { logger: false });
  },
  send: (stream, response) => { void (response as FastifyReply).send(stream); },
});
