// Puts the page together: what the server says goes into the model, and once per frame at most the model onto the page.

import { byId, h } from './dom.js';
import { lookUpKey, startKey, takeRules } from './key.js';
import { showLimits, startLimits } from './limits.js';
import { Model } from './model.js';
import { readInks } from './plot.js';
import { showRefused } from './refused.js';
import { ask, listen, onTokenWanted } from './server.js';
import { showAll, showLive, showNow, startSummary } from './summary.js';

const THEME = 'tollgate-theme';
const model = new Model();
let is_planned = false;

function plan() {
  if (is_planned) return;
  is_planned = true;
  requestAnimationFrame(() => { is_planned = false; show(); });
}

function show() {
  if (!model.is_live) return;
  const span_s = Number(byId('span').value);
  showNow(model);
  showAll(model, span_s);
  showLimits(model, span_s);
  showRefused(model, lookUpKey);
}

/** The rules behind the names, which change only when the configuration does. */
async function fetchRules() {
  const { limits } = await ask('/admin/limits');
  model.rules = new Map(limits.map((rule) => [rule.name, rule]));
  takeRules(model.rules);
  plan();
}

const TAKE = {
  limits: (told) => { model.takeLimits(told); fetchRules().catch(() => {}); },
  sample: (sample) => {
    model.takeSample(sample);
    // For whoever wants to know how old the page is, in samples.
    document.body.dataset.samples = Number(document.body.dataset.samples ?? 0) + 1;
  },
  now: (now) => {
    const is_reloaded = model.now && model.now.status.config.reloads !== now.status.config.reloads;
    model.takeNow(now);
    if (is_reloaded) fetchRules().catch(() => {});
  },
};

function wantToken(was_wrong) {
  const dialog = byId('token-dialog');
  byId('token-wrong').textContent = was_wrong ? 'That token is not the right one.' : '';
  if (!dialog.open) dialog.showModal();
  return new Promise((resolve) => {
    byId('token-form').onsubmit = (event) => {
      event.preventDefault();
      const token = byId('token').value;
      byId('token').value = '';
      dialog.close();
      resolve(token);
    };
  });
}

function startTheme() {
  const select = byId('theme');
  const apply = () => {
    if (select.value === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = select.value;
    readInks();
    plan();
  };
  select.value = localStorage.getItem(THEME) ?? 'auto';
  select.addEventListener('change', () => { localStorage.setItem(THEME, select.value); apply(); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', apply);
  apply();
}

async function reload() {
  const button = byId('reload');
  button.disabled = true;
  // What became of it arrives with the next event; only that there is no file is told here alone.
  await ask('/admin/reload', 'POST').catch((error) => {
    if (error.status === 409) byId('config').append(h('div', {}, h('dd', {}, error.message)));
  });
  button.disabled = false;
}

onTokenWanted(oneAtATime(wantToken));
startTheme();
startKey();
startSummary(plan);
startLimits(plan);
byId('span').addEventListener('change', show);
byId('reload').addEventListener('click', reload);
addEventListener('resize', plan);
listen({
  on_event: (name, data) => { TAKE[name]?.(data); plan(); },
  on_open: () => { model.forget(); showLive(true); },
  on_lost: (reason) => showLive(false, reason),
});

/** Several questions that meet a closed door wait for one answer. */
function oneAtATime(work) {
  let under_way = null;
  return (was_wrong) => under_way ??= work(was_wrong).finally(() => { under_way = null; });
}
