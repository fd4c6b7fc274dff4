// The head of the page: pills, notices, and everything about all limits together.

import { byId, h, mark, refill, say } from './dom.js';
import { ALLOWED, DENIED, Model, SHADOW, SOURCES_AT } from './model.js';
import { plotAnswers, plotStates, plotTimes, sampleAt } from './plot.js';
import { SOURCE_WORDS, atDay, atTime, count, length, percent, rate, shortTime } from './words.js';

function pill(id, state, text) {
  mark(byId(id), 'data-state', state);
  say(byId(id), text);
}

export function showLive(is_live, reason = '') {
  pill('pill-live', is_live ? 'ok' : 'bad', is_live ? 'live' : 'not connected');
  document.body.dataset.live = is_live;
  if (!is_live) notices([['connection', 'bad', 'Not connected.', `${reason}; trying again.`]]);
}

/** How the service is: what changes at once when something happens. */
export function showNow(model) {
  const { status, bounds } = model.now;
  const { store, config, alerts } = status;
  const is_away = store.degraded || !store.up;
  pill('pill-store', is_away ? 'bad' : 'ok', `${store.kind} ${is_away ? 'away' : 'up'}`);
  pill('pill-config', config.error ? 'bad' : 'ok', config.error ? 'last file refused' : `${count(config.limits)} limits in force`);
  pill('pill-alerts', alerts.length ? 'bad' : 'ok', alerts.length === 1 ? '1 alert' : `${alerts.length || 'no'} alerts`);
  notices([
    is_away && ['store', 'bad', 'The store is away.', `Limits answer by their failure policies${store.degraded_since_ms ? ` since ${atTime(store.degraded_since_ms)}` : ''}.`],
    config.error && ['config', 'bad', 'The last configuration was refused.', `${config.error.message.split('\n')[0]} The one before stays in force.`],
    ...alerts.map(({ alert, limit, value, bound, since_ms: since }) => [`${alert} ${limit}`, 'warn',
      ...(alert === 'deny_ratio'
        ? [`${limit} refuses too much.`, `${percent(value)} % of its requests in the last minute; the alert fires from ${percent(bound)} % on. Since ${atTime(since)}.`]
        : ['Decisions are slow.', `p99 is ${shortTime(value * 1e6)}; the bound is ${shortTime(bound * 1e6)}. Since ${atTime(since)}.`])]),
  ]);
  say(byId('p99-bound'), bounds.latency_p99_us ? shortTime(bounds.latency_p99_us) : 'none');
  say(byId('version'), `Tollgate ${status.version}, up ${length(status.uptime_ms)}`);
  showConfig(config);
}

/** Notices by name: what stays is left alone, so that a screen reader says only what is new. */
function notices(wanted) {
  const box = byId('notices');
  const kept = new Set();
  for (const [name, kind, title, text] of wanted.filter(Boolean)) {
    kept.add(name);
    const found = [...box.children].find((element) => element.dataset.name === name);
    if (!found) {
      box.append(h('p', { class: `notice ${kind}`, 'data-name': name }, h('strong', {}, title), h('span', {}, text)));
    } else {
      say(found.lastChild, text);
    }
  }
  [...box.children].filter((element) => !kept.has(element.dataset.name)).forEach((element) => element.remove());
}

function showConfig(config) {
  refill(byId('config'), config, () => [
    ['file', config.file ?? 'built in'],
    ['limits', count(config.limits)],
    ['in force since', atDay(config.loaded_at_ms)],
    ['reloads', `${count(config.reloads)} applied, ${count(config.refused)} refused`],
  ].map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))));
  byId('config-error').hidden = !config.error;
  if (config.error) say(byId('config-error-text'), `${atDay(config.error.at_ms)}\n${config.error.message}`);
}

/** A bar of where answers came from, with words below it. */
export function showSources(box, model, sums) {
  const parts = model.sources.map((name, place) => [name, sums[SOURCES_AT + place]]);
  const total = parts.reduce((sum, [, amount]) => sum + amount, 0);
  const shown = parts.filter(([, amount]) => amount > 0).map(([name, amount]) => [name, percent(amount / total), (amount / total) * 100]);
  refill(box, shown, () => {
    const stack = h('div', { class: 'stack', 'aria-hidden': 'true' }, ...shown.map(([name, , wide]) => {
      const segment = h('i', { class: `src-${name}` });
      segment.style.width = `${wide}%`;
      return segment;
    }));
    const words = shown.map(([name, part]) => h('span', {}, h('i', { class: `src-${name}`, 'aria-hidden': 'true' }), `${SOURCE_WORDS[name]} ${part} %`));
    return [stack, h('p', { class: 'stack-words' }, ...(words.length ? words : ['none in the last minute']))];
  });
}

/** The numbers and plots of all limits together. */
export function showAll(model, span_s) {
  const rates = [ALLOWED, DENIED, SHADOW].map((number) => model.rate(model.all, number));
  say(byId('rate'), rate(rates[0] + rates[1] + rates[2]));
  say(byId('rate-allowed'), `${rate(rates[0])}/s`);
  say(byId('rate-denied'), `${rate(rates[1])}/s`);
  const sums = model.lastMinute(model.all);
  say(byId('share'), percent(Model.share(sums)));
  const total = sums[ALLOWED] + sums[DENIED] + sums[SHADOW];
  say(byId('share-note'), `${count(sums[DENIED])} of ${count(total)} answers`);
  const times = model.times();
  say(byId('p99'), times ? shortTime(times.p99) : '–');
  say(byId('p50'), times ? shortTime(times.p50) : '–');
  showSources(byId('sources-all'), model, sums);
  showPeriods(model);
  drawAll(model, span_s);
}

/** Where the pointer is on the large plot, as a part of its width. */
let cursor = null;

export function startSummary(show) {
  const plot = byId('plot-all');
  const point = (part) => { cursor = part; show(); };
  plot.addEventListener('pointermove', (event) => point(event.offsetX / plot.clientWidth));
  plot.addEventListener('pointerleave', () => point(null));
}

/** What was said at the place that is pointed to. */
function showCursor(model, span_s) {
  const found = cursor === null ? null : sampleAt(model, span_s, cursor);
  byId('legend').hidden = found !== null;
  byId('readout').hidden = found === null;
  if (!found) return;
  const { slot, sample } = found;
  const [allowed, denied, shadow] = [ALLOWED, DENIED, SHADOW].map((number) => rate(model.all[number][slot] / sample.seconds));
  say(byId('readout'), `${atTime(sample.t)}: ${allowed}/s allowed, ${denied}/s denied, ${shadow}/s shadow, p99 ${shortTime(sample.p99)}${sample.degraded ? ', store away' : ''}`);
}

export function drawAll(model, span_s) {
  const plot = byId('plot-all');
  showCursor(model, span_s);
  plotAnswers(plot, model, model.all, span_s, { labels: true, words: (top) => `${count(top)}/s`, cursor });
  const sums = model.lastMinute(model.all);
  mark(plot, 'aria-label', `Answers of all limits over ${span_s / 60} minutes; in the last one ${count(sums[ALLOWED])} allowed, ${count(sums[DENIED])} denied`);
  plotTimes(byId('plot-time'), model, span_s, model.now?.bounds.latency_p99_us);
  mark(byId('plot-time'), 'aria-label', `p99 of decision times over ${span_s / 60} minutes`);
  plotStates(byId('strip-store'), model, span_s);
}

function showPeriods(model) {
  const periods = model.degradedPeriods();
  const away = periods.reduce((sum, { ms }) => sum + ms, 0);
  const words = away ? `away ${length(Math.round(away / 1000) * 1000 || 1000)} of the last ${Math.max(1, Math.round(model.length / 60))} min` : 'never away in this time';
  say(byId('degraded-total'), words);
  mark(byId('strip-store'), 'aria-label', `State of the store: ${words}`);
  say(byId('periods-summary'), periods.length ? `${periods.length} degraded ${periods.length === 1 ? 'period' : 'periods'}` : 'No degraded period');
  refill(byId('periods'), periods, () => periods.map(({ from, to, ms }) => h('li', {}, `${atTime(from)} to ${atTime(to)}, ${length(ms)}`)));
}
