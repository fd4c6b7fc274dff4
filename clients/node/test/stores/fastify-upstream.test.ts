import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

import { packageRoot } from "../support/service.js";
import { service } from "./setup.js";

test("the tests of @fastify/rate-limit for its Redis store pass with ours", async () => {
  const hook = pathToFileURL(join(import.meta.dirname, "fastify-upstream-hook.js")).href;
  const tests = "node_modules/@fastify/rate-limit/test/redis-rate-limit.test.js";
  const env: NodeJS.ProcessEnv = { ...process.env, TOLLGATE_URL: service.url };
  // Otherwise it would report to this test's runner, in a format of its own.
  delete env.NODE_TEST_CONTEXT;
  const child = spawn(process.execPath, ["--import", hook, "--test-reporter=tap", tests], {
    cwd: packageRoot(),
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });

  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  const [code] = (await once(child, "close")) as [number | null];

  assert.equal(code, 0, output);
  assert.match(output, /^# fail 0$/m, output);
  assert.doesNotMatch(output, /^# pass 0$/m, output);
});
