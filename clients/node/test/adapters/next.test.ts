// Next itself is built and requested in the examples; here its handlers run behind a plain server.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { getRequestListener } from "@hono/node-server";
import { NextRequest, type NextFetchEvent } from "next/server.js";
import { redirect } from "next/navigation.js";
import { DeniedError, GuardError, limitAction } from "../../src/adapters/next.js";
import { tollgateProxy, withTollgate } from "../../src/adapters/next.js";
import { Tollgate } from "../../src/tollgate.js";
import { startService } from "../support/service.js";
import { testFramework } from "./behaviour.js";
import { customDenial, listen, LIMITS, type Framework } from "./harness.js";

const CLIENT = "203.0.113.7";
const clientAddress = { proxyCount: 1 };

const framework: Framework = {
  name: "next",
  releases: "after the handler",
  headers: { "x-forwarded-for": CLIENT },
  clientAddress,
  async start(cleanup, { options, onError, hold, chunks, endless }) {
    const { onDenied, ...shared } = options;
    const denied = onDenied && {
      onDenied: (denial: Parameters<typeof customDenial>[0]) =>
        new Response(customDenial(denial), {
          status: denial.status,
          headers: { "content-type": "text/html" },
        }),
    };
    const handler = withTollgate(
      { ...shared, ...denied },
      async (request: NextRequest, _context: unknown, admitted) => {
        const path = request.nextUrl.pathname;
        if (path === "/fail") throw new Error("failed on purpose");
        if (path === "/slow") await hold();
        if (path !== "/stream" && path !== "/endless") return new Response("hello");
        const text = ReadableStream.from((path === "/stream" ? chunks : endless)(admitted));
        return new Response(text.pipeThrough(new TextEncoderStream()));
      },
    );

    // Next answers with status 500 to what a handler throws.
    const fetchCallback = async (request: Request) => {
      try {
        return await handler(new NextRequest(request.url, { headers: request.headers }), {});
      } catch (error) {
        onError(error);
        return new Response("failed", { status: 500 });
      }
    };
    return listen(cleanup, getRequestListener(fetchCallback));
  },
};

testFramework(framework);

async function startClient(t: TestContext): Promise<Tollgate> {
  const service = await startService(t, { config: { limits: LIMITS } });
  const client = new Tollgate({ url: service.url, timeoutMs: 5_000 });
  t.after(() => client.close());
  return client;
}

function request(list?: string): NextRequest {
  const headers: Record<string, string> = list === undefined ? {} : { "x-forwarded-for": list };
  return new NextRequest("http://localhost/", { headers });
}

const event = {} as NextFetchEvent;

test("next: a proxy lets requests through with headers, until they are denied", async (t) => {
  const client = await startClient(t);
  const proxy = tollgateProxy({ client, limits: "api", clientAddress });

  const passed = await proxy(request(`6.6.6.6, ${CLIENT}`), event);
  assert.equal(passed.headers.get("x-middleware-next"), "1");
  assert.equal(passed.headers.get("x-ratelimit-remaining"), "1");
  await proxy(request(`6.6.6.7, ${CLIENT}`), event);

  const denied = await proxy(request(`6.6.6.8, ${CLIENT}`), event);
  assert.equal(denied.status, 429);
  assert.equal(denied.headers.get("x-middleware-next"), null);
  assert.equal(denied.headers.get("content-type"), "application/problem+json");
  assert.notEqual(denied.headers.get("retry-after"), null);

  const other = await proxy(request("203.0.113.8"), event);
  assert.equal(other.headers.get("x-middleware-next"), "1");
});

test("next: without clientAddress the client is unknown, which is an error", async (t) => {
  const client = await startClient(t);
  const proxy = tollgateProxy({ client, limits: "api" });
  await assert.rejects(proxy(request(CLIENT), event), (error: Error) => {
    assert.ok(error instanceof GuardError);
    assert.match(error.message, /proxyCount/);
    return true;
  });
  const counted = tollgateProxy({ client, limits: "api", clientAddress });
  await assert.rejects(counted(request(), event), /does not name the client/);
});

test("next: a proxy refuses concurrency limits, and holds no permit", async (t) => {
  const client = await startClient(t);
  const limits = { limit: "in-flight", key: () => "ann" };
  const proxy = tollgateProxy({ client, limits });
  for (let attempt = 0; attempt < 3; attempt += 1) {
    await assert.rejects(proxy(request(), event), /use withTollgate/);
  }
  assert.equal((await client.peek("in-flight", "ann")).limits[0]?.inFlight, 0);
});

test("next: a server action is limited by its arguments and headers", async (t) => {
  const client = await startClient(t);
  const requestHeaders = () => new Headers({ "x-forwarded-for": CLIENT });
  const send = async (text: string) => Promise.resolve(`sent ${text}`);

  const byAddress = limitAction({ client, limits: "api", clientAddress, requestHeaders }, send);
  assert.equal(await byAddress("one"), "sent one");
  assert.equal(await byAddress("two"), "sent two");
  await assert.rejects(byAddress("three"), (error: Error) => {
    assert.ok(error instanceof DeniedError);
    assert.equal(error.denial.status, 429);
    return true;
  });

  const byArgument = limitAction(
    {
      client,
      limits: { limit: "user", key: ({ args }) => args[0], cost: 5 },
      requestHeaders,
      onDenied: (denial, text: string) => `${text}: ${denial.problem.detail}`,
    },
    send,
  );
  assert.equal(await byArgument("ann"), "sent ann");
  assert.match(await byArgument("ann"), /^ann: Limit "user" exceeded/);
  assert.equal(await byArgument("bob"), "sent bob");
});

test("next: a redirect is not a failure, an error is", async (t) => {
  const client = await startClient(t);
  const limits = { limit: "tokens", key: () => "ann" };
  const options = { client, limits, estimate: 40 };
  const used = async () => (await client.peek("tokens", "ann")).limits[0]?.used;

  const failing = withTollgate(options, () => { throw new Error("failed on purpose"); });
  await assert.rejects(failing(request(), {}));
  assert.equal(await used(), 0);

  const redirecting = withTollgate(options, () => redirect("/elsewhere"));
  await assert.rejects(redirecting(request(), {}));
  assert.equal(await used(), 40);
});
