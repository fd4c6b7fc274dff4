// What is known: the limits, the last minutes of each, and how the service is. Knows no element of the page.

export const SAMPLES_MAX = 900;
const MINUTE_MS = 60_000;
/** A limit's numbers, in the order in which they are told. */
export const ALLOWED = 0, DENIED = 1, SHADOW = 2, SOURCES_AT = 3;
const NUMBERS = 8;

const empty = () => Array.from({ length: NUMBERS }, () => new Float64Array(SAMPLES_MAX));

export class Model {
  constructor() {
    this.sources = [];
    this.limits = new Map();
    this.rules = new Map();
    this.now = null;
    this.forget();
  }

  /** Begins anew, as a stream does. */
  forget() {
    this.is_live = false;
    this.length = 0;
    this.next = 0;
    this.samples = new Array(SAMPLES_MAX).fill(null);
    this.all = empty();
    for (const limit of this.limits.values()) limit.series = empty();
  }

  takeLimits({ sources, limits }) {
    this.sources = sources;
    const before = this.limits;
    this.limits = new Map(limits.map(({ id, name, said }) => {
      const series = before.get(id)?.series ?? empty();
      return [id, { id, name, said, series }];
    }));
  }

  takeSample({ rows, ...sample }) {
    const slot = this.next;
    this.next = (slot + 1) % SAMPLES_MAX;
    this.length = Math.min(this.length + 1, SAMPLES_MAX);
    const before = this.sample(1);
    sample.seconds = before ? Math.max((sample.t - before.t) / 1000, 0.2) : 1;
    this.samples[slot] = sample;
    for (let number = 0; number < NUMBERS; number++) this.all[number][slot] = 0;
    for (const { series } of this.limits.values()) series.forEach((numbers) => { numbers[slot] = 0; });
    for (const [id, ...said] of rows) {
      const limit = this.limits.get(id);
      said.forEach((more, number) => {
        this.all[number][slot] += more;
        if (!limit) return;
        limit.series[number][slot] += more;
        // The past is part of what a limit had said when it was told.
        if (this.is_live) limit.said[number] += more;
      });
    }
  }

  takeNow(now) {
    this.now = now;
    this.is_live = true;
  }

  /** The slot of a sample, 0 being the last. */
  slot(back) {
    return (this.next - 1 - back + 2 * SAMPLES_MAX) % SAMPLES_MAX;
  }

  sample(back) {
    return back < this.length ? this.samples[this.slot(back)] : null;
  }

  /** Numbers of a series per second in the last sample, or over a few of them so that the eye can follow. */
  rate(series, number, over = 3) {
    let sum = 0, seconds = 0;
    for (let back = 0; back < Math.min(over, this.length); back++) {
      sum += series[number][this.slot(back)];
      seconds += this.sample(back).seconds;
    }
    return seconds ? sum / seconds : 0;
  }

  /** Sums of a series over the last minute, in the order of its numbers. */
  lastMinute(series) {
    const sums = new Array(NUMBERS).fill(0);
    const last = this.sample(0);
    for (let back = 0; back < this.length; back++) {
      const slot = this.slot(back);
      if (last.t - this.samples[slot].t >= MINUTE_MS) break;
      for (let number = 0; number < NUMBERS; number++) sums[number] += series[number][slot];
    }
    return sums;
  }

  /** The times within which decisions of the last few seconds were made, weighted by how many there were. */
  times() {
    let decisions = 0, p50 = 0, p99 = 0;
    for (let back = 0; back < Math.min(10, this.length); back++) {
      const { n, ...sample } = this.sample(back);
      decisions += n;
      p50 += sample.p50 * n;
      p99 = Math.max(p99, n ? sample.p99 : 0);
    }
    return decisions ? { p50: p50 / decisions, p99 } : null;
  }

  /** When limits answered by their failure policies: from, to, and how long in all. The last one first. */
  degradedPeriods() {
    const periods = [];
    let open = null;
    for (let back = 0; back < this.length; back++) {
      const { t, degraded, seconds } = this.sample(back);
      if (degraded > 0) {
        open ??= periods[periods.push({ from: t, to: t, ms: 0 }) - 1];
        open.from = t - Math.min(seconds * 1000, degraded);
        open.ms += degraded;
      } else {
        open = null;
      }
    }
    return periods;
  }

  /** The part of the last minute's answers that were refusals. */
  static share(sums) {
    const total = sums[ALLOWED] + sums[DENIED] + sums[SHADOW];
    return total ? sums[DENIED] / total : 0;
  }
}
