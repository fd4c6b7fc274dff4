/**
 * The columns `node` and `node-http` of the table of scenarios: the same request gets the same
 * decision, charge, numbers and metrics as through every other front
 * (crates/server/tests/service/scenarios.rs).
 */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import {
  type Decision,
  type Demand,
  type LimitOptions,
  Tollgate,
  TollgateError,
} from "../src/index.js";
import { open, skip } from "./support/native.js";
import { freePort } from "./support/ports.js";
import { temporaryDirectory } from "./support/process.js";
import { startRedis } from "./support/redis.js";
import { packageRoot, type Service, startService } from "./support/service.js";
import { until } from "./support/wait.js";

interface Step {
  do: string;
  cost?: number;
  actual?: number;
  tokens?: Record<string, number>;
  ttl?: string;
  with?: Record<string, string>;
  anonymous?: boolean;
  is: "allowed" | "denied" | "done" | "error";
  degraded?: boolean;
  told?: Record<string, [number, number]>;
  retry_s?: [number, number];
  charged?: number;
  reservation?: string;
  used?: Record<string, number>;
  counted?: string[];
}

interface Scenario {
  name: string;
  store?: "running" | "down" | "guarded";
  needs?: string[];
  user?: string;
  limits: (Record<string, unknown> & { name: string })[];
  inline?: LimitOptions;
  steps: Step[];
}

interface Table {
  tiers: object;
  cannot: Record<string, Record<string, string>>;
  pending: Record<string, string>;
  scenarios: Scenario[];
}

const TABLE_FILE = "../../crates/server/tests/service/scenarios/table.json";
const table = JSON.parse(readFileSync(join(packageRoot(), TABLE_FILE), "utf8")) as Table;

/** What a client sees of a step; `undefined` where it is not told. */
interface Seen {
  is: Step["is"];
  degraded?: boolean;
  told?: Record<string, [number, number]>;
  retryMs?: number | null;
  charged?: number;
  reservation?: string;
}

/** A column: a client, and what can be seen of the service behind it. */
interface Column {
  name: "node" | "node-http";
  limiter: Tollgate;
  /** Absent in the process, which has no page of metrics. */
  counts?: () => Promise<Record<string, number>>;
}

function configOf(scenarios: Scenario[], store: object, server: object): object {
  const limits = scenarios.flatMap(({ limits }) => limits);
  const keyed = limits.map((limit) => ({ key: ["header:x-user"], ...limit }));
  return { version: 1, tiers: table.tiers, store, server, limits: keyed };
}

async function serviceCounts(service: Service): Promise<Record<string, number>> {
  const page = await (await fetch(`${service.adminUrl}/metrics`)).text();
  const lines = page.matchAll(/^tollgate_decisions_total\{(.*)\} (\d+)$/gm);
  const counts = [...lines].map(([, labels = "", count]) => {
    const values = [...labels.matchAll(/"([^"]*)"/g)].map(([, value]) => value);
    return [values.join(" "), Number(count)] as const;
  });
  return Object.fromEntries(counts);
}

function decisionSeen(decision: Decision): Seen {
  const told = decision.limits.map(({ name, limit, remaining }) => [name, [limit, remaining]]);
  return {
    is: decision.allowed ? "allowed" : "denied",
    degraded: decision.degraded,
    told: Object.fromEntries(told) as Record<string, [number, number]>,
    retryMs: decision.retryAfterMs,
  };
}

/** Runs the steps of one scenario. */
class Run {
  readonly #limiter: Tollgate;
  readonly #demands: Demand[];
  readonly #user: string;
  #last: Decision | undefined;

  constructor(column: Column, scenario: Scenario) {
    this.#limiter = column.limiter;
    this.#user = scenario.user ?? `${scenario.name}-${column.name}`;
    const limits = scenario.inline === undefined ? scenario.limits : [scenario.inline];
    this.#demands = limits.map((limit) => ({
      limit: scenario.inline ?? limit.name,
      key: this.#user,
    }));
  }

  async call(step: Step): Promise<Seen> {
    try {
      return await this.#carryOut(step);
    } catch (error) {
      if (error instanceof TollgateError) return { is: "error" };
      throw error;
    }
  }

  async used(): Promise<Record<string, number | undefined>> {
    const peek = await this.#limiter.peek(this.#demands, { cost: 0 });
    return Object.fromEntries(peek.limits.map(({ name, used }) => [name, used]));
  }

  async #carryOut(step: Step): Promise<Seen> {
    const limiter = this.#limiter;
    const isAnonymous = step.anonymous === true;
    const demands = this.#demands.map((one) => (isAnonymous ? { ...one, key: "" } : one));
    const options = {
      ...(step.cost === undefined ? {} : { cost: step.cost }),
      ...(step.with === undefined ? {} : { attributes: step.with }),
    };
    switch (step.do) {
      case "check":
        return decisionSeen(await limiter.check(demands, options));
      case "acquire":
        return decisionSeen((this.#last = await limiter.acquire(demands, options)));
      case "reserve": {
        const more = {
          ...(step.ttl === undefined ? {} : { ttl: step.ttl }),
          ...(step.tokens === undefined ? {} : { tokens: step.tokens }),
        };
        return decisionSeen((this.#last = await limiter.reserve(demands, { ...options, ...more })));
      }
      case "settle": {
        const actual = step.tokens === undefined ? (step.actual ?? 0) : { tokens: step.tokens };
        return { is: "done", ...(await limiter.settle(this.#held(), actual)) };
      }
      case "cancel":
        return { is: "done", ...(await limiter.cancel(this.#held())) };
      case "release":
        return { is: (await limiter.release(this.#held())) ? "done" : "error" };
      case "count":
        await limiter.count(demands, options);
        return { is: "done" };
      case "refund":
        await limiter.refund(demands, options);
        return { is: "done" };
      case "garbage":
        return decisionSeen(await limiter.check(demands, { cost: "many" as unknown as number }));
      case "await":
        return { is: "done" };
      default:
        throw new Error(`the table says that Node cannot ${step.do}`);
    }
  }

  #held(): Decision {
    assert.ok(this.#last !== undefined, "a permit or a reservation");
    return this.#last;
  }
}

/** What differs from the step. */
function differences(seen: Seen, step: Step): string[] {
  const pairs: [string, unknown, unknown][] = [["is", seen.is, step.is]];
  if (seen.degraded !== undefined) pairs.push(["degraded", seen.degraded, step.degraded ?? false]);
  for (const name of ["told", "charged", "reservation"] as const) {
    if (seen[name] !== undefined && step[name] !== undefined) {
      pairs.push([name, seen[name], step[name]]);
    }
  }
  if (seen.retryMs !== undefined && step.retry_s !== undefined) {
    const [least, most] = step.retry_s;
    const seconds = Math.ceil((seen.retryMs ?? 0) / 1_000);
    const isRight = least <= seconds && seconds <= most;
    pairs.push(["retry", isRight ? step.retry_s : seconds, step.retry_s]);
  }
  return pairs
    .map(([name, found, expected]) => [name, JSON.stringify(found), JSON.stringify(expected)])
    .filter(([, found, expected]) => found !== expected)
    .map(([name, found, expected]) => `${name} ${found}, expected ${expected}`);
}

function newCounts(before: Record<string, number>, after: Record<string, number>): string[] {
  return Object.entries(after)
    .flatMap(([name, count]) => Array<string>(count - (before[name] ?? 0)).fill(name))
    .sort();
}

async function runScenario(column: Column, scenario: Scenario): Promise<string[]> {
  const run = new Run(column, scenario);
  const found: string[] = [];
  for (const [index, step] of scenario.steps.entries()) {
    const note = (text: string): number =>
      found.push(`${scenario.name} ${column.name} step ${index + 1}: ${text}`);
    const before = await column.counts?.();
    differences(await run.call(step), step).forEach(note);
    const after = await column.counts?.();
    if (before !== undefined && after !== undefined) {
      const counted = newCounts(before, after).join(", ");
      const expected = (step.counted ?? []).join(", ");
      if (counted !== expected) note(`counted ${counted}, expected ${expected}`);
    }
    if (step.used !== undefined) {
      const expected = JSON.stringify(step.used);
      const read = async (): Promise<string> => JSON.stringify(await run.used());
      if (step.do === "await") {
        await until("the reservation to end", async () => (await read()) === expected || undefined);
      }
      const used = await read();
      if (used !== expected) note(`used ${used}, expected ${expected}`);
    }
  }
  return found;
}

/** Runs every scenario that the column can express. */
async function runColumn(column: Column, scenarios: Scenario[]): Promise<void> {
  const cannot = table.cannot[column.name] ?? {};
  const runs = scenarios.filter(({ needs = [], steps }) =>
    [...needs, ...steps.map((step) => step.do)].every((feature) => cannot[feature] === undefined),
  );
  const found: string[] = [];
  for (const scenario of runs) found.push(...(await runScenario(column, scenario)));
  const isPending = (text: string): boolean =>
    Object.keys(table.pending).some((beginning) => text.startsWith(beginning));
  assert.deepEqual(found.filter((text) => !isPending(text)), []);
}

/** The scenarios of this state, and the store that they need. */
async function prepare(context: TestContext, state: string): Promise<[Scenario[], object]> {
  const wanted = state === "down" || state === "guarded" ? state : "running";
  const scenarios = table.scenarios.filter(({ store = "running" }) => store === wanted);
  if (state === "redis") {
    const { url } = await startRedis(context);
    return [scenarios, { type: "redis", endpoints: [url], timeout: "5s" }];
  }
  if (state === "down") {
    return [scenarios, { type: "redis", endpoints: [`redis://127.0.0.1:${await freePort()}`] }];
  }
  return [scenarios, { type: "memory" }];
}

for (const state of ["memory", "redis", "down"]) {
  test(`the scenarios in the process: ${state}`, { skip }, async (context) => {
    const [scenarios, store] = await prepare(context, state);
    const configFile = join(temporaryDirectory(context), "tollgate.yaml");
    writeFileSync(configFile, JSON.stringify(configOf(scenarios, store, {})));
    // It starts while the store is down, and need not say so on the console.
    const onWarning = (): void => undefined;
    const limiter = await open(context, { configFile, lazy: state === "down", onWarning });
    await runColumn({ name: "node", limiter }, scenarios);
  });
}

for (const state of ["memory", "redis", "down", "guarded"]) {
  test(`the scenarios over HTTP: ${state}`, async (context) => {
    const [scenarios, store] = await prepare(context, state);
    const tokens = state === "guarded" ? [{ name: "app", token: "a-token-of-the-test" }] : [];
    const config = configOf(scenarios, store, tokens.length === 0 ? {} : { tokens });
    const service = await startService(context, { config });
    if (state === "redis") {
      const isUp = async (): Promise<true | undefined> => {
        const page = await (await fetch(`${service.adminUrl}/metrics`)).text();
        return page.includes("\ntollgate_store_up 1") || undefined;
      };
      await until("the service to reach the store", isUp);
    }

    const limiter = new Tollgate({ url: service.url, timeoutMs: 10_000, token: "wrong" });
    context.after(() => limiter.close());
    const counts = (): Promise<Record<string, number>> => serviceCounts(service);
    await runColumn({ name: "node-http", limiter, counts }, scenarios);
  });
}
