/** The example with four cluster workers. */
import assert from "node:assert/strict";
import { Agent, get } from "node:http";
import type { TestContext } from "node:test";
import { startExample } from "./examples.js";

/** Checks that the workers together admit exactly what the limit allows. */
export async function checkCluster(t: TestContext, env: NodeJS.ProcessEnv): Promise<void> {
  const app = await startExample(t, "examples/express-cluster.mjs", env);

  const agent = new Agent({ keepAlive: true, maxSockets: 128 });
  t.after(() => { agent.destroy(); });
  const ask = (): Promise<{ status: number; text: string }> =>
    new Promise((done, fail) => {
      get(app.url, { agent, headers: { "x-api-key": "ann" } }, (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (part: string) => (text += part));
        response.on("end", () => { done({ status: response.statusCode ?? 0, text }); });
      }).on("error", fail);
    });
  const responses = await Promise.all(Array.from({ length: 10_000 }, ask));

  const admitted = responses.filter(({ status }) => status === 200);
  const denied = responses.filter(({ status }) => status === 429);
  assert.deepEqual([admitted.length, denied.length], [1_000, 9_000]);
  const workers = new Set(admitted.map(({ text }) => text));
  assert.equal(workers.size, 4, "every worker admits some requests");

  const other = await fetch(app.url, { headers: { "x-api-key": "bob" } });
  assert.equal(other.status, 200);
  assert.equal((await fetch(app.url)).status, 401);
  agent.destroy();
  assert.equal(await app.stop(), 0);
}
