// Whoever is limited most, from the server's own short list.

import { byId, h, mark, say } from './dom.js';
import { count } from './words.js';

/** By limit and key. A row stays the same element while its numbers change, so that no click and no focus is lost. */
const rows = new Map();
/** The most that a table in use may grow to. */
const ROWS_MAX = 40;

export function showRefused(model, look_up) {
  const shown = model.now.refused.filter(({ limit }) => model.limits.has(limit));
  const body = byId('refused').tBodies[0];
  const is_in_use = body.matches(':hover') || body.contains(document.activeElement);
  const wanted = shown.map((found) => {
    const name = JSON.stringify([found.limit, found.key]);
    if (!rows.has(name)) rows.set(name, row(found, model, look_up));
    tell(rows.get(name), found);
    return [name, rows.get(name)];
  });
  if (is_in_use && rows.size < ROWS_MAX) {
    // Nothing moves away under a pointer or a cursor; what is new comes at the end.
    body.append(...wanted.map(([, element]) => element).filter((element) => !element.isConnected));
  } else {
    const kept = new Map(wanted);
    [...rows].filter(([name]) => !kept.has(name)).forEach(([name, element]) => { element.remove(); rows.delete(name); });
    const elements = [...kept.values()];
    if (elements.some((element, place) => body.children[place] !== element)) body.replaceChildren(...elements);
  }
  byId('refused-none').hidden = rows.size > 0;
  byId('refused').hidden = rows.size === 0;
}

function tell(element, { count: times, error }) {
  const cell = element.querySelector('.num');
  say(cell, `${error ? '≤ ' : ''}${count(times)}`);
  if (error) mark(cell, 'title', `between ${count(times - error)} and ${count(times)}`);
}

function row({ limit: id, key }, model, look_up) {
  const { name } = model.limits.get(id);
  const is_hashed = key.some(({ hashed }) => hashed);
  const parts = key.map(({ attribute, value, hashed }) => h('span', { class: 'part' },
    h('span', { class: 'muted' }, `${attribute} `), h('code', {}, hashed ? `#${value.slice(0, 12)}…` : value)));
  const button = h('button', {
    type: 'button', class: 'small', disabled: is_hashed,
    title: is_hashed ? 'known here by its hash alone; look it up below with its value' : null,
    'aria-label': `Look up ${key.map(({ value }) => value).join(', ')} in ${name}`,
    onclick: () => look_up(name, key),
  }, 'Look up');
  return h('tr', {}, h('td', {}, ...(parts.length ? parts : [h('span', { class: 'muted' }, 'everyone')])), h('td', {}, name),
    h('td', { class: 'num' }), h('td', {}, button));
}
