// The fleet: every replica on the store, and their sums. All other numbers of the page are those of one replica.

import { byId, h, rebuild, setAttr, setText } from './dom.js';
import { count, dateTime, duration, rate } from './format.js';

/** A fleet that could not be read for longer than this is shown with its age. */
const FRESH_MS = 5000;

/** Shows the fleet of the last `now` event. */
export function showFleet(model) {
  const { fleet } = model.now.status;
  const is_old = fleet.shared && (fleet.age_ms === null || (fleet.error !== null && fleet.age_ms > FRESH_MS));

  showPill(fleet, is_old);
  setText(byId('replica'), fleet.replica);
  setText(byId('fleet-count'), fleet.shared ? replicas(fleet.seen) : 'memory store');
  setText(byId('fleet-rate'), rate(fleet.per_second));
  setText(byId('fleet-allowed'), count(fleet.decisions.allowed));
  setText(byId('fleet-denied'), count(fleet.decisions.denied));
  setText(byId('fleet-shadow'), count(fleet.decisions.shadow_denied));
  setText(byId('fleet-age'), is_old ? age(fleet) : '');
  rebuild(byId('fleet-findings'), fleet.findings, () => fleet.findings.map(finding));
  rebuild(byId('fleet-table').tBodies[0], fleet.replicas.map(shown), () => fleet.replicas.map(row));
  const omitted = fleet.seen - fleet.replicas.length;
  setText(byId('fleet-omitted'), omitted ? `${count(omitted)} more at /admin/fleet` : '');
}

/** Notices of [name, kind, title, text], as the head of the page shows them. */
export function fleetNotices({ findings }) {
  const warnings = findings.filter(({ is_warning }) => is_warning);
  return warnings.map(({ kind, message }) => [`fleet ${kind}`, 'warn', TITLES[kind] ?? 'The fleet needs attention.', `${message}.`]);
}

const TITLES = {
  configurations_differ: 'Replicas have different configurations.',
  replica_count: 'The number of replicas is not as configured.',
};

const replicas = (number) => (number === 1 ? '1 replica' : `${count(number)} replicas`);

function showPill(fleet, is_old) {
  const has_warning = fleet.findings.some(({ is_warning }) => is_warning);
  setAttr(byId('pill-fleet'), 'data-state', has_warning || is_old ? 'bad' : 'ok');
  setText(byId('pill-fleet'), fleet.shared ? `one of ${replicas(fleet.seen)}` : 'counts alone');
}

const age = ({ age_ms, error }) =>
  `${age_ms === null ? 'not read yet' : `as of ${duration(Math.round(age_ms / 1000) * 1000)} ago`}${error ? `: ${error}` : ''}`;

const finding = ({ is_warning, message }) => h('li', { class: is_warning ? 'bad' : 'muted' }, message);

/** What a row shows of a replica, without what changes all the time. */
const shown = ({ seen_ms_ago, ...replica }) => replica;

const state = ({ degraded, store_up }) => (degraded ? 'degraded' : store_up ? 'ok' : 'store unavailable');

function row(replica) {
  const { decisions } = replica;
  const is_bad = replica.degraded || !replica.store_up;
  return h('tr', { 'data-replica': replica.name },
    h('th', { scope: 'row' }, replica.name, replica.this ? h('span', { class: 'muted' }, ' this replica') : null),
    h('td', { class: is_bad ? 'bad' : null }, state(replica)),
    h('td', {}, h('code', {}, replica.config)),
    h('td', {}, replica.version),
    h('td', {}, dateTime(replica.started_at_ms)),
    ...[rate(replica.per_second), count(decisions.allowed), count(decisions.denied), count(decisions.shadow_denied)]
      .map((number) => h('td', { class: 'num' }, number)));
}
