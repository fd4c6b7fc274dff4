/** An application in each framework, and a client whose calls a test can wait for. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { by, type AdmittedRequest, type Denial, type GuardOptions } from "../../src/guard.js";
import { Tollgate } from "../../src/tollgate.js";
import type { Cleanup } from "../support/process.js";
import { startService, type Service } from "../support/service.js";

export const LIMITS = [
  { name: "api", key: ["client_ip"], algorithm: "fixed_window", limit: 2, window: "1h" },
  { name: "user", key: ["user"], algorithm: "fixed_window", limit: 5, window: "1h" },
  { name: "in-flight", key: ["user"], algorithm: "concurrency", limit: 1, permit_timeout: "5m" },
  { name: "tokens", key: ["user"], algorithm: "token_bucket", capacity: 100, refill_rate: "1/h" },
  {
    ...{ name: "queue", key: ["user"], algorithm: "leaky_bucket", mode: "queue" },
    ...{ capacity: 10, leak_rate: "20/s" },
  },
];

/** The key of most tests, and a request that has it. */
export const user = by.header("x-user");
export const ann = { "x-user": "ann" };

/** Options that mean the same in every framework. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- each framework has its own types
export type SharedOptions = Omit<GuardOptions<any, any>, "client"> & {
  onDenied?: "custom";
};

/** What a framework's application is made of. */
export interface Setup {
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- each framework has its own types
  options: GuardOptions<any, any> & { onDenied?: "custom" };
  /** The error handler of the application calls this, and answers with status 500. */
  onError: (error: unknown) => void;
  /** `GET /slow` waits for this before it answers. */
  hold: () => Promise<void>;
  /** `GET /stream` sends these chunks, and reports a running total of 3, 5 and 7. */
  chunks: (admitted: AdmittedRequest | undefined) => AsyncGenerator<string>;
  /** `GET /endless` sends these chunks: one that costs 3, and no other. */
  endless: (admitted: AdmittedRequest | undefined) => AsyncGenerator<string>;
}

export interface Framework {
  name: string;
  /** When a permit is released after the client has disconnected. */
  releases: "at once" | "after the handler";
  /** Headers of every request, where the framework does not know the peer. */
  headers?: Record<string, string>;
  clientAddress?: GuardOptions<unknown, unknown>["clientAddress"];
  /**
   * An application with `GET /` ("hello"), `/fail` (throws), `/slow`, `/stream` and `/endless`.
   * What it answers with `onDenied: "custom"` is `customDenial`. Resolves with its address.
   */
  start: (cleanup: Cleanup, setup: Setup) => Promise<string>;
}

export function customDenial(denial: Denial): string {
  return `<h1>Slow down</h1>${denial.problem.detail}`;
}

/** A client that tells when a call has been carried out. */
export class WatchedClient {
  readonly #waiting: { method: string; resolve: () => void }[] = [];
  readonly #calls: string[] = [];

  constructor(readonly real: Tollgate) {}

  check = this.#watched("check");
  refund = this.#watched("refund");
  reserve = this.#watched("reserve");
  settle = this.#watched("settle");
  cancel = this.#watched("cancel");
  release = this.#watched("release");

  get tryCheck(): Tollgate["tryCheck"] {
    return this.real.tryCheck.bind(this.real);
  }

  /** Resolves when this method has been carried out; a call answers one wait. */
  async done(method: string): Promise<void> {
    const index = this.#calls.indexOf(method);
    if (index >= 0) this.#calls.splice(index, 1);
    else await new Promise<void>((resolve) => this.#waiting.push({ method, resolve }));
  }

  /** The calls that no test has waited for. */
  calls(method: string): number {
    return this.#calls.filter((call) => call === method).length;
  }

  #watched<M extends "check" | "refund" | "reserve" | "settle" | "cancel" | "release">(method: M) {
    const call = async (...args: unknown[]): Promise<unknown> => {
      const target = this.real[method] as (...args: unknown[]) => Promise<unknown>;
      try {
        return await target.apply(this.real, args);
      } finally {
        const index = this.#waiting.findIndex((waiting) => waiting.method === method);
        if (index >= 0) this.#waiting.splice(index, 1)[0]?.resolve();
        else this.#calls.push(method);
      }
    };
    return call as unknown as Tollgate[M];
  }
}

/** A running application with its own service. */
export class TestApp {
  readonly errors: unknown[] = [];
  /** Resolves when a request of `/slow` has reached the handler. */
  readonly entered: Promise<void>;
  url = "";
  #enter: () => void = () => undefined;
  #leave: () => void = () => undefined;
  readonly #left: Promise<void>;

  private constructor(
    readonly framework: Framework,
    readonly service: Service,
    readonly client: WatchedClient,
  ) {
    this.entered = new Promise((resolve) => (this.#enter = resolve));
    this.#left = new Promise((resolve) => (this.#leave = resolve));
  }

  static async start(
    cleanup: Cleanup,
    framework: Framework,
    options: SharedOptions,
    onUnavailable: "allow" | "deny" = "allow",
  ): Promise<TestApp> {
    const service = await startService(cleanup, { config: { limits: LIMITS } });
    const real = new Tollgate({ url: service.url, timeoutMs: 5_000, onUnavailable });
    cleanup.after(() => real.close());
    const client = new WatchedClient(real);

    const app = new TestApp(framework, service, client);
    cleanup.after(() => { app.leave(); });
    const { clientAddress } = framework;
    app.url = await framework.start(cleanup, {
      options: { client, ...(clientAddress !== undefined && { clientAddress }), ...options },
      onError: (error) => app.errors.push(error),
      hold: () => app.#hold(),
      chunks,
      endless: (admitted) => app.#endless(admitted),
    });
    return app;
  }

  /** Lets requests of `/slow` end. */
  leave(): void {
    this.#leave();
  }

  get(path = "/", headers: Record<string, string> = {}, signal?: AbortSignal): Promise<Response> {
    const all = { ...this.framework.headers, ...headers };
    return fetch(this.url + path, { headers: all, ...(signal && { signal }) });
  }

  /** Statuses of requests, one after another. */
  async statuses(...requests: [path?: string, headers?: Record<string, string>][]) {
    const statuses: number[] = [];
    for (const request of requests) {
      const response = await this.get(...request);
      await response.text();
      statuses.push(response.status);
    }
    return statuses;
  }

  /** Units that a user has used of a limit. */
  async used(limit: string, key = "ann"): Promise<number | undefined> {
    const peek = await this.client.real.peek(limit, key);
    return peek.limits[0]?.used ?? peek.limits[0]?.inFlight;
  }

  async *#endless(admitted: AdmittedRequest | undefined): AsyncGenerator<string> {
    admitted?.report(3);
    yield "one ";
    await this.#hold();
  }

  async #hold(): Promise<void> {
    this.#enter();
    await this.#left;
  }
}

async function* chunks(admitted: AdmittedRequest | undefined): AsyncGenerator<string> {
  for (const [text, total] of [["one ", 3], ["two ", 5], ["three", 7]] as const) {
    admitted?.report(total);
    await Promise.resolve();
    yield text;
  }
}

type Listener = (request: IncomingMessage, response: ServerResponse) => unknown;

/** Declares tests that run with an application of this framework. */
export function checker(framework: Framework) {
  return (
    title: string,
    options: SharedOptions,
    run: (app: TestApp) => Promise<void>,
    onUnavailable?: "allow" | "deny",
  ) =>
    test(`${framework.name}: ${title}`, { timeout: 60_000 }, async (t) => {
      await run(await TestApp.start(t, framework, options, onUnavailable));
    });
}

/** Starts a server of `node:http` on a free port. */
export async function listen(cleanup: Cleanup, listener: Listener): Promise<string> {
  const server = createServer((request, response) => void listener(request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  cleanup.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
