// Connects the parts: events update the model, and the model is rendered at most once per frame.

import { startActions } from './actions.js';
import { onTokenRequired, request, subscribe } from './api.js';
import { byId, h } from './dom.js';
import { showFleet } from './fleet.js';
import { lookUpKey, setRules, startKeyForm } from './key-form.js';
import { showLimits, startLimits } from './limits.js';
import { Model } from './model.js';
import { readColors } from './plot.js';
import { showAll, showConnection, showStatus, startSummary } from './summary.js';
import { refreshTopKeys, startTopKeys } from './top-keys.js';

const THEME = 'tollgate-theme';
const model = new Model();
let is_scheduled = false;

function scheduleRender() {
  if (is_scheduled) return;
  is_scheduled = true;
  requestAnimationFrame(() => { is_scheduled = false; render(); });
}

function render() {
  if (!model.is_live) return;
  const span_s = Number(byId('span').value);
  showStatus(model);
  showFleet(model);
  showAll(model, span_s);
  showLimits(model, span_s);
  refreshTopKeys(lookUpKey);
}

/** Fetches the rules of the limits, which change only with the configuration. */
async function fetchRules() {
  const { limits } = await request('/admin/limits');
  model.rules = new Map(limits.map((rule) => [rule.name, rule]));
  setRules(model.rules);
  scheduleRender();
}

const EVENT_HANDLERS = {
  limits: (limits) => { model.setLimits(limits); fetchRules().catch(() => {}); },
  sample: (sample) => {
    model.addSample(sample);
    // Tests wait for this number of samples.
    document.body.dataset.samples = Number(document.body.dataset.samples ?? 0) + 1;
  },
  now: (now) => {
    const is_reloaded = model.now && model.now.status.config.reloads !== now.status.config.reloads;
    model.setNow(now);
    if (is_reloaded) fetchRules().catch(() => {});
  },
};

function promptForToken(was_rejected) {
  const dialog = byId('token-dialog');
  byId('token-wrong').textContent = was_rejected ? 'Invalid token.' : '';
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
    readColors();
    scheduleRender();
  };
  select.value = localStorage.getItem(THEME) ?? 'auto';
  select.addEventListener('change', () => { localStorage.setItem(THEME, select.value); apply(); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', apply);
  apply();
}

async function reload() {
  const button = byId('reload');
  button.disabled = true;
  // The next event has the result, except for 409: the service has no configuration file.
  await request('/admin/reload', 'POST').catch((error) => {
    if (error.status === 409) byId('config').append(h('div', {}, h('dd', {}, error.message)));
  });
  button.disabled = false;
}

/** Concurrent calls share one promise, so that several requests without a token open one dialog. */
function shareCall(work) {
  let in_flight = null;
  return (argument) => in_flight ??= work(argument).finally(() => { in_flight = null; });
}

onTokenRequired(shareCall(promptForToken));
startTheme();
startKeyForm();
startActions();
startSummary(scheduleRender);
startLimits(scheduleRender);
startTopKeys(lookUpKey);
byId('span').addEventListener('change', render);
byId('reload').addEventListener('click', reload);
addEventListener('resize', scheduleRender);
subscribe({
  on_event: (name, data) => { EVENT_HANDLERS[name]?.(data); scheduleRender(); },
  on_open: () => { model.clear(); showConnection(true); },
  on_lost: (reason) => showConnection(false, reason),
});
