import { load, trans } from './support.mjs';

import assert from 'node:assert/strict';
import { test } from 'node:test';

const { bytes, bytesOf, clock, limitText, partOf, share, strengthName } = load('format');
const GIB = 1024 ** 3;

test('thousandths read as a fraction of one device', () => {
  assert.deepEqual([1, 250, 333, 1000].map(share), ['0.001', '0.25', '0.333', '1']);
});

test('bytes read in the unit that fits', () => {
  assert.deepEqual([0, 320 * 1024 ** 2, 5.25 * GIB, 80 * GIB, 141.2 * GIB].map(bytes), [
    '0 MiB',
    '320 MiB',
    '5.3 GiB',
    '80 GiB',
    '141 GiB'
  ]);
});

test('a part of a whole names the unit once', () => {
  assert.equal(bytesOf(GIB, 4 * GIB, trans), '1 of 4 GiB');
  assert.equal(bytesOf(GIB / 4, 4 * GIB, trans), '256 MiB of 4 GiB');
});

test('seconds read as a clock', () => {
  assert.deepEqual([-1, 7.9, 760, 11109].map(clock), ['0:00', '0:07', '12:40', '3:05:09']);
});

test('a limit that nobody has looked at yet is not in force, whatever its strength', () => {
  const said = (strength, verified) => strengthName({ strength, verified }, trans);
  assert.equal(said('hard', 'pending'), 'not yet in force');
  assert.equal(said('hard', 'read-back'), 'hard limit');
  assert.equal(said('none', 'read-back'), 'no limit');
});

test('thousandths of a GPU read as the sevenths they are', () => {
  assert.deepEqual([142, 285, 428, 571, 500, 250, 123].map(partOf), [
    '1/7',
    '2/7',
    '3/7',
    '4/7',
    '1/2',
    '1/4',
    '0.123'
  ]);
});

test('a strength is never said without its mechanism', () => {
  const said = (strength, mechanism, verified = 'read-back', isPromise = false) =>
    limitText({ strength, mechanism, verified }, isPromise, trans);
  assert.equal(said('soft', 'soft RLIMIT_DATA'), 'soft limit by RLIMIT_DATA');
  assert.equal(said('hard', 'MIG', 'pending'), 'not yet in force (hard, by MIG)');
  assert.equal(said('hard', 'MIG', 'pending', true), 'hard limit by MIG');
  assert.equal(said('none', 'none'), 'no limit');
});
