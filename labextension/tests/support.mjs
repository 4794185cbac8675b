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
  compute_milli: 250,
  position: null,
  notices: [],
  shares: [{ device_id: 'CPU-1', device_name: 'cpu', compute_milli: 250, memory_bytes: 1 }],
  ...changes
});
