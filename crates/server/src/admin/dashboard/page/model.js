// The data behind the page: the limits, their counts over the last minutes, and the status of the
// service. Does not use the DOM.

export const SAMPLES_MAX = 900;
const MINUTE_MS = 60_000;
/** The counts of a limit, in the order of the events: three outcomes, then one count for each source. */
export const ALLOWED = 0, DENIED = 1, SHADOW = 2, FIRST_SOURCE = 3;
const COUNTS = 10;

/** One ring buffer for each count. */
const emptySeries = () => Array.from({ length: COUNTS }, () => new Float64Array(SAMPLES_MAX));

export class Model {
  constructor() {
    this.sources = [];
    this.limits = new Map();
    this.rules = new Map();
    /** The last `now` event. */
    this.now = null;
    this.clear();
  }

  /** Drops the samples. Called for each new stream, which begins with the history. */
  clear() {
    this.is_live = false;
    this.length = 0;
    this.next = 0;
    this.samples = new Array(SAMPLES_MAX).fill(null);
    this.all = emptySeries();
    for (const limit of this.limits.values()) limit.series = emptySeries();
  }

  /** Handles a `limits` event. */
  setLimits({ sources, limits }) {
    this.sources = sources;
    const before = this.limits;
    this.limits = new Map(limits.map(({ id, name, counts: totals }) => {
      const series = before.get(id)?.series ?? emptySeries();
      return [id, { id, name, totals, series }];
    }));
  }

  /** Handles a `sample` event. */
  addSample({ rows, ...sample }) {
    const slot = this.next;
    this.next = (slot + 1) % SAMPLES_MAX;
    this.length = Math.min(this.length + 1, SAMPLES_MAX);

    const before = this.sample(1);
    sample.seconds = before ? Math.max((sample.t - before.t) / 1000, 0.2) : 1;
    this.samples[slot] = sample;

    for (let index = 0; index < COUNTS; index++) this.all[index][slot] = 0;
    for (const { series } of this.limits.values()) series.forEach((counts) => { counts[slot] = 0; });

    for (const [id, ...counts] of rows) {
      const limit = this.limits.get(id);
      counts.forEach((more, index) => {
        this.all[index][slot] += more;
        if (!limit) return;
        limit.series[index][slot] += more;
        // The totals of the `limits` event already include the history.
        if (this.is_live) limit.totals[index] += more;
      });
    }
  }

  /** Handles a `now` event. The first one ends the history. */
  setNow(now) {
    this.now = now;
    this.is_live = true;
  }

  /** The slot of the sample `back` samples before the last one. */
  slot(back) {
    return (this.next - 1 - back + 2 * SAMPLES_MAX) % SAMPLES_MAX;
  }

  sample(back) {
    return back < this.length ? this.samples[this.slot(back)] : null;
  }

  /** A count per second, averaged over the last few samples so that the number is readable. */
  rate(series, index, samples = 3) {
    let sum = 0, seconds = 0;
    for (let back = 0; back < Math.min(samples, this.length); back++) {
      sum += series[index][this.slot(back)];
      seconds += this.sample(back).seconds;
    }
    return seconds ? sum / seconds : 0;
  }

  /** The sum of each count over the last minute. */
  lastMinute(series) {
    const sums = new Array(COUNTS).fill(0);
    const last = this.sample(0);
    for (let back = 0; back < this.length; back++) {
      const slot = this.slot(back);
      if (last.t - this.samples[slot].t >= MINUTE_MS) break;
      for (let index = 0; index < COUNTS; index++) sums[index] += series[index][slot];
    }
    return sums;
  }

  /** Decision times of the last 10 samples: the weighted mean of the medians, and the highest p99. */
  decisionTimes() {
    let decisions = 0, p50 = 0, p99 = 0;
    for (let back = 0; back < Math.min(10, this.length); back++) {
      const { n, ...sample } = this.sample(back);
      decisions += n;
      p50 += sample.p50 * n;
      p99 = Math.max(p99, n ? sample.p99 : 0);
    }
    return decisions ? { p50: p50 / decisions, p99 } : null;
  }

  /** The periods in which limits used their failure policies, the last one first. */
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

  /** The fraction of decisions that were denials. */
  static denyRatio(sums) {
    const total = sums[ALLOWED] + sums[DENIED] + sums[SHADOW];
    return total ? sums[DENIED] / total : 0;
  }
}
