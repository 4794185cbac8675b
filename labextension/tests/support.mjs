/**
 * A page and a server in name only, for tests of the modules without a browser. Import it first.
 */
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const { ServerConnection } = require('@jupyterlab/services');

class Anchor {
  set href(url) {
    this.url = new URL(url, 'http://here/');
    for (const part of ['protocol', 'hostname', 'port', 'pathname', 'search', 'hash', 'host']) {
      this[part] = this.url[part];
    }
  }
  get href() {
    return this.url.href;
  }
  toString() {
    return this.href;
  }
}

class Page extends EventTarget {
  hidden = false;
  cookie = '';

  /** JupyterLab reads URLs through an anchor. */
  createElement() {
    return new Anchor();
  }

  show(isShown) {
    this.hidden = !isShown;
    this.dispatchEvent(new Event('visibilitychange'));
  }
}

/** JupyterLab's components can be loaded in a bundle only: icons are shown as their names. */
const Module = require('node:module');
const { createElement } = require('react');
class LabIcon {
  constructor({ name }) {
    this.name = name;
    this.react = () => createElement('i', { 'data-icon': name });
  }
}
const icon = name => new LabIcon({ name });
const stubs = {
  '@jupyterlab/ui-components': {
    LabIcon,
    ...Object.fromEntries(
      ['addIcon', 'caretDownIcon', 'caretRightIcon', 'checkIcon', 'copyIcon'].map(n => [n, icon(n)])
    )
  },
  '@jupyterlab/apputils': { Clipboard: {} }
};
const load_ = Module._load;
Module._load = (name, ...rest) => stubs[name] ?? load_(name, ...rest);

// After the requires: JupyterLab's packages look at import time whether they are in a browser.
globalThis.document = new Page();
globalThis.window = globalThis;

/** The page. */
export const page = globalThis.document;

/** Words as they are in the source (JupyterLab's own translator can be loaded in a bundle only). */
export const trans = {
  __: (text, ...parts) => text.replace(/%(\d)/g, (_, index) => parts[index - 1]),
  _n: (one, many, count, ...more) => trans.__(count === 1 ? one : many, count, ...more)
};

/** Load a compiled module of this package. */
export const load = name => require(`../lib/cjs/${name}.js`);

/** Settings of a server that answers what a test says, and notes which sockets were opened. */
export function makeServer(overrides = {}) {
  const server = { sockets: [], requests: [], answer: { status: 200, body: {} } };
  class FakeSocket {
    constructor(url) {
      this.url = url;
      server.sockets.push(this);
    }
    open() {
      this.onopen?.();
    }
    say(message) {
      this.onmessage?.({ data: JSON.stringify(message) });
    }
    fail() {
      this.onclose?.();
    }
    close() {}
  }
  server.settings = ServerConnection.makeSettings({
    baseUrl: 'http://here/user/a%40b%20c/',
    wsUrl: 'ws://here/user/a%40b%20c/',
    token: 'a token',
    appendToken: true,
    WebSocket: FakeSocket,
    fetch: async request => {
      server.requests.push(`${request.method} ${new URL(request.url).pathname}`);
      const { status, body } = server.answer;
      return new Response(JSON.stringify(body), { status });
    },
    ...overrides
  });
  return server;
}

/** Let everything that waits for an answer go on. */
export const settle = () => new Promise(resolve => setImmediate(resolve));

/** A snapshot of a pool with these leases. */
export function pool(leases = [], revision = 1) {
  const queue = leases
    .filter(lease => lease.state === 'queued')
    .map(({ id, mine, position }) => ({ lease_id: id, mine, position }));
  return { revision, devices: [], nodes: [], warnings: [], leases, queue };
}

/** A lease of a quarter of `cpu`. */
export const lease = (changes = {}) => ({
  id: 'lease_1',
  state: 'active',
  mine: true,
  owner: 'ann',
  kind: 'cpu',
  compute_milli: 250,
  memory_bytes: null,
  memory_used_bytes: null,
  utilization_percent: null,
  asked_compute_milli: 250,
  waited_seconds: 0,
  held_seconds: 1,
  expires_seconds: null,
  reclaim_seconds: null,
  idle_seconds: null,
  end_reason: null,
  pinned: false,
  resizing: false,
  count: 1,
  reason: '',
  holder: { key: '', kernel_id: '', label: '', pid: 1 },
  isolation: [],
  position: null,
  notices: [],
  shares: [{ device_id: 'CPU-1', device_name: 'cpu', compute_milli: 250, memory_bytes: 1 }],
  parts: [],
  ...changes
});

/** A device with three quarters free. */
export const device = (changes = {}) => ({
  id: 'GPU-1',
  name: 'cuda0',
  node_id: 'node',
  kind: 'cuda',
  model: 'NVIDIA A100',
  emulated: false,
  memory_bytes: 80 * 1024 ** 3,
  compute_units: 108,
  free_compute_milli: 750,
  free_memory_bytes: 60 * 1024 ** 3,
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

/** What components are given beside the state. */
export function env(changes = {}) {
  const { DEFAULTS } = load('settings');
  const { Past } = load('series');
  return {
    activeKernelId: '',
    activeName: '',
    documentOf: () => null,
    actions: {},
    trans,
    settings: DEFAULTS,
    past: new Past(),
    theme: '',
    closed: new Set(),
    asked: 0,
    ...changes
  };
}

/** The state that a manager would have with this snapshot. */
export function state(snapshot, changes = {}) {
  const { DEFAULTS } = load('settings');
  const { piecesOf } = load('select');
  return {
    phase: 'connected',
    message: '',
    hint: '',
    pool: snapshot,
    age_seconds: 0,
    kernels: new Map(),
    ending: new Set(),
    news: '',
    pieces: piecesOf(snapshot, 300, {}),
    whys: new Map(),
    usage: null,
    snapshots: [],
    settings: DEFAULTS,
    ...changes
  };
}
