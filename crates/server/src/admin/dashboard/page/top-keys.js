// The table of the heaviest keys, over all replicas. The page asks for it while it is visible.

import { request } from './api.js';
import { byId, h, setAttr, setText } from './dom.js';
import { count } from './format.js';

/** How often the list is fetched. */
const FETCH_MS = 2000;
/** The most keys in the list. */
const KEYS_MAX = 20;
/** The most rows of a table that cannot be reordered because it is in use. */
const ROWS_MAX = 40;
/** Rows by limit and key. A row keeps its element while its count changes, so that no click or focus is lost. */
const rows = new Map();
let fetched_at = -FETCH_MS;
let is_fetching = false;

/** Fetches the list again when the user chooses another one. */
export function startTopKeys(look_up) {
  for (const id of ['top-by', 'top-minutes']) {
    byId(id).addEventListener('change', () => { fetched_at = -FETCH_MS; rows.clear(); refreshTopKeys(look_up); });
  }
}

/** Fetches the list, if the last one is old enough. */
export async function refreshTopKeys(look_up) {
  if (is_fetching || document.hidden || performance.now() - fetched_at < FETCH_MS) return;
  is_fetching = true;
  fetched_at = performance.now();
  const [by, minutes] = [byId('top-by').value, byId('top-minutes').value];
  try {
    const top = await request(`/admin/top?by=${by}&minutes=${minutes}&count=${KEYS_MAX}`);
    // A list that was asked for before the user chose another one is not shown.
    if (by === byId('top-by').value && minutes === byId('top-minutes').value) show(top, look_up);
  } catch {
    // The connection to the event stream shows that the service does not respond.
  } finally {
    is_fetching = false;
  }
}

function show({ keys, replicas }, look_up) {
  const body = byId('top-keys').tBodies[0];
  const is_in_use = body.matches(':hover') || body.contains(document.activeElement);
  const wanted = keys.map((entry) => {
    const id = JSON.stringify([entry.limit, entry.key]);
    if (!rows.has(id)) rows.set(id, row(entry, look_up));
    showUnits(rows.get(id), entry);
    return [id, rows.get(id)];
  });

  if (is_in_use && rows.size < ROWS_MAX) {
    // Rows under the pointer or the focus do not move; new ones are appended.
    body.append(...wanted.map(([, element]) => element).filter((element) => !element.isConnected));
  } else {
    const kept = new Map(wanted);
    [...rows].filter(([id]) => !kept.has(id)).forEach(([id, element]) => { element.remove(); rows.delete(id); });
    const elements = [...kept.values()];
    const is_shown = body.children.length === elements.length;
    if (!is_shown || elements.some((element, index) => body.children[index] !== element)) body.replaceChildren(...elements);
  }

  setText(byId('top-replicas'), replicas === 1 ? '1 replica' : `${replicas} replicas`);
  byId('top-keys-none').hidden = rows.size > 0;
  byId('top-keys').hidden = rows.size === 0;
}

function showUnits(element, { units, error, requests, units_per_second }) {
  const [units_cell, rate_cell] = element.querySelectorAll('.num');
  setText(units_cell, `${error ? '≤ ' : ''}${count(units)}`);
  const bounds = error ? `between ${count(units - error)} and ${count(units)} units` : `${count(units)} units`;
  setAttr(units_cell, 'title', `${bounds}, ${error ? 'at least ' : ''}${count(requests)} requests`);
  setText(rate_cell, units_per_second.toFixed(units_per_second < 10 ? 2 : 0));
}

function row({ limit: name, key }, look_up) {
  const is_hashed = key.some(({ hashed }) => hashed);
  const parts = key.map(({ attribute, value, hashed }) => h('span', { class: 'part' },
    h('span', { class: 'muted' }, `${attribute} `), h('code', {}, hashed ? `#${value.slice(0, 12)}…` : value)));
  const button = h('button', {
    type: 'button', class: 'small', disabled: is_hashed,
    title: is_hashed ? 'only the hash is known; enter a value in the form to see its hash' : null,
    'aria-label': `Look up ${key.map(({ value }) => value).join(', ')} in ${name}`,
    onclick: () => look_up(name, key),
  }, 'Look up');
  const cells = parts.length ? parts : [h('span', { class: 'muted' }, 'one counter for all')];
  return h('tr', {}, h('td', {}, ...cells), h('td', {}, name), h('td', { class: 'num' }), h('td', { class: 'num' }), h('td', {}, button));
}
