// Whoever is limited most, from the server's own short list.

import { byId, h, refill } from './dom.js';
import { count } from './words.js';

export function showRefused(model, look_up) {
  const { refused } = model.now;
  const shown = refused.filter(({ limit }) => model.limits.has(limit));
  byId('refused-none').hidden = shown.length > 0;
  byId('refused').hidden = shown.length === 0;
  refill(byId('refused').tBodies[0], shown, () => shown.map((found) => row(found, model, look_up)));
}

function row({ limit: id, key, count: times, error }, model, look_up) {
  const { name } = model.limits.get(id);
  const is_hashed = key.some(({ hashed }) => hashed);
  const parts = key.map(({ attribute, value, hashed }) => h('span', { class: 'part' },
    h('span', { class: 'muted' }, `${attribute} `), h('code', {}, hashed ? `#${value.slice(0, 12)}…` : value)));
  const about = error ? `, ${count(times - error)} to ${count(times)}` : '';
  const button = h('button', {
    type: 'button', class: 'small', disabled: is_hashed,
    title: is_hashed ? 'known here by its hash alone; look it up below with its value' : null,
    'aria-label': `Look up ${key.map(({ value }) => value).join(', ')} in ${name}`,
    onclick: () => look_up(name, key),
  }, 'Look up');
  return h('tr', {}, h('td', {}, ...(parts.length ? parts : [h('span', { class: 'muted' }, 'everyone')])), h('td', {}, name),
    h('td', { class: 'num', title: about ? `between${about.slice(1)}` : null }, `${error ? '≤ ' : ''}${count(times)}`), h('td', {}, button));
}
