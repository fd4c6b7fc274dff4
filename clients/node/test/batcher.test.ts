import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { test } from "node:test";
import { Batcher, type Carry, type Trip } from "../src/batcher.js";
import type { Answer, Operation } from "../src/engine.js";
import { UnavailableError } from "../src/errors.js";

/** A carrier whose batches the test answers. */
class Carrier {
  readonly batches: {
    requests: (Operation & { id: number })[];
    bytes: number;
    trip: Trip;
    answer(answers?: Answer[]): void;
    fail(error: Error): void;
  }[] = [];

  readonly carry: Carry = (body, trip) =>
    new Promise((resolve, reject) => {
      const { requests } = JSON.parse(body) as { requests: (Operation & { id: number })[] };
      this.batches.push({
        requests,
        bytes: Buffer.byteLength(body),
        trip,
        answer: (answers = requests.map(({ id }) => ({ status: 200, body: { id } }))) => {
          resolve(answers);
        },
        fail: reject,
      });
    });

  get ids(): number[][] {
    return this.batches.map((batch) => batch.requests.map(({ id }) => id));
  }
}

const operation = (id: number, more: object = {}): Operation => ({ op: "check", id, ...more });
/** Everything that was scheduled before has run. */
const turn = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(() => setImmediate(resolve));
  });

test("what is asked in the same moment leaves together and is answered in order", async () => {
  const carrier = new Carrier();
  const batcher = new Batcher(carrier.carry, { inFlightMax: 1 });
  const answers = [1, 2, 3].map((id) => batcher.ask(operation(id)));
  assert.deepEqual(carrier.ids, []);
  await turn();
  assert.deepEqual(carrier.ids, [[1, 2, 3]]);
  carrier.batches[0]?.answer();
  assert.deepEqual((await Promise.all(answers)).map((answer) => answer.body.id), [1, 2, 3]);
});

test("operations wait for their turn if too many are under way", async () => {
  const carrier = new Carrier();
  const options = { inFlightMax: 8, operationsMax: 2 };
  const batcher = new Batcher(carrier.carry, options);
  const answers = [1, 2, 3, 4, 5, 6, 7].map((id) => batcher.ask(operation(id)));
  await turn();
  assert.deepEqual(carrier.ids, [[1, 2]]);
  carrier.batches[0]?.answer();
  await turn();
  assert.deepEqual(carrier.ids, [[1, 2], [3, 4]]);
  // The owner may change the bound.
  options.operationsMax = 4;
  carrier.batches[1]?.answer();
  await turn();
  assert.deepEqual(carrier.ids, [[1, 2], [3, 4], [5, 6, 7]]);
  carrier.batches[2]?.answer();
  await Promise.all(answers);
});

test("what is asked while batches are under way waits for the next one", async () => {
  const carrier = new Carrier();
  const batcher = new Batcher(carrier.carry, { inFlightMax: 2 });
  const answers: Promise<Answer>[] = [];
  for (const id of [1, 2, 3, 4]) {
    answers.push(batcher.ask(operation(id)));
    await turn();
  }
  assert.deepEqual(carrier.ids, [[1], [2]]);

  carrier.batches[1]?.answer();
  await answers[1];
  await turn();
  assert.deepEqual(carrier.ids, [[1], [2], [3, 4]]);
  carrier.batches[0]?.answer();
  carrier.batches[2]?.answer();
  await Promise.all(answers);
});

test("a batch has at most 256 operations and 60,000 bytes", async () => {
  const many = new Carrier();
  const counted = new Batcher(many.carry, { inFlightMax: 9 });
  for (let id = 0; id < 600; id += 1) void counted.ask(operation(id));
  await turn();
  assert.deepEqual(many.ids.map((ids) => ids.length), [256, 256, 88]);
  assert.deepEqual(many.ids.flat(), Array.from({ length: 600 }, (_, id) => id));

  // Three bytes per character in UTF-8.
  const long = new Carrier();
  const sized = new Batcher(long.carry, { inFlightMax: 9 });
  for (let id = 0; id < 5; id += 1) void sized.ask(operation(id, { key: "€".repeat(8_000) }));
  await turn();
  assert.deepEqual(long.ids, [[0, 1], [2, 3], [4]]);
  for (const { bytes } of long.batches) assert.ok(bytes < 65_536);

  // One that is too long for the service leaves alone, so that its error is its own.
  const huge = new Carrier();
  const alone = new Batcher(huge.carry, { inFlightMax: 9 });
  for (let id = 0; id < 3; id += 1) {
    void alone.ask(operation(id, { key: "x".repeat(id === 1 ? 70_000 : 1) }));
  }
  await turn();
  assert.deepEqual(huge.ids, [[0], [1], [2]]);
});

test("an error of the batch is one of each operation, and the next batch leaves", async () => {
  const carrier = new Carrier();
  const batcher = new Batcher(carrier.carry, { inFlightMax: 1 });
  const answers = [1, 2].map((id) => batcher.ask(operation(id)));
  await turn();
  carrier.batches[0]?.fail(new Error("refused"));
  for (const answer of answers) await assert.rejects(answer, /refused/);

  const next = batcher.ask(operation(3));
  await turn();
  carrier.batches[1]?.answer([]);
  await assert.rejects(next, { code: "bad-response", detail: "0 answers to 1 operations" });
});

test("the deadline ends the wait, gives the batch up and drops a late answer", async () => {
  const sent: string[] = [];
  const trips: Trip[] = [];
  let aborts = 0;
  let answerLate: () => void = () => undefined;
  let second: Promise<unknown> | undefined;
  const carry: Carry = (body, trip) => {
    sent.push(body);
    trips.push(trip);
    if (sent.length > 1) return Promise.resolve([{ status: 200, body: { id: 3 } }]);

    // The first batch is never answered in time. What is asked meanwhile waits for it.
    second = Promise.allSettled([batcher.ask(operation(2))]);
    trip.abort = () => {
      aborts += 1;
    };
    return new Promise((resolve) => {
      answerLate = () => {
        resolve([{ status: 200, body: { id: 1 } }]);
      };
    });
  };
  const batcher = new Batcher(carry, { inFlightMax: 1, timeoutMs: 5 });

  await assert.rejects(batcher.ask(operation(1)), (error) => {
    assert.ok(error instanceof UnavailableError);
    assert.equal(error.code, "timeout");
    assert.equal(error.detail, "no answer within 5 ms");
    return true;
  });
  assert.deepEqual([aborts, trips[0]?.isAborted], [1, true]);
  const [expired] = (await second) as PromiseSettledResult<unknown>[];
  assert.equal(expired?.status, "rejected");

  // The second operation expired before it could leave, so it is never sent.
  answerLate();
  assert.equal((await batcher.ask(operation(3))).body.id, 3);
  assert.equal(sent.length, 2);
  assert.deepEqual(JSON.parse(sent[1] ?? ""), { headers: true, requests: [operation(3)] });
});

test("an answer that arrived while the event loop was blocked is not late", async (context) => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const near = connect((server.address() as AddressInfo).port, "127.0.0.1");
  const [far] = (await once(server, "connection")) as [Socket];
  context.after(() => {
    near.destroy();
    far.destroy();
    server.close();
  });

  // The answer is written before the pause. After it, the timer of the deadline is due first.
  const carry: Carry = () =>
    new Promise((resolve) => {
      near.once("data", () => {
        resolve([{ status: 200, body: {} }]);
      });
      far.write("answer");
      const end = performance.now() + 30;
      while (performance.now() < end);
    });
  const batcher = new Batcher(carry, { inFlightMax: 1, timeoutMs: 10 });
  assert.equal((await batcher.ask(operation(1))).status, 200);
});

test("more operations than may wait are turned away at once", async () => {
  const carrier = new Carrier();
  const batcher = new Batcher(carrier.carry, { inFlightMax: 1, waitingMax: 2 });
  void batcher.ask(operation(1));
  void batcher.ask(operation(2));
  await assert.rejects(batcher.ask(operation(3)), { code: "overloaded" });
  await turn();
  const answer = batcher.ask(operation(4));
  carrier.batches[0]?.answer();
  await turn();
  carrier.batches[1]?.answer();
  assert.equal((await answer).body.id, 4);
});

test("a batcher is drained when nothing waits or is under way", { timeout: 60_000 }, async () => {
  const carrier = new Carrier();
  const batcher = new Batcher(carrier.carry, { inFlightMax: 1, timeoutMs: 5 });
  await batcher.drained();

  // Both expire: the first one under way, the second one while it waits.
  const first = Promise.allSettled([batcher.ask(operation(1))]);
  await turn();
  const second = Promise.allSettled([batcher.ask(operation(2))]);
  let isDrained = false;
  const drained = batcher.drained().then(() => {
    isDrained = true;
  });
  await Promise.all([first, second]);
  await turn();
  assert.equal(isDrained, false);
  carrier.batches[0]?.answer();
  await drained;
});
