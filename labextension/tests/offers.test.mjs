import { load, makeServer, settle, trans } from './support.mjs';

import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';

const { leftBehind, Offers, offerText, restoreCode } = load('offers');

const snapshot = (changes = {}) => ({
  id: '0123456789abcdef012345',
  name: 'auto',
  created_ms: Date.UTC(2026, 11, 2, 14, 32),
  kernel_id: 'old',
  total_bytes: 1.2 * 2 ** 30,
  restore_seconds: 2.6,
  last_words: true,
  ...changes
});

let server, shown, said, running, offers;

beforeEach(() => {
  server = makeServer();
  [shown, said, running] = [[], [], new Set(['new'])];
  const board = {
    offer: (message, button, accept) => shown.push({ message, button, accept }),
    say: (message, ok) => said.push([message, ok])
  };
  const { settings: serverSettings } = server;
  offers = new Offers({ serverSettings, trans, board, running: () => running });
  server.answer = { status: 200, body: [snapshot()] };
});

/** A kernel that runs one cell, as told. */
const kernel = (content, outputs = [], id = 'new') => {
  const ran = [];
  return {
    id,
    ran,
    requestExecute: ({ code, store_history }) => {
      ran.push([code, store_history]);
      const future = {};
      future.done = Promise.resolve().then(() => {
        for (const data of outputs) {
          future.onIOPub({ header: { msg_type: 'display_data' }, content: { data } });
        }
        return { content };
      });
      return future;
    }
  };
};

test('what a kernel left behind that is gone is offered, and nothing of one that lives', () => {
  const newest = snapshot({ id: 'b' });
  const older = snapshot({ id: 'a' });
  assert.equal(leftBehind([newest, older], 'new', false, new Set(['new'])), newest);
  assert.equal(leftBehind([newest], 'new', false, new Set(['new', 'old'])), null);
  assert.equal(leftBehind([snapshot({ last_words: false })], 'new', false, new Set()), null);
});

test('the same kernel has left something behind only when it died', () => {
  assert.equal(leftBehind([snapshot()], 'old', false, new Set(['old'])), null);
  assert.equal(leftBehind([snapshot()], 'old', true, new Set(['old'])).kernel_id, 'old');
});

test('an offer says when, how much and how long', () => {
  const text = offerText(snapshot(), trans);
  assert.match(text, /1\.2 GiB, about 3 s\)\?$/);
  assert.match(text, /26/);
  assert.match(offerText(snapshot({ total_bytes: 9 }), trans), /less than 1 MiB/);
});

test('a snapshot is offered once, and restored when that is accepted', async () => {
  const mine = kernel({ status: 'ok' }, [{ 'text/plain': 'Restored “auto”.' }]);
  await offers.look('course/a b.ipynb', mine, false);
  await offers.look('course/a b.ipynb', mine, false);
  assert.equal(shown.length, 1);
  assert.equal(shown[0].button, 'Restore');
  assert.deepEqual(mine.ran, []);
  shown[0].accept();
  await settle();
  assert.deepEqual(mine.ran, [[restoreCode(snapshot().id), false]]);
  assert.deepEqual(said, [['Restored “auto”.', true]]);
});

test('a restore that fails says why', async () => {
  await offers.look('a.ipynb', kernel({ status: 'error', evalue: 'It is damaged.' }), false);
  shown[0].accept();
  await settle();
  assert.deepEqual(said, [['The state was not restored: It is damaged.', false]]);
});

test('a server without a pool offers nothing and disturbs nobody', async () => {
  server.answer = { status: 503, body: { message: 'No pool was found.' } };
  await offers.look('a.ipynb', kernel({ status: 'ok' }), true);
  assert.deepEqual([shown, said], [[], []]);
});
