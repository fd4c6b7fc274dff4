/**
 * Measures calls without an application: prints the nanoseconds per call of the subject that the
 * first argument names, measured for the milliseconds of the second.
 */
import { MemoryStore } from "express-rate-limit";
import { RateLimiterMemory } from "rate-limiter-flexible";
import { Tollgate } from "tollgate";

const [subject, milliseconds] = process.argv.slice(2);
const KEY = "203.0.113.7";
const LIMIT = 1_000_000_000;

const limit = (name) => ({
  name,
  algorithm: "token_bucket",
  capacity: LIMIT,
  refillRate: "10000000/s",
});

const inProcess = () => Tollgate.inProcess({ limits: [limit("api"), limit("user")] });

/** For each subject, a function that makes `calls` calls. */
const SUBJECTS = {
  async "tryCheck, memory"() {
    const limiter = await inProcess();
    return (calls) => {
      for (let call = 0; call < calls; call += 1) {
        if (!limiter.tryCheck("api", KEY)?.allowed) throw new Error("denied");
      }
    };
  },
  async "check, memory"() {
    const limiter = await inProcess();
    return async (calls) => {
      for (let call = 0; call < calls; call += 1) {
        if (!(await limiter.check("api", KEY)).allowed) throw new Error("denied");
      }
    };
  },
  async "check of two limits, memory"() {
    const limiter = await inProcess();
    const demands = ["api", "user"].map((name) => ({ limit: name, key: KEY }));
    return async (calls) => {
      for (let call = 0; call < calls; call += 1) {
        if (!(await limiter.check(demands)).allowed) throw new Error("denied");
      }
    };
  },
  "rate-limiter-flexible, memory"() {
    const limiter = new RateLimiterMemory({ points: LIMIT, duration: 1 });
    return async (calls) => {
      for (let call = 0; call < calls; call += 1) await limiter.consume(KEY);
    };
  },
  "express-rate-limit's store, memory"() {
    const store = new MemoryStore();
    store.init({ windowMs: 1_000 });
    return async (calls) => {
      for (let call = 0; call < calls; call += 1) await store.increment(KEY);
    };
  },
};

const round = await SUBJECTS[subject]();
const CALLS = 1_000;
await round(20 * CALLS);

const start = process.hrtime.bigint();
const end = start + BigInt(milliseconds) * 1_000_000n;
let calls = 0;
let now = start;
while (now < end) {
  await round(CALLS);
  calls += CALLS;
  now = process.hrtime.bigint();
}
console.log(Number(now - start) / calls);
process.exit(0);
