// The form that looks up and resets one key.

import { ApiError, request } from './api.js';
import { byId, h } from './dom.js';
import { count, duration } from './format.js';

const CONFIRM_MS = 4000;
let rules = new Map();
/** The path of the last successful lookup. A reset applies to exactly that key. */
let looked_up = null;

export function startKeyForm() {
  byId('key-limit').addEventListener('change', () => { showFields(); clear(); });
  byId('key-parts').addEventListener('input', clear);
  byId('key-form').addEventListener('submit', (event) => { event.preventDefault(); lookUp(); });
  byId('key-reset').addEventListener('click', reset);
}

/** Sets the limits that can be chosen. The choice and the entered values stay. */
export function setRules(by_name) {
  rules = by_name;
  const select = byId('key-limit');
  const chosen = select.value;
  select.replaceChildren(...[...rules.keys()].map((name) => h('option', { value: name }, name)));
  if (rules.has(chosen)) select.value = chosen;
  else clear();
  showFields();
}

/** Shows a field for each part of the key. A part with alternatives gets a select to choose one. */
function showFields() {
  const rule = rules.get(byId('key-limit').value);
  const names = (rule?.key ?? []).concat(rule?.tiers ? [rule.tiers.by] : []);
  const box = byId('key-parts');
  if (box.dataset.names === JSON.stringify(names)) return;

  box.dataset.names = JSON.stringify(names);
  box.replaceChildren(...names.map((name, index) => {
    const is_tier = index === (rule?.key ?? []).length;
    const choices = name.split(' | ');
    const input = h('input', {
      'data-attribute': attributeOf(choices[0]), autocomplete: 'off', spellcheck: 'false',
      required: !is_tier, placeholder: is_tier ? rule.tiers.default : null,
    });
    if (choices.length === 1) return h('label', {}, is_tier ? `${name} (tier)` : name, input);

    input.setAttribute('aria-label', `value of ${name}`);
    const select = h('select', { 'aria-label': `which of ${name}`, onchange: () => { input.dataset.attribute = select.value; } },
      ...choices.map((choice) => h('option', { value: attributeOf(choice) }, choice)));
    return h('label', {}, select, input);
  }));
}

/** The attribute of a key's part without its functions: `email` for `lower(email)`. */
function attributeOf(part) {
  const call = /^[a-z]+\((.*)\)$/.exec(part);
  return call ? attributeOf(call[1]) : part;
}

/** Fills in the form and looks up the key. */
export function lookUpKey(limit, key) {
  byId('key-limit').value = limit;
  showFields();
  const inputs = [...byId('key-parts').querySelectorAll('input')];
  key.forEach(({ attribute, value }, index) => {
    const select = inputs[index]?.parentElement.querySelector('select');
    if (select) select.value = attribute;
    if (inputs[index]) Object.assign(inputs[index], { value }).dataset.attribute = attribute;
  });
  byId('key-title').scrollIntoView({ block: 'nearest' });
  lookUp();
}

/** The limit and the key that are entered, as the admin API takes them. */
export function chosenKey() {
  const parts = rules.get(byId('key-limit').value)?.key.length ?? 0;
  const inputs = [...byId('key-parts').querySelectorAll('input')].slice(0, parts);
  const key = Object.fromEntries(inputs.map((input) => [input.dataset.attribute, input.value]));
  return { limit: byId('key-limit').value, key };
}

function path() {
  const pairs = [['limit', byId('key-limit').value]];
  for (const input of byId('key-parts').querySelectorAll('input')) {
    if (input.value) pairs.push([input.dataset.attribute, input.value]);
  }
  return `/admin/keys?${pairs.map((pair) => pair.map(encodeURIComponent).join('=')).join('&')}`;
}

function clear() {
  looked_up = null;
  enableReset(false);
  byId('key-answer').replaceChildren();
}

function enableReset(is_enabled) {
  const button = byId('key-reset');
  button.disabled = !is_enabled;
  button.textContent = 'Reset';
  button.classList.remove('danger');
}

async function lookUp() {
  const wanted = path();
  try {
    const key = await request(wanted);
    looked_up = wanted;
    enableReset(true);
    showKey(key);
  } catch (error) {
    enableReset(false);
    showError(error);
  }
}

/** The first press asks for confirmation, the second one resets the key. */
async function reset() {
  const button = byId('key-reset');
  if (!button.classList.contains('danger')) {
    button.classList.add('danger');
    button.textContent = 'Really reset?';
    setTimeout(() => { if (looked_up) enableReset(true); }, CONFIRM_MS);
    return;
  }

  enableReset(true);
  const wanted = looked_up;
  try {
    await request(wanted, 'DELETE');
    showKey(await request(wanted), 'Reset. ');
  } catch (error) {
    showError(error);
  }
}

function showKey({ name, limit, remaining, reset_after_ms: reset_ms, retry_after_ms: retry_ms, key, tier, source, degraded }, prefix = '') {
  const facts = [
    ['remaining', `${count(remaining)} of ${count(limit)}`],
    ['next request', retry_ms ? `denied for ${duration(retry_ms)}` : 'allowed'],
    ['full again in', reset_ms ? duration(reset_ms) : 'now'],
    tier && ['tier', tier],
    ['source', degraded ? `${source}: store unavailable` : source.replace('_', ' ')],
    ...key.map((part) => [part.attribute, part.hashed ? `#${part.value}` : part.value]),
  ].filter(Boolean);

  byId('key-answer').replaceChildren(
    h('p', { class: 'hidden' }, `${prefix}${name}: ${remaining} of ${limit} remaining.`),
    h('dl', { class: 'facts', 'data-remaining': remaining },
      h('div', {}, h('dt', {}, 'limit'), h('dd', {}, `${prefix}${name}`)),
      ...facts.map(([term, text]) => h('div', {}, h('dt', {}, term), h('dd', {}, text)))));
}

function showError(error) {
  const text = error instanceof ApiError ? error.message : 'the service does not respond';
  byId('key-answer').replaceChildren(h('p', { class: 'bad' }, text));
}
