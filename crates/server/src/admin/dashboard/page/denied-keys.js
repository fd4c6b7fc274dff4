// The table of the most denied keys.

import { byId, h, setAttr, setText } from './dom.js';
import { count } from './format.js';

/** Rows by limit and key. A row keeps its element while its count changes, so that no click or focus is lost. */
const rows = new Map();
/** The most rows of a table that cannot be reordered because it is in use. */
const ROWS_MAX = 40;

export function showDeniedKeys(model, look_up) {
  const entries = model.now.denied_keys.filter(({ limit }) => model.limits.has(limit));
  const body = byId('denied-keys').tBodies[0];
  const is_in_use = body.matches(':hover') || body.contains(document.activeElement);

  const wanted = entries.map((entry) => {
    const id = JSON.stringify([entry.limit, entry.key]);
    if (!rows.has(id)) rows.set(id, row(entry, model, look_up));
    showCount(rows.get(id), entry);
    return [id, rows.get(id)];
  });

  if (is_in_use && rows.size < ROWS_MAX) {
    // Rows under the pointer or the focus do not move; new ones are appended.
    body.append(...wanted.map(([, element]) => element).filter((element) => !element.isConnected));
  } else {
    const kept = new Map(wanted);
    [...rows].filter(([id]) => !kept.has(id)).forEach(([id, element]) => { element.remove(); rows.delete(id); });
    const elements = [...kept.values()];
    if (elements.some((element, index) => body.children[index] !== element)) body.replaceChildren(...elements);
  }

  byId('denied-keys-none').hidden = rows.size > 0;
  byId('denied-keys').hidden = rows.size === 0;
}

function showCount(element, { count: denials, error }) {
  const cell = element.querySelector('.num');
  setText(cell, `${error ? '≤ ' : ''}${count(denials)}`);
  if (error) setAttr(cell, 'title', `between ${count(denials - error)} and ${count(denials)}`);
}

function row({ limit: id, key }, model, look_up) {
  const { name } = model.limits.get(id);
  const is_hashed = key.some(({ hashed }) => hashed);
  const parts = key.map(({ attribute, value, hashed }) => h('span', { class: 'part' },
    h('span', { class: 'muted' }, `${attribute} `), h('code', {}, hashed ? `#${value.slice(0, 12)}…` : value)));
  const button = h('button', {
    type: 'button', class: 'small', disabled: is_hashed,
    title: is_hashed ? 'only the hash is known; enter the value in the form to look it up' : null,
    'aria-label': `Look up ${key.map(({ value }) => value).join(', ')} in ${name}`,
    onclick: () => look_up(name, key),
  }, 'Look up');
  const cells = parts.length ? parts : [h('span', { class: 'muted' }, 'one counter for all')];
  return h('tr', {}, h('td', {}, ...cells), h('td', {}, name), h('td', { class: 'num' }), h('td', {}, button));
}
