import { lease, load, pool, trans } from './support.mjs';

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';

const require = createRequire(import.meta.url);
const { createElement } = require('react');
const { renderToStaticMarkup } = require('react-dom/server');
const { DeviceList } = load('components/DeviceList');

const GIB = 1024 ** 3;

const device = changes => ({
  id: 'GPU-1',
  name: 'cuda0',
  node_id: 'node',
  kind: 'cuda',
  model: 'NVIDIA A100',
  emulated: false,
  memory_bytes: 80 * GIB,
  compute_units: 108,
  free_compute_milli: 750,
  free_memory_bytes: 60 * GIB,
  unmanaged_bytes: 0,
  health: 'healthy',
  offered: true,
  withheld: '',
  readings: {
    utilization_percent: 0,
    memory_used_bytes: null,
    temperature_celsius: 41,
    power_watts: null
  },
  leases: [],
  health_reason: '',
  parent_id: '',
  parent_milli: 1000,
  whole_only: false,
  sharing: '',
  isolation: [],
  unmanaged: [],
  missing: {},
  ...changes
});

const limit = changes => ({
  resource: 'memory',
  strength: 'soft',
  mechanism: 'MPS',
  limit: '20.0 GiB',
  verified: 'read-back',
  note: '',
  ...changes
});

const shown = (devices, leases = []) => {
  const state = {
    phase: 'connected',
    message: '',
    hint: '',
    pool: { ...pool(leases), devices },
    kernels: new Map(),
    ending: new Set(),
    age_seconds: 0,
    news: ''
  };
  const view = { state, activeKernelId: '', documentOf: () => null, actions: {}, trans };
  return renderToStaticMarkup(createElement(DeviceList, { devices, view }));
};

const held = changes => ({
  ...lease(),
  kind: 'cuda',
  owner: 'ann',
  memory_bytes: 20 * GIB,
  memory_used_bytes: null,
  utilization_percent: null,
  asked_compute_milli: 250,
  held_seconds: 1,
  expires_seconds: null,
  reason: '',
  holder: { kernel_id: '', label: 'train.py', pid: 1 },
  isolation: [],
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
  assert.match(html, /0 % busy/);
  assert.match(html, /title="Power: not known, no permission"[^>]*>— W</);
  assert.match(html, /tabindex="0"/);
  assert.doesNotMatch(html, /in use/);
  assert.doesNotMatch(html, />0 W</);
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
  assert.match(html, /A new lease gets:.*Compute: no limit \(time-slicing\)/s);
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
