import { device, lease, load, pool, state, trans } from './support.mjs';

import assert from 'node:assert/strict';
import { test } from 'node:test';

const { reuse, reuseById } = load('sharing');
const { Curves, Past, RECENT_SECONDS, summary } = load('series');
const { DEFAULTS, parseSettings } = load('settings');
const { forecast, magicOf } = load('fit');
const { chipOf } = load('chiptext');
const { ordinal, about } = load('format');
const { memoryPercent, piecesOf } = load('select');
const { snapped } = load('components/ShareField');
const { cutByKey, summaryText } = load('components/History');

const GIB = 1024 ** 3;
const copy = value => JSON.parse(JSON.stringify(value));
const wish = changes => ({
  compute_milli: 250,
  memory_bytes: null,
  kind: null,
  priority: 'normal',
  wait_seconds: null,
  count: 1,
  ...changes
});

test('what reads the same becomes the same value, and only that', () => {
  const before = { a: [1, { b: 2 }], c: { d: null } };
  assert.equal(reuse(before, copy(before)), before);
  const after = reuse(before, { a: [1, { b: 3 }], c: { d: null } });
  assert.notEqual(after.a, before.a);
  assert.equal(after.c, before.c);
  assert.deepEqual(reuse([1], { 0: 1 }), { 0: 1 });
  assert.equal(reuse(before, null), null);
});

test('members of a list are compared with themselves, wherever they stand', () => {
  const before = [
    { id: 'a', n: 1 },
    { id: 'b', n: 2 }
  ];
  const after = reuseById(before, [
    { id: 'x', n: 0 },
    { id: 'a', n: 1 },
    { id: 'b', n: 3 }
  ]);
  assert.equal(after[1], before[0]);
  assert.equal(after[2].n, 3);
  assert.equal(reuseById(before, copy(before)), before);
});

test('curves are thinned, hold over silence, show gaps, and are bounded', () => {
  const curves = new Curves(1, 2, 100);
  curves.add(0, [1]);
  curves.add(1, [2]);
  assert.deepEqual(curves.data, [[0], [2]]);
  curves.add(50, [9]);
  assert.deepEqual(curves.data, [
    [0, 48, 50],
    [2, 2, 9]
  ]);
  curves.gap(60);
  assert.equal(curves.data[1].at(-1), null);
  for (let time = 62; time < 2000; time += 2) {
    curves.add(time, [0]);
  }
  assert.ok(curves.data[0].length < 100);
  assert.ok(curves.data[0][0] >= 2000 - 100 - 2 * 32);
});

test('what the server remembers stands before what was seen here', () => {
  const past = new Past();
  const snapshot = { ...pool(), devices: [device()] };
  past.add(1000, snapshot);
  const two = [null, 50];
  const series = { leased: two, busy: two, memory: two, waiting: [0, 3] };
  past.seed(1002, {
    step_seconds: 10,
    age_seconds: 5,
    devices: { 'GPU-1': two, gone: two },
    ...series
  });
  assert.deepEqual(past.pool.data[0], [987, 997, 1000]);
  assert.deepEqual(past.pool.data[4], [0, 3, 0]);
  assert.deepEqual(past.device('GPU-1').data[1], [null, 50, 0]);
  assert.equal(past.device('gone'), null);
  past.add(1010 + RECENT_SECONDS, { ...pool(), devices: [] });
  assert.equal(past.device('GPU-1'), null);
});

test('an unknown reading is no zero in the pool’s numbers', () => {
  const [leased, busy, memory, waiting] = summary({ ...pool(), devices: [device()] });
  assert.deepEqual([leased, busy, memory, waiting], [25, 0, null, 0]);
  assert.deepEqual(summary(pool()), [null, null, null, 0]);
});

test('the history chart says in words what it shows', () => {
  const past = new Past();
  assert.match(summaryText(past.pool, 600, trans), /Nothing is known/);
  past.add(0, { ...pool(), devices: [device()] });
  past.add(20, { ...pool(), devices: [device({ free_compute_milli: 500 })] });
  assert.match(summaryText(past.pool, 600, trans), /between 25 % and 50 % .* now 50 %/);
});

test('settings that make no sense count as the default', () => {
  assert.deepEqual(parseSettings({}), DEFAULTS);
  const parsed = parseSettings({
    refreshSeconds: 'often',
    compactFrom: -3,
    idleMinutes: 1,
    sections: { queue: false, nonsense: false },
    notifications: null
  });
  assert.equal(parsed.refreshSeconds, DEFAULTS.refreshSeconds);
  assert.equal(parsed.compactFrom, 1);
  assert.equal(parsed.idleSeconds, 60);
  assert.ok(!parsed.sections.has('queue') && parsed.sections.has('devices'));
  assert.equal(parsed.alerts.size, 5);
});

test('the form writes the magic that a person would type', () => {
  assert.equal(magicOf(wish()), '%gpupool request 0.25');
  assert.equal(
    magicOf(
      wish({
        memory_bytes: 8.5 * GIB,
        kind: 'cuda',
        priority: 'high',
        wait_seconds: 120,
        count: 4
      })
    ),
    '%gpupool request 0.25 x4 --memory 8.5GiB --kind cuda --priority high --wait 2m'
  );
  assert.match(magicOf(wish({ wait_seconds: 0 })), /--no-wait$/);
  assert.match(magicOf(wish({ wait_seconds: 3600 })), /--wait 1h$/);
});

test('the form says at once whether it fits, and what is in its way', () => {
  const said = (devices, changes, more = {}) =>
    forecast(wish(changes), { ...pool(), devices, ...more }, trans);
  assert.deepEqual(said([device()], {}), { fits: true, message: 'Fits now, on cuda0.' });
  assert.match(said([], {}).message, /no device yet/);
  assert.match(said([device()], { kind: 'cpu' }).message, /no CPU device/);
  assert.match(said([device({ offered: false, withheld: 'It rests.' })], {}).message, /It rests/);
  assert.match(said([device()], { compute_milli: 800 }).message, /at most 0\.75 of a device/);
  assert.match(said([device()], { memory_bytes: 70 * GIB }).message, /at most 60 GiB of memory/);
  assert.match(said([device()], { count: 2 }).message, /Only 1 such device/);
  const full = device({ free_compute_milli: 0 });
  const mine = lease({ shares: [{ device_id: 'GPU-1', device_name: 'cuda0' }] });
  assert.match(said([full], {}, { leases: [mine] }).message, /taken\. 1 of the leases .* yours/);
  const other = { ...mine, mine: false, expires_seconds: 300 };
  assert.match(said([full], {}, { leases: [other] }).message, /ends in 5m at the latest/);
});

test('who waits before it keeps a request waiting, unless it is more urgent', () => {
  const queue = [{ lease_id: 'x', mine: false, kind: null, priority: 'normal' }];
  const snapshot = { ...pool(), devices: [device()], queue };
  assert.match(forecast(wish(), snapshot, trans).message, /1 request comes before it/);
  assert.ok(forecast(wish({ priority: 'high' }), snapshot, trans).fits);
});

test('the chip says what the notebook has, in a few characters', () => {
  const kernel = { key: '', kernel_id: 'k', label: '', pid: 1 };
  const chip = leases => chipOf(state(pool(leases)), 'k', trans);
  assert.equal(chip([]).text, 'no lease');
  assert.equal(chip([lease({ holder: kernel, utilization_percent: 61.4 })]).text, '0.25 · 61 %');
  assert.equal(chip([lease({ holder: kernel })]).text, '0.25');
  assert.equal(chip([lease({ holder: kernel, state: 'attaching' })]).text, '0.25 · attaching');
  const waits = lease({ holder: kernel, state: 'queued', position: 3, shares: [] });
  assert.equal(chip([waits]).text, 'waiting 3rd');
  assert.equal(chip([waits, lease({ id: 'l2', holder: kernel })]).lease.id, 'l2');
  assert.equal(chip([lease({ holder: { ...kernel, kernel_id: 'other' } })]).text, 'no lease');
  const tight = lease({ holder: kernel, memory_bytes: 100, memory_used_bytes: 95 });
  assert.deepEqual([chip([tight]).text, chip([tight]).tone], ['0.25 · 95 %', 'warn']);
  const away = chipOf({ ...state(pool()), phase: 'absent', message: 'Not here.' }, 'k', trans);
  assert.deepEqual([away.text, away.title], ['no pool', 'Not here.']);
});

test('places and times read as people say them', () => {
  const places = [1, 2, 3, 4, 11, 12, 13, 21, 102, 111].map(place => ordinal(place, trans));
  assert.equal(places.join(' '), '1st 2nd 3rd 4th 11th 12th 13th 21st 102nd 111th');
  assert.deepEqual(
    [0, 59, 60, 600, 5400, 90000].map(s => about(s, trans)),
    ['1 s', '59 s', '1 min', '10 min', '1.5 h', '25 h']
  );
});

test('the slider rests on the shares that people use', () => {
  assert.deepEqual(
    [260, 250, 240, 330, 340, 400, 990].map(snapped),
    [250, 250, 250, 333, 333, 400, 1000]
  );
});

test('a gang’s memory is that of all its devices', () => {
  const gang = lease({ memory_bytes: 10, memory_used_bytes: 20, count: 4 });
  assert.equal(memoryPercent(gang), 50);
  assert.equal(memoryPercent(lease({ memory_bytes: 10 })), null);
});

test('pieces stay the same values while nothing about them changes', () => {
  const snapshot = pool([lease()]);
  const before = piecesOf(snapshot, 300, {});
  assert.equal(piecesOf(pool([lease({ held_seconds: 99 })]), 300, before), before);
  assert.ok(piecesOf(pool([lease({ idle_seconds: 301 })]), 300, before)['CPU-1'][0].idle);
});

test('keys choose a part of the past as the pointer does, and never one outside it', () => {
  const press = (key, cut = null) => cutByKey(key, cut, 1000, 600);
  assert.deepEqual(press('+'), [550, 850]);
  assert.deepEqual(press('-', [550, 850]), null);
  assert.deepEqual(press('-', [600, 700]), [550, 750]);
  assert.deepEqual(press('ArrowRight', [550, 850]), [625, 925]);
  assert.deepEqual(press('ArrowRight', [800, 1000]), [800, 1000]);
  assert.deepEqual(press('ArrowLeft', [410, 610]), [400, 600]);
  assert.equal(press('ArrowLeft'), null);
  assert.deepEqual(press('+', [500, 520]), [500, 520]);
  assert.equal(press('Escape', [550, 850]), null);
  assert.equal(press('Escape'), undefined, 'there is nothing to go back from');
  assert.equal(press('x', [550, 850]), undefined);
});
