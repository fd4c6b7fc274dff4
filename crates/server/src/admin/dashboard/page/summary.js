// The head of the page: the state of the service, notices, and the numbers of all limits together.

import { byId, h, rebuild, setAttr, setText } from './dom.js';
import { fleetNotices } from './fleet.js';
import { SOURCE_NAMES, count, dateTime, duration, latency, percent, rate, timeOfDay } from './format.js';
import { ALLOWED, DENIED, FIRST_SOURCE, Model, SHADOW } from './model.js';
import { plotDecisions, plotStates, plotTimes, sampleAt } from './plot.js';

function showPill(id, state, text) {
  setAttr(byId(id), 'data-state', state);
  setText(byId(id), text);
}

export function showConnection(is_live, reason = '') {
  showPill('pill-live', is_live ? 'ok' : 'bad', is_live ? 'live' : 'not connected');
  document.body.dataset.live = is_live;
  if (!is_live) showNotices([['connection', 'bad', 'Not connected.', `${reason}; reconnecting.`]]);
}

/** Shows the last `now` event. */
export function showStatus(model) {
  const { status, thresholds } = model.now;
  const { store, config, alerts, warnings } = status;
  const is_unavailable = store.degraded || !store.up;

  showPill('pill-store', is_unavailable ? 'bad' : 'ok', `${store.kind} ${is_unavailable ? 'unavailable' : 'up'}`);
  showPill('pill-config', config.error ? 'bad' : 'ok', config.error ? 'last reload failed' : `${count(config.limits)} limits active`);
  showPill('pill-alerts', alerts.length ? 'bad' : 'ok', alerts.length === 1 ? '1 alert' : `${alerts.length || 'no'} alerts`);
  showNotices([
    is_unavailable && storeNotice(store),
    config.error && ['config', 'bad', 'The last reload failed.', `${config.error.message.split('\n')[0]} The previous configuration stays active.`],
    ...alerts.map(alertNotice),
    ...fleetNotices(status.fleet),
    warnings.length > 0 && warningNotice(warnings),
  ]);
  setText(byId('p99-threshold'), thresholds.latency_p99_us ? latency(thresholds.latency_p99_us) : 'none');
  setText(byId('version'), `Tollgate ${status.version}, up ${duration(status.uptime_ms)}`);
  showConfig(config);
  showWarnings(warnings);
}

function storeNotice({ degraded_since_ms: since_ms }) {
  const since = since_ms ? ` since ${timeOfDay(since_ms)}` : '';
  return ['store', 'bad', 'The store is unavailable.', `Limits use their failure policies${since}.`];
}

/** Title and text of a firing alert. */
const ALERT_TEXTS = {
  deny_ratio: (limit, value, threshold) =>
    [`${limit} denies too many requests.`, `${percent(value)} % of its requests in the last minute; the alert fires at ${percent(threshold)} %.`],
  latency_p99: (_, value, threshold) =>
    ['Decisions are slow.', `p99 is ${latency(value * 1e6)}; the alert fires above ${latency(threshold * 1e6)}.`],
  degraded_for: (_, value, threshold) =>
    ['Limits have used their failure policies for long.', `For ${duration(Math.round(value) * 1000)}; the alert fires after ${duration(threshold * 1000)}.`],
  evictions: (limit, value, threshold) =>
    ['Counters of limited clients were evicted.', `${count(value)} ${limit ? `of ${limit} ` : ''}in the last minute; the alert fires at ${count(threshold)}.`],
  configurations_differ: (_, value, threshold) =>
    ['Replicas have had different configurations for long.', `For ${duration(Math.round(value) * 1000)}; the alert fires after ${duration(threshold * 1000)}.`],
};

function alertNotice({ alert, limit, value, threshold, since_ms }) {
  const [title, text] = ALERT_TEXTS[alert]?.(limit, value, threshold) ?? [`The alert ${alert} fires.`, ''];
  return [`${alert} ${limit}`, 'warn', title, `${text} Firing since ${timeOfDay(since_ms)}.`];
}

function warningNotice([first, ...others]) {
  const more = others.length ? ` All ${others.length + 1} warnings are listed below.` : '';
  return ['warnings', 'warn', 'The configuration or the store needs attention.', `${first}.${more}`];
}

/** Shows notices of [name, kind, title, text]. Existing ones are kept, so that a screen reader reads only new ones. */
function showNotices(wanted) {
  const box = byId('notices');
  const kept = new Set();
  for (const [name, kind, title, text] of wanted.filter(Boolean)) {
    kept.add(name);
    const existing = [...box.children].find((element) => element.dataset.name === name);
    if (existing) {
      setText(existing.lastChild, text);
    } else {
      box.append(h('p', { class: `notice ${kind}`, 'data-name': name }, h('strong', {}, title), h('span', {}, text)));
    }
  }
  [...box.children].filter((element) => !kept.has(element.dataset.name)).forEach((element) => element.remove());
}

function showConfig(config) {
  rebuild(byId('config'), config, () => [
    ['file', config.file ?? 'built in'],
    ['limits', count(config.limits)],
    ['active since', dateTime(config.loaded_at_ms)],
    ['reloads', `${count(config.reloads)} applied, ${count(config.failed)} failed`],
  ].map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))));
  byId('config-error').hidden = !config.error;
  if (config.error) setText(byId('config-error-text'), `${dateTime(config.error.at_ms)}\n${config.error.message}`);
}

function showWarnings(warnings) {
  byId('warnings').hidden = warnings.length === 0;
  rebuild(byId('warnings-list'), warnings, () => warnings.map((text) => h('li', {}, text)));
}

/** Shows the sources of decisions as a bar with labels. */
export function showSources(box, model, sums) {
  const counts = model.sources.map((name, index) => [name, sums[FIRST_SOURCE + index]]);
  const total = counts.reduce((sum, [, amount]) => sum + amount, 0);
  const shares = counts.filter(([, amount]) => amount > 0).map(([name, amount]) => [name, amount / total]);

  rebuild(box, shares, () => {
    const stack = h('div', { class: 'stack', 'aria-hidden': 'true' }, ...shares.map(([name, share]) => {
      const segment = h('i', { class: `src-${name}` });
      segment.style.width = `${share * 100}%`;
      return segment;
    }));
    const labels = shares.map(([name, share]) =>
      h('span', {}, h('i', { class: `src-${name}`, 'aria-hidden': 'true' }), `${SOURCE_NAMES[name]} ${percent(share)} %`));
    return [stack, h('p', { class: 'stack-labels' }, ...(labels.length ? labels : ['none in the last minute']))];
  });
}

/** Shows the numbers and plots of all limits together. */
export function showAll(model, span_s) {
  const rates = [ALLOWED, DENIED, SHADOW].map((index) => model.rate(model.all, index));
  setText(byId('rate'), rate(rates[0] + rates[1] + rates[2]));
  setText(byId('rate-allowed'), `${rate(rates[0])}/s`);
  setText(byId('rate-denied'), `${rate(rates[1])}/s`);

  const sums = model.lastMinute(model.all);
  const total = sums[ALLOWED] + sums[DENIED] + sums[SHADOW];
  setText(byId('share'), percent(Model.denyRatio(sums)));
  setText(byId('share-note'), `${count(sums[DENIED])} of ${count(total)} decisions`);

  const times = model.decisionTimes();
  setText(byId('p99'), times ? latency(times.p99) : '–');
  setText(byId('p50'), times ? latency(times.p50) : '–');

  showSources(byId('sources-all'), model, sums);
  showPeriods(model);
  drawPlots(model, span_s);
}

/** The position of the pointer on the large plot, from 0 to 1; null without a pointer. */
let cursor = null;

export function startSummary(schedule_render) {
  const plot = byId('plot-all');
  const moveCursor = (position) => { cursor = position; schedule_render(); };
  plot.addEventListener('pointermove', (event) => moveCursor(event.offsetX / plot.clientWidth));
  plot.addEventListener('pointerleave', () => moveCursor(null));
}

/** Shows the numbers at the cursor in place of the legend. */
function showReadout(model, span_s) {
  const found = cursor === null ? null : sampleAt(model, span_s, cursor);
  byId('legend').hidden = found !== null;
  byId('readout').hidden = found === null;
  if (!found) return;

  const { slot, sample } = found;
  const [allowed, denied, shadow] = [ALLOWED, DENIED, SHADOW].map((index) => rate(model.all[index][slot] / sample.seconds));
  const outage = sample.degraded ? ', store unavailable' : '';
  setText(byId('readout'),
    `${timeOfDay(sample.t)}: ${allowed}/s allowed, ${denied}/s denied, ${shadow}/s shadow, p99 ${latency(sample.p99)}${outage}`);
}

function drawPlots(model, span_s) {
  const plot = byId('plot-all');
  showReadout(model, span_s);
  plotDecisions(plot, model, model.all, span_s, { has_time_axis: true, format: (top) => `${count(top)}/s`, cursor });

  const sums = model.lastMinute(model.all);
  const minute = `${count(sums[ALLOWED])} allowed and ${count(sums[DENIED])} denied in the last minute`;
  setAttr(plot, 'aria-label', `Decisions of all limits over ${span_s / 60} minutes; ${minute}`);
  plotTimes(byId('plot-time'), model, span_s, model.now?.thresholds.latency_p99_us);
  setAttr(byId('plot-time'), 'aria-label', `p99 of decision times over ${span_s / 60} minutes`);
  plotStates(byId('strip-store'), model, span_s);
}

function showPeriods(model) {
  const periods = model.degradedPeriods();
  const degraded_ms = periods.reduce((sum, { ms }) => sum + ms, 0);
  const minutes = Math.max(1, Math.round(model.length / 60));
  const length = degraded_ms < 1000 ? 'less than 1 s' : duration(Math.round(degraded_ms / 1000) * 1000);
  const text = degraded_ms ? `degraded for ${length} of the last ${minutes} min` : `not degraded in the last ${minutes} min`;

  setText(byId('degraded-total'), text);
  setAttr(byId('strip-store'), 'aria-label', `State of the store: ${text}`);
  setText(byId('periods-summary'), `${periods.length || 'No'} degraded ${periods.length === 1 ? 'period' : 'periods'}`);
  rebuild(byId('periods'), periods, () =>
    periods.map(({ from, to, ms }) => h('li', {}, `${timeOfDay(from)} to ${timeOfDay(to)}, ${duration(ms)}`)));
}
