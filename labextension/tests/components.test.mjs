import { device, env, lease, load, pool, state } from './support.mjs';

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';

const require = createRequire(import.meta.url);
const { createElement } = require('react');
const { renderToStaticMarkup } = require('react-dom/server');
const { PoolPanel } = load('components/PoolPanel');

const GIB = 1024 ** 3;

const limit = changes => ({
  resource: 'memory',
  strength: 'soft',
  mechanism: 'MPS',
  limit: '20.0 GiB',
  verified: 'read-back',
  note: '',
  ...changes
});

const shown = (devices, leases = [], changes = {}) => {
  const snapshot = { ...pool(leases), devices, ...changes };
  const view = { ...env(), state: state(snapshot) };
  return renderToStaticMarkup(createElement(PoolPanel, { view, env: view }));
};

const held = changes =>
  lease({
    kind: 'cuda',
    memory_bytes: 20 * GIB,
    holder: { key: '', kernel_id: '', label: 'train.py', pid: 1 },
    shares: [
      {
        device_id: 'GPU-1',
        device_name: 'cuda0',
        compute_milli: 250,
        memory_bytes: 20 * GIB,
        parent_milli: 1000,
        whole_only: false
      }
    ],
    ...changes
  });

test('a reading that cannot be had is a dash with its reason, never 0', () => {
  const html = shown([device({ missing: { power_watts: 'no permission' } })]);
  assert.match(html, />0 %</);
  assert.match(html, /title="Power: not known, no permission"[^>]*>— W</);
  assert.match(html, /tabindex="0"/);
  assert.doesNotMatch(html, />0 W</);
});

test('a machine that is drained says so, why, and when leases on it end', () => {
  const node = changes => ({
    id: 'n1',
    hostname: 'gpu-1',
    connected: true,
    state: 'ready',
    drain_message: '',
    drain_seconds: null,
    ...changes
  });
  const nodes = drained => [node({}), node({ id: 'n2', hostname: 'gpu-2', ...drained })];
  const show = drained => shown([device()], [], { nodes: nodes(drained) });
  assert.doesNotMatch(show({}), /drain/);
  const draining = show({ state: 'draining', drain_message: 'New driver.', drain_seconds: 1800 });
  assert.match(
    draining,
    /title="New driver\. An administrator[^"]*Leases on it end in 30 min\.">draining</
  );
  assert.match(show({ state: 'drained' }), /title="An administrator[^"]*leases\.">drained</);
  assert.match(show({ state: 'away', connected: false }), />away</);
});

test('a device that is not healthy says why, once', () => {
  const degraded = shown([device({ health: 'degraded', health_reason: 'It is hot.' })]);
  assert.match(degraded, /jp-mod-warn" title="It is hot\.">degraded/);
  assert.match(degraded, /<p>It is hot\.<\/p>/);
  const failed = device({
    health: 'failed',
    health_reason: 'It fell off the bus.',
    offered: false,
    withheld: 'Not offered: It fell off the bus.'
  });
  assert.equal(shown([failed]).match(/<p>[^<]*fell off the bus/g).length, 1);
});

test('MIG instances stand under their GPU, with what part of it they are', () => {
  const instance = (id, milli, free) =>
    device({
      id,
      name: `cuda0-${id}`,
      parent_id: 'GPU-0',
      parent_milli: milli,
      whole_only: true,
      free_compute_milli: free,
      sharing: 'mig'
    });
  const html = shown([instance('mig0', 285, 1000), instance('mig1', 428, 0)]);
  assert.match(html, /<h4[^>]*>cuda0<\/h4>.*2 instances, 1 free.*<h5[^>]*>cuda0-mig0<\/h5>/s);
  assert.match(html, /2\/7 of its GPU/);
  assert.match(html, /aria-label="Compute: free, as a whole\."/);
  assert.match(html, /3\/7 of its GPU.*Compute: taken/s);
});

test('who uses a device without a lease is named with pid, user and memory', () => {
  const unmanaged = [
    { pid: 4711, user: 'bob', name: 'python', memory_bytes: 2 * GIB },
    { pid: 4712, user: '', name: '', memory_bytes: null }
  ];
  const html = shown([device({ unmanaged })]);
  assert.match(html, /2 processes without a lease/);
  assert.match(html, /python.*pid 4711.*bob.*2 GiB/s);
  assert.match(html, /pid 4712.*does not say how much memory/s);
});

test('a lease shows strength, mechanism and what is not yet in force for each resource', () => {
  const isolation = [
    limit({ verified: 'pending' }),
    limit({ resource: 'compute', limit: '25 %' }),
    limit({ resource: 'host_memory', strength: 'hard', mechanism: 'cgroup', limit: '6.0 GiB' })
  ];
  const html = shown([device()], [held({ isolation })]);
  assert.match(html, /Memory: not yet in force \(soft, by MPS\)/);
  assert.match(html, /Compute: soft limit by MPS/);
  assert.match(html, /<dt>Main memory<\/dt><dd><div>6\.0 GiB<\/div><div>hard limit by cgroup</);
});

test('under time-slicing the fraction is not sold as compute, before and after', () => {
  const none = limit({ resource: 'compute', strength: 'none', mechanism: 'time-slicing' });
  const html = shown([device({ isolation: [limit(), none] })], [held({ isolation: [none] })]);
  assert.match(
    html,
    /A new lease gets:.*Compute: no limit.*<dt>Compute<.*no limit \(time-slicing\)/s
  );
  assert.equal(html.match(/does not buy compute here/g).length, 2);
});

test('notices of a lease are shown with it', () => {
  assert.match(shown([device()], [held({ notices: ['It uses 93 %.'] })]), /<p>It uses 93 %\.<\/p>/);
});

test('of a device that is granted whole, the lease says what was asked for', () => {
  const part = { ...held().shares[0], whole_only: true, parent_milli: 285 };
  const html = shown([device({ whole_only: true })], [held({ shares: [part] })]);
  assert.match(html, /all \(2\/7 of a GPU\) for the 0\.25 asked for/);
});

test('a lease on two nodes says what it has on each, and whether a process has joined', () => {
  const [share] = held({}).shares;
  const parts = [
    {
      node_id: 'n1',
      hostname: 'alpha',
      shares: [share],
      holder: true,
      joined: true,
      pid: 41,
      isolation: []
    },
    {
      node_id: 'n2',
      hostname: 'beta',
      shares: [{ ...share, device_name: 'cuda3' }],
      holder: false,
      joined: false,
      pid: null,
      isolation: []
    }
  ];
  const html = shown([device()], [held({ count: 2, parts })]);
  assert.match(html, /alpha: cuda0, process 41</);
  assert.match(html, /beta: cuda3, no process has joined</);
  assert.doesNotMatch(shown([device()], [held({})]), /jp-GPUPool-parts/);
});

test('a part of the panel says with its heading whether it is open', () => {
  const view = { ...env({ closed: new Set(['devices']) }), state: state(pool()) };
  const html = renderToStaticMarkup(createElement(PoolPanel, { view, env: view }));
  assert.match(html, /aria-expanded="false" aria-controls="jp-GPUPool-section-devices"/);
  assert.match(html, /aria-expanded="true" aria-controls="jp-GPUPool-section-leases"/);
});

test('what is idle is hatched, and says so to who cannot see it', () => {
  const html = shown([device()], [held({ idle_seconds: 900 })]);
  assert.match(html, /Taken: 0\.25: mine, idle\./);
  assert.match(html, /jp-mod-mine jp-mod-idle/);
  assert.match(html, /idle for 15:00/);
});

test('other people’s leases are anonymous pieces unless their owner is told', () => {
  const other = held({ id: 'lease_2', mine: false, owner: '' });
  assert.match(shown([device()], [other]), /Taken: 0\.25: somebody else\./);
  assert.match(shown([device()], [{ ...other, owner: 'bob' }]), /Taken: 0\.25: bob\./);
});

test('nine devices are a table, of which only what is seen exists', () => {
  const many = Array.from({ length: 64 }, (_, i) => device({ id: `GPU-${i}`, name: `cuda${i}` }));
  assert.doesNotMatch(shown(many.slice(0, 8)), /role="table"/);
  const html = shown(many);
  assert.match(html, /role="table" aria-label="Devices" aria-rowcount="65"/);
  assert.ok(html.match(/role="row"/g).length < 30);
  assert.match(html, /title="cuda0: NVIDIA A100">cuda0</);
});

test('many devices keep their marks: emulated, failing, on which node', () => {
  const many = Array.from({ length: 9 }, (_, i) =>
    device({
      id: `GPU-${i}`,
      name: `cuda${i}`,
      node_id: i < 5 ? 'a' : 'b',
      emulated: i === 0,
      health: i === 1 ? 'failed' : 'healthy',
      health_reason: i === 1 ? 'It fell off the bus.' : ''
    })
  );
  const nodes = ['a', 'b'].map(id => ({ id, hostname: `host-${id}`, connected: id === 'a' }));
  const html = shown(many, [], { nodes });
  assert.match(html, /1 device is emulated/);
  assert.match(html, /aria-label="It fell off the bus\."/);
  assert.match(html, /host-b<span[^>]*>away</);
});

test('a request that waits shows its place, reason and estimate; others’ show none of it', () => {
  const queue = [
    { position: 1, lease_id: 'x', mine: false, kind: 'cuda', compute_milli: 500, reason: '' },
    {
      position: 2,
      lease_id: 'lease_1',
      mine: true,
      kind: 'cuda',
      compute_milli: 250,
      reason: 'Full.'
    }
  ].map(entry => ({
    memory_bytes: null,
    waited_seconds: 5,
    count: 1,
    priority: 'normal',
    ...entry
  }));
  const snapshot = { ...pool([lease({ state: 'queued', position: 2, shares: [] })]), queue };
  const estimate = { low_seconds: 60, seconds: 240, high_seconds: 600 };
  const whys = new Map([['lease_1', { estimate, would_fit: '0.125' }]]);
  const view = { ...env(), state: state(snapshot, { whys }) };
  const html = renderToStaticMarkup(createElement(PoolPanel, { view, env: view }));
  assert.match(html, /somebody else/);
  assert.match(html, /Full\./);
  assert.match(html, /probably in about 4 min/);
  assert.match(html, /would fit now: 0\.125/);
  assert.equal(html.match(/Cancel the request/g).length, 1);
});

test('usage, snapshots and nodes appear when there is something in them', () => {
  const empty = shown([device()]);
  for (const name of ['My usage', 'Snapshots', 'Nodes']) {
    assert.doesNotMatch(empty, new RegExp(`aria-label="${name}"`));
  }
  const quotas = [
    { group: '', what: 'hours_per_week', kind: 'cuda', limit: 40, used: 10, left: 30 },
    { group: 'lab', what: 'memory', kind: 'cuda', limit: 80 * GIB, used: 20 * GIB, left: 60 * GIB }
  ];
  const usage = { mine: true, leases: 3, device_seconds: 3600, held: [], quotas };
  const view = { ...env(), state: state(pool(), { usage }) };
  const html = renderToStaticMarkup(createElement(PoolPanel, { view, env: view }));
  assert.match(html, /CUDA device-hours this week: 10 of 40/);
  assert.match(html, /CUDA memory at once \(group lab\): 20 GiB of 80 GiB/);
});

test('what is in force on several devices alike is said once, and what differs each time', () => {
  const compute = limit({ resource: 'compute', limit: '25 %' });
  const isolation = [limit(), compute, limit(), { ...compute, verified: 'pending' }];
  const html = shown([device()], [held({ count: 2, isolation })]);
  assert.equal(html.match(/Memory: soft limit by MPS/g).length, 1);
  assert.equal(html.match(/Compute: [^<]*MPS/g).length, 2);
});
