// One card, or one row, for each limit. Numbers are right everywhere, because a screen reader sees what no eye does; plots are
// drawn only where they can be seen, so that hundreds of limits cost little more than a screenful.

import { byId, h, mark, say } from './dom.js';
import { ALLOWED, DENIED, Model, SHADOW } from './model.js';
import { plotAnswers } from './plot.js';
import { showSources } from './summary.js';
import { SOURCE_WORDS, count, percent, rate, ruleInWords } from './words.js';

const SORT_EVERY_MS = 5000;
const views = new Map();
let sorted_at = 0;
let as_table = false;
let redraw = () => {};

/** What can be seen, with some room around it. */
const seen = new IntersectionObserver((changes) => {
  for (const { target, isIntersecting } of changes) target.isSeen = isIntersecting;
  redraw();
}, { rootMargin: '200px' });

export function startLimits(show) {
  redraw = show;
  for (const id of ['filter', 'sort']) byId(id).addEventListener('input', () => { sorted_at = 0; show(); });
  const choose = (table) => {
    as_table = table;
    mark(byId('as-table'), 'aria-pressed', table);
    mark(byId('as-plots'), 'aria-pressed', !table);
    byId('table-box').hidden = !table;
    byId('cards').hidden = table;
    show();
  };
  byId('as-table').addEventListener('click', () => choose(true));
  byId('as-plots').addEventListener('click', () => choose(false));
}

/** Limits that are gone take their views along; new ones get theirs. */
function keepViews(model) {
  for (const [id, view] of views) {
    if (!model.limits.has(id)) {
      seen.unobserve(view.card);
      for (const element of [view.card, view.row]) element.remove();
      views.delete(id);
    }
  }
  for (const limit of model.limits.values()) {
    if (views.has(limit.id)) continue;
    const [on_card, on_row] = [card(limit), row(limit)];
    views.set(limit.id, { card: on_card.element, row: on_row.element, on: { ...on_card, ...prefixed(on_row) } });
    byId('cards').append(on_card.element);
    byId('table').tBodies[0].append(on_row.element);
    seen.observe(on_card.element);
  }
}

const prefixed = (parts) => Object.fromEntries(Object.entries(parts).map(([name, part]) => [`row_${name}`, part]));

function card({ name }) {
  const parts = {
    rate: h('span', { class: 'rate' }), badges: h('span', {}), rule: h('p', { class: 'rule' }),
    plot: h('canvas', { class: 'plot', role: 'img' }),
    allowed: h('dd', {}), denied: h('dd', { class: 'denied-count' }), shadow: h('dd', {}), shadow_box: null,
    meter: h('div', { class: 'meter', role: 'img' }, h('i'), h('b')), share: h('span', {}), sources: h('div', {}),
  };
  parts.shadow_box = h('div', {}, h('dt', {}, 'shadow'), parts.shadow);
  parts.element = h('li', { class: 'card limit', 'data-limit': name },
    h('div', { class: 'limit-head' }, h('h3', {}, name, parts.badges), parts.rate),
    parts.rule, parts.plot,
    h('dl', { class: 'counts' }, h('div', {}, h('dt', {}, 'allowed'), parts.allowed), h('div', {}, h('dt', {}, 'denied'), parts.denied), parts.shadow_box),
    h('div', { class: 'meter-row' }, parts.meter, parts.share),
    parts.sources);
  return parts;
}

function row({ name }) {
  const cells = ['rate', 'allowed', 'denied', 'shadow', 'share'].map((part) => [part, h('td', { class: 'num' })]);
  const parts = { ...Object.fromEntries(cells), sources: h('td', {}), rule: h('td', {}), badges: h('span', {}) };
  parts.element = h('tr', { 'data-limit': name }, h('th', { scope: 'row' }, name, parts.badges), ...cells.map(([, cell]) => cell), parts.sources, parts.rule);
  return parts;
}

export function showLimits(model, span_s) {
  keepViews(model);
  const facts = [...model.limits.values()].map((limit) => {
    const sums = model.lastMinute(limit.series);
    return { limit, sums, rule: model.rules.get(limit.name), share: Model.share(sums), asked: limit.said[ALLOWED] + limit.said[DENIED] + limit.said[SHADOW] };
  });
  const shown = choose(facts);
  if (performance.now() - sorted_at > SORT_EVERY_MS && !isInUse()) arrange(shown);
  for (const fact of shown) {
    const { on } = views.get(fact.limit.id);
    if (as_table) showRow(on, fact, model);
    else showCard(on, fact, model, span_s);
  }
}

/** Limits that requests bring show only once they were used. */
const isShown = (fact) => fact.rule !== undefined || fact.asked > 0;

/** Those that fit the filter. */
function choose(facts) {
  const wanted = byId('filter').value.trim().toLowerCase();
  const shown = [];
  for (const fact of facts) {
    const text = `${fact.limit.name} ${fact.rule?.key.join(' ') ?? ''}`.toLowerCase();
    const fits = text.includes(wanted) && isShown(fact);
    const { card, row } = views.get(fact.limit.id);
    card.hidden = row.hidden = !fits;
    if (fits) shown.push(fact);
  }
  say(byId('limits-count'), wanted ? `${shown.length} of ${facts.filter(isShown).length}` : shown.length);
  byId('limits-none').hidden = shown.length > 0;
  return shown;
}

/** Nothing moves away under a pointer or a cursor. */
function isInUse() {
  return ['cards', 'table-box'].some((id) => byId(id).matches(':hover') || byId(id).contains(document.activeElement));
}

const ORDERS = {
  limited: (a, b) => b.share - a.share || b.sums[SHADOW] - a.sums[SHADOW] || b.sums[ALLOWED] - a.sums[ALLOWED],
  busy: (a, b) => b.sums[ALLOWED] + b.sums[DENIED] + b.sums[SHADOW] - (a.sums[ALLOWED] + a.sums[DENIED] + a.sums[SHADOW]),
  file: () => 0,
  name: (a, b) => a.limit.name.localeCompare(b.limit.name),
};

function arrange(shown) {
  sorted_at = performance.now();
  const order = ORDERS[byId('sort').value];
  const sorted = [...shown].sort((a, b) => order(a, b) || a.limit.id - b.limit.id);
  for (const [box, part] of [[byId('cards'), 'card'], [byId('table').tBodies[0], 'row']]) {
    const elements = sorted.map(({ limit }) => views.get(limit.id)[part]);
    if (elements.some((element, place) => box.children[place] !== element)) box.prepend(...elements);
  }
}

function badges(fact, model) {
  const alert = model.now?.status.alerts.find(({ limit }) => limit === fact.limit.name);
  return [fact.rule?.shadow && ['shadow', 'shadow'], alert && ['firing', 'alert']].filter(Boolean);
}

function showBadges(box, found) {
  if (box.textContent !== found.map(([, text]) => text).join('')) box.replaceChildren(...found.map(([kind, text]) => h('span', { class: `badge ${kind}` }, text)));
}

const perSecond = (model, limit) => [ALLOWED, DENIED, SHADOW].reduce((sum, number) => sum + model.rate(limit.series, number), 0);

function showCard(on, fact, model, span_s) {
  const { limit, sums, share, rule } = fact;
  const found = badges(fact, model);
  mark(on.element, 'data-firing', found.some(([kind]) => kind === 'firing'));
  showBadges(on.badges, found);
  say(on.rate, `${rate(perSecond(model, limit))}/s`);
  say(on.rule, ruleInWords(rule));
  say(on.allowed, count(limit.said[ALLOWED]));
  say(on.denied, count(limit.said[DENIED]));
  say(on.shadow, count(limit.said[SHADOW]));
  on.shadow_box.hidden = !rule?.shadow && !limit.said[SHADOW];
  const bound = model.now?.bounds.deny_ratio;
  const words = `${percent(share)} % limited in the last minute${bound ? `, alert from ${percent(bound)} %` : ''}`;
  mark(on.meter, 'aria-label', words);
  say(on.share, `${percent(share)} % limited${bound ? `, alert at ${percent(bound)} %` : ''}`);
  on.meter.firstChild.style.width = `${share * 100}%`;
  on.meter.lastChild.hidden = !bound;
  if (bound) on.meter.lastChild.style.left = `calc(${bound * 100}% - 1px)`;
  showSources(on.sources, model, sums);
  if (on.element.isSeen) plotAnswers(on.plot, model, limit.series, span_s, { words: (top) => `${count(top)}/s` });
  mark(on.plot, 'aria-label', `${limit.name}: ${count(sums[ALLOWED])} allowed and ${count(sums[DENIED])} denied in the last minute`);
}

function showRow(on, fact, model) {
  const { limit, sums, share, rule } = fact;
  showBadges(on.row_badges, badges(fact, model));
  say(on.row_rate, rate(perSecond(model, limit)));
  say(on.row_allowed, count(limit.said[ALLOWED]));
  say(on.row_denied, count(limit.said[DENIED]));
  say(on.row_shadow, count(limit.said[SHADOW]));
  const bound = model.now?.bounds.deny_ratio;
  say(on.row_share, `${percent(share)} %${bound ? ` / ${percent(bound)} %` : ''}`);
  const total = sums[ALLOWED] + sums[DENIED] + sums[SHADOW];
  const parts = model.sources.map((name, place) => [SOURCE_WORDS[name], sums[3 + place]]).filter(([, amount]) => amount > 0);
  say(on.row_sources, parts.map(([name, amount]) => `${name} ${percent(amount / total)} %`).join(', '));
  say(on.row_rule, ruleInWords(rule));
}
