// One card and one table row for each limit. The numbers of all limits are kept current, because a
// screen reader can read any of them. Plots are drawn only while they are visible, so that hundreds
// of limits cost little more than one screenful.

import { byId, h, setAttr, setText } from './dom.js';
import { SOURCE_NAMES, count, describeRule, percent, rate } from './format.js';
import { ALLOWED, DENIED, FIRST_SOURCE, Model, SHADOW } from './model.js';
import { plotDecisions } from './plot.js';
import { showSources } from './summary.js';

const SORT_EVERY_MS = 5000;
/** The elements of each limit, by its id. */
const views = new Map();
let sorted_at = 0;
let is_table = false;
let redraw = () => {};

/** Marks the cards that are visible or nearly so. */
const visibility = new IntersectionObserver((changes) => {
  for (const { target, isIntersecting } of changes) target.isVisible = isIntersecting;
  redraw();
}, { rootMargin: '200px' });

export function startLimits(schedule_render) {
  redraw = schedule_render;
  for (const id of ['filter', 'sort']) {
    byId(id).addEventListener('input', () => { sorted_at = 0; schedule_render(); });
  }
  const showAsTable = (as_table) => {
    is_table = as_table;
    setAttr(byId('as-table'), 'aria-pressed', as_table);
    setAttr(byId('as-plots'), 'aria-pressed', !as_table);
    byId('table-box').hidden = !as_table;
    byId('cards').hidden = as_table;
    schedule_render();
  };
  byId('as-table').addEventListener('click', () => showAsTable(true));
  byId('as-plots').addEventListener('click', () => showAsTable(false));
}

/** Removes the views of limits that are gone, and adds views for new ones. */
function updateViews(model) {
  for (const [id, view] of views) {
    if (!model.limits.has(id)) {
      visibility.unobserve(view.card.element);
      for (const { element } of [view.card, view.row]) element.remove();
      views.delete(id);
    }
  }

  for (const limit of model.limits.values()) {
    if (views.has(limit.id)) continue;
    const view = { card: card(limit), row: row(limit) };
    views.set(limit.id, view);
    byId('cards').append(view.card.element);
    byId('table').tBodies[0].append(view.row.element);
    visibility.observe(view.card.element);
  }
}

function card({ name }) {
  const parts = {
    rate: h('span', { class: 'rate' }), badges: h('span', {}), rule: h('p', { class: 'rule' }),
    plot: h('canvas', { class: 'plot', role: 'img' }),
    allowed: h('dd', {}), denied: h('dd', { class: 'denied-count' }), shadow: h('dd', {}), shadow_box: null,
    meter: h('div', { class: 'meter', role: 'img' }, h('i'), h('b')), deny_ratio: h('span', {}), sources: h('div', {}),
  };
  const entry = (term, value) => h('div', {}, h('dt', {}, term), value);
  parts.shadow_box = entry('shadow', parts.shadow);
  parts.element = h('li', { class: 'card limit', 'data-limit': name },
    h('div', { class: 'limit-head' }, h('h3', {}, name, parts.badges), parts.rate),
    parts.rule, parts.plot,
    h('dl', { class: 'counts' }, entry('allowed', parts.allowed), entry('denied', parts.denied), parts.shadow_box),
    h('div', { class: 'meter-row' }, parts.meter, parts.deny_ratio),
    parts.sources);
  return parts;
}

function row({ name }) {
  const columns = ['rate', 'allowed', 'denied', 'shadow', 'deny_ratio'];
  const cells = columns.map((part) => [part, h('td', { class: 'num' })]);
  const parts = { ...Object.fromEntries(cells), sources: h('td', {}), rule: h('td', {}), badges: h('span', {}) };
  parts.element = h('tr', { 'data-limit': name },
    h('th', { scope: 'row' }, name, parts.badges), ...cells.map(([, cell]) => cell), parts.sources, parts.rule);
  return parts;
}

export function showLimits(model, span_s) {
  updateViews(model);
  const items = [...model.limits.values()].map((limit) => {
    const sums = model.lastMinute(limit.series);
    return {
      limit, sums, rule: model.rules.get(limit.name), deny_ratio: Model.denyRatio(sums),
      decisions: limit.totals[ALLOWED] + limit.totals[DENIED] + limit.totals[SHADOW],
    };
  });

  const shown = applyFilter(items);
  if (performance.now() - sorted_at > SORT_EVERY_MS && !isInUse()) sort(shown);
  for (const item of shown) {
    const view = views.get(item.limit.id);
    if (is_table) showRow(view.row, item, model);
    else showCard(view.card, item, model, span_s);
  }
}

/** A limit without a rule was set by requests; it is listed once it has decided something. */
const isListed = (item) => item.rule !== undefined || item.decisions > 0;

/** Hides the limits that do not match the filter, and returns the others. */
function applyFilter(items) {
  const wanted = byId('filter').value.trim().toLowerCase();
  const shown = [];
  for (const item of items) {
    const text = `${item.limit.name} ${item.rule?.key.join(' ') ?? ''}`.toLowerCase();
    const matches = text.includes(wanted) && isListed(item);
    const { card, row } = views.get(item.limit.id);
    card.element.hidden = row.element.hidden = !matches;
    if (matches) shown.push(item);
  }
  setText(byId('limits-count'), wanted ? `${shown.length} of ${items.filter(isListed).length}` : shown.length);
  byId('limits-none').hidden = shown.length > 0;
  return shown;
}

/** Whether the pointer or the focus is on a limit. The order stays the same meanwhile. */
function isInUse() {
  return ['cards', 'table-box'].some((id) => byId(id).matches(':hover') || byId(id).contains(document.activeElement));
}

const lastMinuteTotal = ({ sums }) => sums[ALLOWED] + sums[DENIED] + sums[SHADOW];

const ORDERS = {
  denied: (a, b) => b.deny_ratio - a.deny_ratio || b.sums[SHADOW] - a.sums[SHADOW] || b.sums[ALLOWED] - a.sums[ALLOWED],
  busy: (a, b) => lastMinuteTotal(b) - lastMinuteTotal(a),
  file: () => 0,
  name: (a, b) => a.limit.name.localeCompare(b.limit.name),
};

function sort(shown) {
  sorted_at = performance.now();
  const order = ORDERS[byId('sort').value];
  const sorted = [...shown].sort((a, b) => order(a, b) || a.limit.id - b.limit.id);
  for (const [box, kind] of [[byId('cards'), 'card'], [byId('table').tBodies[0], 'row']]) {
    const elements = sorted.map(({ limit }) => views.get(limit.id)[kind].element);
    if (elements.some((element, index) => box.children[index] !== element)) box.prepend(...elements);
  }
}

/** The badges of a limit as [class, text]. */
function badges(item, model) {
  const alert = model.now?.status.alerts.find(({ limit }) => limit === item.limit.name);
  return [item.rule?.shadow && ['shadow', 'shadow'], alert && ['firing', 'alert']].filter(Boolean);
}

function showBadges(box, wanted) {
  if (box.textContent === wanted.map(([, text]) => text).join('')) return;
  box.replaceChildren(...wanted.map(([kind, text]) => h('span', { class: `badge ${kind}` }, text)));
}

const decisionRate = (model, { series }) => [ALLOWED, DENIED, SHADOW].reduce((sum, index) => sum + model.rate(series, index), 0);

function showTotals(parts, { totals }) {
  setText(parts.allowed, count(totals[ALLOWED]));
  setText(parts.denied, count(totals[DENIED]));
  setText(parts.shadow, count(totals[SHADOW]));
}

function showCard(parts, item, model, span_s) {
  const { limit, sums, deny_ratio, rule } = item;
  const wanted_badges = badges(item, model);
  setAttr(parts.element, 'data-firing', wanted_badges.some(([kind]) => kind === 'firing'));
  showBadges(parts.badges, wanted_badges);
  setText(parts.rate, `${rate(decisionRate(model, limit))}/s`);
  setText(parts.rule, describeRule(rule));
  showTotals(parts, limit);
  parts.shadow_box.hidden = !rule?.shadow && !limit.totals[SHADOW];

  const threshold = model.now?.thresholds.deny_ratio;
  const alert = threshold ? `, alert at ${percent(threshold)} %` : '';
  setAttr(parts.meter, 'aria-label', `${percent(deny_ratio)} % denied in the last minute${alert}`);
  setText(parts.deny_ratio, `${percent(deny_ratio)} % denied${alert}`);
  parts.meter.firstChild.style.width = `${deny_ratio * 100}%`;
  parts.meter.lastChild.hidden = !threshold;
  if (threshold) parts.meter.lastChild.style.left = `calc(${threshold * 100}% - 1px)`;

  showSources(parts.sources, model, sums);
  if (parts.element.isVisible) {
    plotDecisions(parts.plot, model, limit.series, span_s, { format: (top) => `${count(top)}/s` });
  }
  const minute = `${count(sums[ALLOWED])} allowed and ${count(sums[DENIED])} denied in the last minute`;
  setAttr(parts.plot, 'aria-label', `${limit.name}: ${minute}`);
}

function showRow(parts, item, model) {
  const { limit, sums, deny_ratio, rule } = item;
  showBadges(parts.badges, badges(item, model));
  setText(parts.rate, rate(decisionRate(model, limit)));
  showTotals(parts, limit);

  const threshold = model.now?.thresholds.deny_ratio;
  setText(parts.deny_ratio, `${percent(deny_ratio)} %${threshold ? ` / ${percent(threshold)} %` : ''}`);
  const sources = model.sources
    .map((name, index) => [SOURCE_NAMES[name], sums[FIRST_SOURCE + index]])
    .filter(([, amount]) => amount > 0)
    .map(([name, amount]) => `${name} ${percent(amount / lastMinuteTotal(item))} %`);
  setText(parts.sources, sources.join(', '));
  setText(parts.rule, describeRule(rule));
}
