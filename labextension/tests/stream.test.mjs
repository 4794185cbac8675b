import { load, makeServer, page, settle } from './support.mjs';

import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';

const { PoolStream } = load('stream');
const LONGEST_MS = 30_000;

let server, stream, states;

beforeEach(() => {
  mock.timers.enable({ apis: ['setTimeout'] });
  server = makeServer();
  stream = new PoolStream(server.settings);
  states = [];
  stream.stateChanged.connect((_, state) => states.push(state.kind));
  stream.connect();
});

afterEach(() => {
  stream.dispose();
  page.show(true);
  mock.timers.reset();
});

async function fail() {
  server.sockets.at(-1).fail();
  await settle();
  await settle();
}

test('the channel is the server’s own, token and odd characters included', () => {
  assert.deepEqual(
    server.sockets.map(socket => socket.url),
    ['ws://here/user/a%40b%20c/jupyter_gpupool/api/v1/stream?token=a%20token']
  );
});

test('a lost channel is opened again', async () => {
  server.sockets[0].open();
  await fail();
  assert.equal(server.sockets.length, 1);
  mock.timers.tick(500);
  assert.equal(server.sockets.length, 2);
  server.sockets[1].open();
  assert.deepEqual(states, ['open', 'lost', 'open']);
});

test('a channel that comes back says which message it had last, and one without marks says nothing', async () => {
  const socket = server.sockets[0];
  socket.open();
  socket.say({ type: 'status', state: 'connected', message: '', hint: '' });
  await fail();
  mock.timers.tick(500);
  assert.ok(!server.sockets[1].url.includes('after'));
  server.sockets[1].open();
  server.sockets[1].say({ type: 'kernels', kernels: [], mark: 'ab12-7' });
  server.sockets[1].say({ type: 'status', state: 'connected', message: '', hint: '' });
  await fail();
  mock.timers.tick(500);
  assert.equal(
    server.sockets[2].url,
    'ws://here/user/a%40b%20c/jupyter_gpupool/api/v1/stream?after=ab12-7&token=a%20token'
  );
});

test('the pauses grow, also for a server that accepts and closes at once, up to half a minute', async () => {
  for (let tries = 0; tries < 10; tries++) {
    server.sockets.at(-1).open();
    await fail();
    mock.timers.tick(LONGEST_MS);
  }
  const before = server.sockets.length;
  await fail();
  mock.timers.tick(LONGEST_MS / 2 - 1);
  assert.equal(server.sockets.length, before);
  mock.timers.tick(LONGEST_MS / 2 + 1);
  assert.equal(server.sockets.length, before + 1);
});

for (const status of [401, 403, 404]) {
  test(`after a ${status} nothing is tried again until a person asks`, async () => {
    server.answer = { status, body: {} };
    await fail();
    assert.deepEqual(stream.state, { kind: 'stopped', status });
    mock.timers.tick(10 * LONGEST_MS);
    page.show(true);
    assert.equal(server.sockets.length, 1);
    stream.connect();
    assert.equal(server.sockets.length, 2);
    assert.equal(stream.state.kind, 'connecting');
  });
}

test('a refusal that may pass is tried again', async () => {
  server.answer = { status: 503, body: {} };
  await fail();
  mock.timers.tick(500);
  assert.equal(server.sockets.length, 2);
});

test('a hidden page opens nothing, and comes back when it is shown', async () => {
  server.sockets[0].open();
  page.show(false);
  await fail();
  mock.timers.tick(10 * LONGEST_MS);
  assert.equal(server.sockets.length, 1);
  page.show(true);
  assert.equal(server.sockets.length, 2);
});

test('after dispose nothing is opened', async () => {
  server.sockets[0].open();
  await fail();
  stream.dispose();
  mock.timers.tick(10 * LONGEST_MS);
  page.show(true);
  assert.equal(server.sockets.length, 1);
});
