// One key: where it stands, and a fresh start.

import { byId, h } from './dom.js';
import { Refusal, ask } from './server.js';
import { count, length } from './words.js';

const SURE_MS = 4000;
let rules = new Map();
/** The question that was answered last; a reset is of that key and of no other. */
let asked = null;

export function startKey() {
  byId('key-limit').addEventListener('change', () => { fields(); forget(); });
  byId('key-parts').addEventListener('input', forget);
  byId('key-form').addEventListener('submit', (event) => { event.preventDefault(); lookUp(); });
  byId('key-reset').addEventListener('click', reset);
}

/** The limits that can be asked about. What is chosen and written stays. */
export function takeRules(by_name) {
  rules = by_name;
  const select = byId('key-limit');
  const chosen = select.value;
  select.replaceChildren(...[...rules.keys()].map((name) => h('option', { value: name }, name)));
  if (rules.has(chosen)) select.value = chosen; 
  else forget();
  fields();
}

/** A field for each part of the key; a part with alternatives has a choice of them. */
function fields() {
  const rule = rules.get(byId('key-limit').value);
  const names = (rule?.key ?? []).concat(rule?.tiers ? [rule.tiers.by] : []);
  const box = byId('key-parts');
  if (box.dataset.names === JSON.stringify(names)) return;
  box.dataset.names = JSON.stringify(names);
  box.replaceChildren(...names.map((name, place) => {
    const is_tier = place === (rule?.key ?? []).length;
    const choices = name.split(' | ');
    const input = h('input', { 'data-attribute': choices[0], autocomplete: 'off', spellcheck: 'false', required: !is_tier, placeholder: is_tier ? rule.tiers.default : null });
    if (choices.length === 1) return h('label', {}, is_tier ? `${name} (tier)` : name, input);
    input.setAttribute('aria-label', `value of ${name}`);
    const choice = h('select', { 'aria-label': `which of ${name}`, onchange: () => { input.dataset.attribute = choice.value; } },
      ...choices.map((one) => h('option', { value: one }, one)));
    return h('label', {}, choice, input);
  }));
}

/** Fills the form and asks, for whoever chose a key elsewhere. */
export function lookUpKey(limit, key) {
  byId('key-limit').value = limit;
  fields();
  const inputs = [...byId('key-parts').querySelectorAll('input')];
  key.forEach(({ attribute, value }, place) => {
    const choice = inputs[place]?.parentElement.querySelector('select');
    if (choice) choice.value = attribute;
    if (inputs[place]) Object.assign(inputs[place], { value }).dataset.attribute = attribute;
  });
  byId('key-title').scrollIntoView({ block: 'nearest' });
  lookUp();
}

function question() {
  const pairs = [['limit', byId('key-limit').value]];
  for (const input of byId('key-parts').querySelectorAll('input')) {
    if (input.value) pairs.push([input.dataset.attribute, input.value]);
  }
  return `/admin/keys?${pairs.map((pair) => pair.map(encodeURIComponent).join('=')).join('&')}`;
}

function forget() {
  asked = null;
  ready(false);
  byId('key-answer').replaceChildren();
}

function ready(is_ready) {
  const button = byId('key-reset');
  button.disabled = !is_ready;
  button.textContent = 'Reset';
  button.classList.remove('danger');
}

async function lookUp() {
  const path = question();
  try {
    const found = await ask(path);
    asked = path;
    ready(true);
    answer(found);
  } catch (error) {
    ready(false);
    refused(error);
  }
}

/** The first press asks, the second one does it. */
async function reset() {
  const button = byId('key-reset');
  if (!button.classList.contains('danger')) {
    button.classList.add('danger');
    button.textContent = 'Really reset?';
    setTimeout(() => { if (asked) ready(true); }, SURE_MS);
    return;
  }
  ready(true);
  const path = asked;
  try {
    await ask(path, 'DELETE');
    answer(await ask(path), 'Reset. ');
  } catch (error) {
    refused(error);
  }
}

function answer({ name, limit, remaining, reset_after_ms: full, retry_after_ms: retry, key, tier, source, degraded }, first = '') {
  const facts = [
    ['remaining', `${count(remaining)} of ${count(limit)}`],
    ['next request', retry ? `refused for ${length(retry)}` : 'passes'],
    ['unused again in', full ? length(full) : 'now'],
    tier && ['tier', tier],
    ['told by', degraded ? `${source}: the store is away` : source.replace('_', ' ')],
    ...key.map((part) => [part.attribute, part.hashed ? `#${part.value}` : part.value]),
  ].filter(Boolean);
  byId('key-answer').replaceChildren(
    h('p', { class: 'hidden' }, `${first}${name}: ${remaining} of ${limit} remaining.`),
    h('dl', { class: 'facts', 'data-remaining': remaining }, h('div', {}, h('dt', {}, 'limit'), h('dd', {}, `${first}${name}`)),
      ...facts.map(([term, text]) => h('div', {}, h('dt', {}, term), h('dd', {}, text)))));
}

function refused(error) {
  const text = error instanceof Refusal ? error.message : 'the service does not answer';
  byId('key-answer').replaceChildren(h('p', { class: 'bad' }, text));
}
