import { device, lease, load, pool, state, trans } from './support.mjs';

import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';

const { Alerts } = load('alerts');
const { parseSettings } = load('settings');

let alerts;
const told = (leases, changes = {}, more = {}) =>
  alerts.next(state({ ...pool(leases), ...changes }, more)).map(alert => alert.message);

beforeEach(() => {
  alerts = new Alerts(trans, () => 'work.ipynb');
});

test('a share that is granted after a wait is told, one that was there before is not', () => {
  const waits = lease({ state: 'queued', position: 1, shares: [] });
  assert.deepEqual(told([lease({ id: 'old', waited_seconds: 99 }), waits]), []);
  assert.deepEqual(told([lease({ waited_seconds: 130 })]), [
    'work.ipynb: 0.25 of cpu is granted, after 2 min.'
  ]);
  assert.deepEqual(told([lease({ waited_seconds: 130 })]), []);
});

test('a grant at once is no news', () => {
  told([lease({ state: 'queued', shares: [] })]);
  assert.deepEqual(told([lease({ waited_seconds: 1 })]), []);
});

test('a lease that is about to be taken back is told once, with what keeps it', () => {
  told([lease()]);
  const [alert] = alerts.next(state(pool([lease({ reclaim_seconds: 60 })])));
  assert.match(alert.message, /taken back in 1 min/);
  assert.equal(alert.keep, 'lease_1');
  assert.deepEqual(told([lease({ reclaim_seconds: 59 })]), []);
});

test('memory is told once, and again only after it was well below', () => {
  const uses = percent => told([lease({ memory_bytes: 100, memory_used_bytes: percent })]);
  assert.equal(uses(91).length, 1);
  assert.equal(uses(88).length, 0);
  assert.equal(uses(92).length, 0);
  assert.equal(uses(70).length, 0);
  assert.equal(uses(95).length, 1);
});

test('a failing device is told to who has a lease on it', () => {
  const bad = device({ id: 'CPU-1', name: 'cpu', health: 'failed', health_reason: 'It broke.' });
  assert.deepEqual(told([lease({ mine: false })], { devices: [bad] }), []);
  assert.deepEqual(told([lease()], { devices: [bad] }), [
    'work.ipynb: its device cpu is failing. It broke.'
  ]);
  assert.deepEqual(told([lease()], { devices: [bad] }), []);
});

test('what a person switched off is not told', () => {
  const settings = parseSettings({ notifications: { memory: false } });
  const full = lease({ memory_bytes: 100, memory_used_bytes: 99 });
  assert.deepEqual(told([full], {}, { settings }), []);
});

test('an end is told when nobody asked for it', () => {
  const before = pool([lease(), lease({ id: 'other', mine: false })]);
  assert.deepEqual(
    alerts.gone(before, pool()).map(it => it.id),
    ['lease_1']
  );
  assert.equal(alerts.ended(lease({ end_reason: 'released' })), null);
  assert.match(alerts.ended(lease({ end_reason: 'hold_expired' })).message, /has expired/);
  const lost = lease({ end_reason: 'agent_lost', end_detail: 'Its node is away.' });
  assert.equal(alerts.ended(lost).message, 'work.ipynb: its lease has ended. Its node is away.');
});
