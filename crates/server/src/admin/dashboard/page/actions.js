// The panel in which operators act on the key of the form beside it, and undo what is in force.

import { ApiError, request } from './api.js';
import { byId, h, rebuild, setText } from './dom.js';
import { duration } from './format.js';
import { chosenKey } from './key-form.js';

const KINDS = ['blocks', 'exemptions', 'overrides', 'shadows'];
const REFRESH_MS = 5000;
// How long a change waits until all replicas know of it.
const WAIT = 'wait=2s';

export function startActions() {
  byId('act-kind').addEventListener('change', showFields);
  byId('act-form').addEventListener('submit', (event) => { event.preventDefault(); act(); });
  showFields();
  setInterval(() => refresh().catch(() => {}), REFRESH_MS);
  refresh().catch(() => {});
}

function showFields() {
  byId('act-multiply-label').hidden = byId('act-kind').value !== 'overrides';
}

/** Sends what the form says about the key that is entered in the form for looking up a key. */
async function act() {
  const kind = byId('act-kind').value;
  const { limit, key } = chosenKey();
  const body = { limit, for: byId('act-for').value, reason: byId('act-reason').value, by: byId('act-by').value };
  if (kind === 'shadows') body.shadow = true;
  else body.key = key;
  if (kind === 'overrides') body.multiply = Number(byId('act-multiply').value);
  try {
    const { id, replicas } = await request(`/admin/${kind}?${WAIT}`, 'POST', body);
    sayChanged(`Done: ${id}`, replicas);
    await refresh();
  } catch (error) {
    say(error instanceof ApiError ? error.message : 'the service does not respond', 'bad');
  }
}

async function undo(kind, id) {
  try {
    const { replicas } = await request(`/admin/${kind}/${encodeURIComponent(id)}?${WAIT}`, 'DELETE');
    sayChanged(`Undone: ${id}`, replicas);
    await refresh();
  } catch (error) {
    say(error instanceof ApiError ? error.message : 'the service does not respond', 'bad');
  }
}

/** Says which replicas know of a change. */
function sayChanged(text, { seen, current, behind }) {
  if (behind.length > 0) say(`${text}. ${current} of ${seen} replicas know; not yet: ${behind.join(', ')}`, 'bad');
  else if (seen > 1) say(`${text}. All ${seen} replicas know.`);
  else say(text);
}

function say(text, tone = '') {
  byId('act-answer').replaceChildren(h('p', { class: tone }, text));
}

async function refresh() {
  const lists = await Promise.all(KINDS.map(async (kind) => {
    const body = await request(`/admin/${kind}`);
    return body[kind].map((action) => ({ ...action, plural: kind }));
  }));
  const actions = lists.flat().sort((one, other) => other.created_at_ms - one.created_at_ms);
  byId('actions-none').hidden = actions.length > 0;
  // The time left changes all the time. Only its text is replaced, so that no button moves under the pointer.
  const stable = actions.map(({ expires_in_ms: _, ...rest }) => rest);
  const body = byId('actions').tBodies[0];
  rebuild(body, stable, () => actions.map(row));
  actions.forEach(({ expires_in_ms: left_ms }, index) => setText(body.rows[index].cells[3], duration(left_ms)));
}

function row(action) {
  const target = action.network ?? (action.key ?? []).map(({ attribute, value, hashed }) => `${attribute} ${hashed ? '#' : ''}${value}`).join(', ');
  const change = action.multiply ? ` × ${action.multiply}` : action.tier ? ` ${action.tier}` : action.quota ? ` ${JSON.stringify(action.quota)}` : '';
  const kind = action.shadow === false ? 'enforced' : action.kind;
  const button = h('button', {
    type: 'button', class: 'small', 'aria-label': `Undo ${action.id}`,
    onclick: () => undo(action.plural, action.id),
  }, 'Undo');
  return h('tr', { 'data-action': action.id },
    h('td', {}, `${kind}${change}`), h('td', {}, action.limit), h('td', {}, target || 'all keys'),
    h('td', {}, duration(action.expires_in_ms)), h('td', {}, action.by),
    h('td', {}, action.ignored ? `${action.reason} (ignored: ${action.ignored})` : action.reason), h('td', {}, button));
}
