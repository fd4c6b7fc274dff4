import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { getRequestListener } from "@hono/node-server";
import { Hono } from "hono";
import { stream } from "hono/streaming";
import { tollgate } from "../../src/adapters/hono.js";
import { Tollgate } from "../../src/tollgate.js";
import { packageRoot, startService } from "../support/service.js";
import { testFramework } from "./behaviour.js";
import { customDenial, listen, LIMITS, type Framework } from "./harness.js";
import { testPeers } from "./peers.js";

const framework: Framework = {
  name: "hono",
  releases: "after the handler",
  async start(cleanup, { options, onError, hold, chunks, endless }) {
    const { onDenied, ...shared } = options;
    const app = new Hono();
    app.onError((error, context) => {
      onError(error);
      return context.text("failed", 500);
    });
    app.use(
      tollgate({
        ...shared,
        ...(onDenied && {
          onDenied: (denial, context) => context.html(customDenial(denial), denial.status as 429),
        }),
      }),
    );

    app.get("/", (context) => context.text("hello"));
    app.get("/fail", () => { throw new Error("failed on purpose"); });
    app.get("/slow", async (context) => {
      await hold();
      return context.text("slow");
    });
    app.get("/stream", (context) =>
      stream(context, async (output) => {
        for await (const chunk of chunks(context.get("tollgate"))) await output.write(chunk);
      }),
    );
    app.get("/endless", (context) =>
      stream(context, async (output) => {
        for await (const chunk of endless(context.get("tollgate"))) await output.write(chunk);
      }),
    );
    return listen(cleanup, getRequestListener(app.fetch));
  },
};

testFramework(framework);
testPeers(framework);

test("hono: without a peer, a header of the platform names the client", async (t) => {
  const service = await startService(t, { config: { limits: LIMITS } });
  const client = new Tollgate({ url: service.url, timeoutMs: 5_000 });
  t.after(() => client.close());

  const appWith = (clientAddress: { header: string; proxyCount: number } | undefined) => {
    const app = new Hono();
    app.use(tollgate({ client, limits: "api", ...(clientAddress && { clientAddress }) }));
    app.get("/", (context) => context.text("hello"));
    app.onError((error, context) => context.text(error.message, 500));
    return async (address: string) => {
      const response = await app.request("/", { headers: { "cf-connecting-ip": address } });
      return { status: response.status, text: await response.text() };
    };
  };

  const onWorkers = appWith({ header: "cf-connecting-ip", proxyCount: 1 });
  for (const status of [200, 200, 429]) {
    assert.equal((await onWorkers("203.0.113.7")).status, status);
  }
  assert.equal((await onWorkers("203.0.113.8")).status, 200);

  const unconfigured = await appWith(undefined)("203.0.113.9");
  assert.equal(unconfigured.status, 500);
  assert.match(unconfigured.text, /proxyCount/);
});

test("hono: nothing that it loads needs Node", () => {
  const source = join(packageRoot(), "src");
  const filesIn = (folder: string) =>
    readdirSync(join(source, folder)).map((name) => `${folder}/${name}`);
  const own = ["adapters/hono.ts", "guard.ts", "client-address.ts"];
  for (const file of [...own, ...filesIn("guard"), ...filesIn("client-address")]) {
    const text = readFileSync(join(source, file), "utf8");
    assert.doesNotMatch(text, /^import (?!type)[^;]*"node:/m, file);
  }
});
