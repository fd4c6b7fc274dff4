/**
 * Makes checks and fails if memory grows: `npm run bench:leak [MILLIONS]`, 10 million by default.
 * Keys repeat, so that the counters themselves do not grow.
 */
import { Tollgate } from "tollgate";

const CALLS = Number(process.argv[2] ?? 10) * 1_000_000;
const KEYS = Array.from({ length: 1_000 }, (_, index) => `user:${index}`);
/** Below the noise of V8 and of the allocator; a leak of 8 bytes per call would be 80 MB. */
const GROWTH_MAX_MB = 24;

const limiter = await Tollgate.inProcess({
  limits: [{ name: "api", algorithm: "token_bucket", capacity: 1_000, refillRate: "1000/s" }],
});

/** A hundredth of the calls waits for a promise, and a thousandth goes through a batch. */
async function ask(calls) {
  for (let call = 0; call < calls; call += 1) {
    const key = KEYS[call % KEYS.length];
    if (call % 1_000 === 1) await limiter.peek("api", key);
    else if (call % 100 === 2) (await limiter.check("api", key)).headers();
    else limiter.tryCheck("api", key)?.headers();
  }
}

function memoryMb() {
  for (let time = 0; time < 3; time += 1) globalThis.gc();
  const { rss, heapUsed, external } = process.memoryUsage();
  return [rss, heapUsed + external].map((bytes) => bytes / 1_048_576);
}

await ask(CALLS / 10);
const before = memoryMb();
await ask(CALLS);
const after = memoryMb();
await limiter.close();

const [rss, heap] = after.map((mb, index) => mb - before[index]);
console.log(`${CALLS} checks: ${rss.toFixed(1)} MB more resident, ${heap.toFixed(1)} MB more heap`);
if (Math.max(rss, heap) > GROWTH_MAX_MB) {
  console.error(`memory grew by more than ${GROWTH_MAX_MB} MB`);
  process.exit(1);
}
