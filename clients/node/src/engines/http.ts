/** The engine that asks the service over HTTP. */
import { Batcher, type Carry, type Trip } from "../batcher.js";
import { errorFrom } from "../decision.js";
import type { Answer, Engine, Operation } from "../engine.js";
import { TollgateError, UnavailableError } from "../errors.js";
import { badOption } from "../option-names.js";
import { hasRequestContexts } from "../runtime.js";
import { shown } from "../shown.js";
import { fetchPost } from "./fetch.js";
import { reasonOf } from "./no-response.js";
import { nodePost } from "./node-http.js";

/** A response of the service. */
export interface HttpResponse {
  status: number;
  body: string;
}

/** Sends one request. Rejects if there is no response, for instance because it was aborted. */
export interface Post {
  (body: string, trip: Trip): Promise<HttpResponse>;
  /** Closes connections. */
  close(): void;
}

export interface HttpEngineOptions {
  /** The address of the service, such as `http://127.0.0.1:8080`. */
  url: string;
  /** Sent as `Authorization: Bearer ..`. */
  token?: string | undefined;
  /** How long an operation may take, from the moment it is asked. */
  timeoutMs?: number | undefined;
}

/** Two batches under way, so that one is decided while the next one is on its way. */
const IN_FLIGHT_MAX = 2;
const TIMEOUT_MS = 50;
/** How long to look for the reason why there was no answer in time. */
const PATIENCE_MS = 5_000;

export class HttpEngine implements Engine {
  readonly #post: Post;
  readonly #timeoutMs: number;
  readonly #url: URL;
  #batcher: Batcher | undefined;
  #isClosed = false;

  constructor(options: HttpEngineOptions) {
    this.#url = batchUrl(options.url);
    this.#timeoutMs = validTimeout(options.timeoutMs ?? TIMEOUT_MS);
    const headers: Record<string, string> = { "content-type": "application/json" };
    if (options.token !== undefined) headers.authorization = `Bearer ${options.token}`;

    // Kept connections belong to the request that opened them.
    const kept = hasRequestContexts ? undefined : nodePost(this.#url, headers, IN_FLIGHT_MAX);
    this.#post = kept ?? fetchPost(this.#url, headers);
  }

  send(operation: Operation): Promise<Answer> {
    if (this.#batcher === undefined) {
      this.#batcher = this.#newBatcher(this.#timeoutMs);
      // What is asked before this runs belongs to the same request.
      if (hasRequestContexts) queueMicrotask(() => (this.#batcher = undefined));
    }
    return this.#batcher.ask(operation);
  }

  async whyUnavailable(): Promise<string | undefined> {
    // What is left of a request must not go on there after its end.
    if (hasRequestContexts) return undefined;
    try {
      await this.#newBatcher(PATIENCE_MS).ask({ op: "limits" });
    } catch (error) {
      if (!this.#isClosed && error instanceof TollgateError) return error.detail;
    }
    return undefined;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#batcher?.drained();
    this.#post.close();
  }

  #newBatcher(timeoutMs: number): Batcher {
    const carry: Carry = (body, trip) => this.#carry(body, trip);
    return new Batcher(carry, { timeoutMs, inFlightMax: IN_FLIGHT_MAX });
  }

  async #carry(body: string, trip: Trip): Promise<Answer[]> {
    let response: HttpResponse;
    try {
      response = await this.#post(body, trip);
    } catch (cause) {
      const detail = `no response from ${this.#url.origin}: ${reasonOf(cause, this.#url)}`;
      throw new UnavailableError({ code: "no-response", detail, cause });
    }
    return answersFrom(response, this.#url);
  }
}

/** The answers of a response, or the error that it is for every operation of the batch. */
function answersFrom(response: HttpResponse, url: URL): Answer[] {
  const { status } = response;

  // The service sends these without a body if the head of the request is not valid HTTP.
  if (response.body === "" && [400, 414, 431].includes(status)) {
    const detail = "the request is not valid HTTP";
    throw new TollgateError({ code: "bad-request", detail, status });
  }

  const body = parsed(response.body);
  if (body === undefined) {
    const detail = `the response of ${url.href} has status ${status} and is not a JSON object`;
    throw new UnavailableError({ code: "bad-response", detail, status });
  }
  if (status !== 200) throw errorFrom(status, body);
  if (!Array.isArray(body.answers) || !body.answers.every(isAnswer)) {
    const detail = `the response of ${url.href} has no answers: ${shown(body)}`;
    throw new UnavailableError({ code: "bad-response", detail, status });
  }
  return body.answers;
}

function isAnswer(value: unknown): value is Answer {
  const answer = value as Partial<Answer> | null;
  return typeof answer?.status === "number" && typeof answer.body === "object";
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value as Record<string, unknown>;
  } catch {
    // Not from the service: a proxy's page, or half a response.
  }
  return undefined;
}

function batchUrl(text: unknown): URL {
  let url: URL | undefined;
  try {
    url = new URL(String(text));
  } catch {
    // Reported below, with what was found.
  }
  if (url?.protocol !== "http:" && url?.protocol !== "https:") {
    const right = 'the address of the service, such as "http://127.0.0.1:8080"';
    throw badOption(`url must be ${right}, but it is ${shown(text)}`);
  }
  url.pathname = `${url.pathname.replace(/\/+$/, "")}/v1/batch`;
  return url;
}

function validTimeout(timeoutMs: unknown): number {
  const isValid = typeof timeoutMs === "number" && timeoutMs > 0 && timeoutMs <= 600_000;
  if (isValid) return timeoutMs;
  const right = "a number of milliseconds above 0, at most 600000";
  throw badOption(`timeoutMs must be ${right}, but it is ${shown(timeoutMs)}`);
}
