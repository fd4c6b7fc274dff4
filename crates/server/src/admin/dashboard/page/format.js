// Numbers, times and rules as text.

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const clock = new Intl.DateTimeFormat('en', { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });
const day = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'medium', hourCycle: 'h23' });

export const count = (number) => whole.format(number);
export const timeOfDay = (ms) => clock.format(ms);
export const dateTime = (ms) => day.format(ms);

/** A rate; small ones have one decimal. */
export function rate(number) {
  if (number >= 99.95) return whole.format(number);
  if (number >= 9.95) return number.toFixed(0);
  return number > 0 ? number.toFixed(1) : '0';
}

/** A fraction in percent; small ones have one decimal. */
export function percent(fraction) {
  const number = fraction * 100;
  return number > 0 && number < 9.95 ? number.toFixed(1) : number.toFixed(0);
}

/** A latency from microseconds. */
export function latency(us) {
  if (us < 1000) return `${us.toFixed(0)} µs`;
  if (us < 1e6) return `${trim(us / 1000)} ms`;
  return `${trim(us / 1e6)} s`;
}

const UNITS = [[86400e3, 'd'], [3600e3, 'h'], [60e3, 'min'], [1e3, 's'], [1, 'ms']];

/** A duration in at most two units. */
export function duration(ms) {
  const first = UNITS.findIndex(([unit]) => ms >= unit);
  if (first < 0) return '0 s';

  const [unit, name] = UNITS[first];
  const main = Math.floor(ms / unit);
  const rest = UNITS[first + 1] && name !== 's' ? Math.floor((ms - main * unit) / UNITS[first + 1][0]) : 0;
  if (name === 's' && ms % 1000 && ms < 10e3) return `${trim(ms / 1000)} s`;
  return rest ? `${main} ${name} ${rest} ${UNITS[first + 1][1]}` : `${main} ${name}`;
}

const trim = (number) => String(Number(number.toFixed(number < 10 ? 1 : 0)));

function unitRate({ units, every_us: every }) {
  const per_second = (units * 1e6) / every;
  if (per_second >= 1) return `${trim(per_second)}/s`;
  if (per_second * 60 >= 1) return `${trim(per_second * 60)}/min`;
  return `${trim(per_second * 3600)}/h`;
}

function quota(rule) {
  switch (rule.algorithm) {
    case 'token_bucket': return `capacity ${count(rule.limit)}, refill ${unitRate(rule.refill)}`;
    case 'leaky_bucket': return `${rule.mode === 'queue' ? 'queue of' : 'capacity'} ${count(rule.limit)}, leak ${unitRate(rule.leak)}`;
    case 'concurrency': return `${count(rule.limit)} in flight`;
    default: return `${count(rule.limit)} per ${rule.calendar ?? duration(rule.window_ms)}`;
  }
}

/** A rule in one line. */
export function describeRule(rule) {
  if (!rule) return 'override set by requests';
  const key = rule.key.length ? `by ${rule.key.join(' + ')}` : 'one counter for all';
  const tiers = rule.tiers ? ` (tiers by ${rule.tiers.by})` : '';
  const policy = rule.consistency === 'local' ? 'local' : `${rule.consistency}, on store failure ${rule.on_store_failure}`;
  return `${quota(rule)}${tiers} · ${rule.algorithm.replaceAll('_', ' ')} · ${key} · ${policy}`;
}

export const SOURCE_NAMES = { store: 'store', lease: 'lease', deny_cache: 'deny cache', fallback: 'fallback', local: 'local', block: 'block', exempt: 'exempt' };
