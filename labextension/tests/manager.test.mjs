import { lease, load, makeServer, pool, settle, trans } from './support.mjs';

import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';

const { PoolManager } = load('manager');

let server, manager, socket;

beforeEach(() => {
  mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  server = makeServer();
  manager = new PoolManager({ serverSettings: server.settings, trans });
  socket = server.sockets[0];
  socket.open();
});

afterEach(() => {
  manager.dispose();
  mock.timers.reset();
});

const connected = { type: 'status', state: 'connected', message: '', hint: '' };

test('the newest snapshot and the server’s word make the state', () => {
  assert.equal(manager.state.phase, 'starting');
  socket.say(connected);
  socket.say({ type: 'pool', pool: pool([], 7) });
  socket.say({ type: 'kernels', kernels: [{ kernel_id: 'k', installed: false }] });
  assert.equal(manager.state.phase, 'connected');
  assert.equal(manager.state.pool.revision, 7);
  assert.equal(manager.state.kernels.get('k').installed, false);
});

test('a lost channel keeps the snapshot and says reconnecting', async () => {
  socket.say(connected);
  socket.say({ type: 'pool', pool: pool([lease()]) });
  socket.fail();
  await settle();
  assert.equal(manager.state.phase, 'reconnecting');
  assert.equal(manager.state.pool.leases.length, 1);
});

test('a server without the extension gets one helpful sentence', async () => {
  manager.dispose();
  server.answer = { status: 404, body: {} };
  manager = new PoolManager({ serverSettings: server.settings, trans });
  server.sockets[1].fail();
  await settle();
  await settle();
  assert.equal(manager.state.phase, 'absent');
  assert.match(manager.state.message, /no GPU pool extension/);
  assert.match(manager.state.hint, /Install jupyter_gpupool/);
});

test('elapsed times go on between snapshots, and only while there are any', () => {
  socket.say(connected);
  socket.say({ type: 'pool', pool: pool([lease()]) });
  mock.timers.tick(3000);
  assert.equal(manager.state.age_seconds, 3);
  socket.say({ type: 'pool', pool: pool([]) });
  mock.timers.tick(3000);
  assert.equal(manager.state.age_seconds, 0);
});

test('a release asks the server, and marks the lease until it has answered', async () => {
  const done = manager.release('lease_1');
  assert.ok(manager.state.ending.has('lease_1'));
  await done;
  assert.ok(!manager.state.ending.has('lease_1'));
  assert.deepEqual(server.requests, [
    'DELETE /user/a%40b%20c/jupyter_gpupool/api/v1/leases/lease_1'
  ]);
});

test('a refused cancel says why in the pool’s words, and unmarks the request', async () => {
  server.answer = { status: 404, body: { code: 'unknown_lease', message: 'No such lease.' } };
  await assert.rejects(manager.cancel('lease_1'), { message: 'No such lease.', status: 404 });
  assert.equal(manager.state.ending.size, 0);
});

test('news tell of this person’s leases only', () => {
  const waits = lease({ state: 'queued', position: 2, shares: [] });
  const stranger = lease({ id: 'lease_2', mine: false });
  let revision = 0;
  const told = leases => {
    socket.say({ type: 'pool', pool: pool(leases, ++revision) });
    return manager.state.news;
  };
  assert.equal(told([]), '');
  assert.equal(told([stranger]), '');
  assert.equal(told([stranger, waits]), 'Your request for 0.25 waits at position 2.');
  assert.equal(told([stranger, lease()]), '0.25 of cpu is yours.');
  assert.equal(told([stranger, lease({ compute_milli: 500 })]), 'Your lease is now 0.5 of cpu.');
  assert.equal(told([]), 'Your lease of 0.5 of cpu ended.');
});
