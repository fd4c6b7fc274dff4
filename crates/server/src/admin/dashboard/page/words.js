// Numbers, times and rules in words.

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const clock = new Intl.DateTimeFormat('en', { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });
const day = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'medium', hourCycle: 'h23' });

export const count = (number) => whole.format(number);
export const atTime = (ms) => clock.format(ms);
export const atDay = (ms) => day.format(ms);

/** A rate with as many digits as help. */
export function rate(number) {
  if (number >= 99.95) return whole.format(number);
  if (number >= 9.95) return number.toFixed(0);
  return number > 0 ? number.toFixed(1) : '0';
}

export function percent(part) {
  const number = part * 100;
  return number > 0 && number < 9.95 ? number.toFixed(1) : number.toFixed(0);
}

/** A short time from microseconds. */
export function shortTime(us) {
  if (us < 1000) return `${us.toFixed(0)} µs`;
  if (us < 1e6) return `${trim(us / 1000)} ms`;
  return `${trim(us / 1e6)} s`;
}

const UNITS = [[86400e3, 'd'], [3600e3, 'h'], [60e3, 'min'], [1e3, 's'], [1, 'ms']];

/** A length of time in at most two units. */
export function length(ms) {
  const first = UNITS.findIndex(([unit]) => ms >= unit);
  if (first < 0) return '0 s';
  const [unit, name] = UNITS[first];
  const main = Math.floor(ms / unit);
  const rest = UNITS[first + 1] && name !== 's' ? Math.floor((ms - main * unit) / UNITS[first + 1][0]) : 0;
  if (name === 's' && ms % 1000 && ms < 10e3) return `${trim(ms / 1000)} s`;
  return rest ? `${main} ${name} ${rest} ${UNITS[first + 1][1]}` : `${main} ${name}`;
}

const trim = (number) => String(Number(number.toFixed(number < 10 ? 1 : 0)));

function perTime({ units, every_us: every }) {
  const per_second = (units * 1e6) / every;
  if (per_second >= 1) return `${trim(per_second)}/s`;
  if (per_second * 60 >= 1) return `${trim(per_second * 60)}/min`;
  return `${trim(per_second * 3600)}/h`;
}

function numbers(rule) {
  switch (rule.algorithm) {
    case 'token_bucket': return `${count(rule.limit)} at once, then ${perTime(rule.refill)}`;
    case 'leaky_bucket': return `${perTime(rule.leak)} out, ${count(rule.limit)} ${rule.mode === 'queue' ? 'waiting' : 'at once'}`;
    case 'concurrency': return `${count(rule.limit)} in flight`;
    default: return `${count(rule.limit)} per ${rule.calendar ?? length(rule.window_ms)}`;
  }
}

/** A rule in one line, as one would say it. */
export function ruleInWords(rule) {
  if (!rule) return 'brought by requests';
  const key = rule.key.length ? `by ${rule.key.join(' + ')}` : 'one for all';
  const tiers = rule.tiers ? ` (tiers by ${rule.tiers.by})` : '';
  const how = rule.consistency === 'local' ? 'local' : `${rule.consistency}, else ${rule.on_store_failure}`;
  return `${numbers(rule)}${tiers} · ${rule.algorithm.replaceAll('_', ' ')} · ${key} · ${how}`;
}

export const SOURCE_WORDS = { store: 'store', lease: 'lease', deny_cache: 'deny cache', fallback: 'fallback', local: 'local' };
