// The live monitor. Rules: text is set as text, never as markup; the page asks the Jupyter server where that
// knows the pool, and the kernel only where it does not; nothing is asked while nobody looks.

const PERIOD_MS = 2000;
const LONGEST_MS = 30000;
const SAMPLES = 60;
const GIB = 2 ** 30;

// --- words ---

const known = value => value !== null && value !== undefined;
const percent = value => (known(value) ? `${Math.round(value)} %` : 'not known');
const parts = milli => String(Math.round(milli) / 1000);

function bytes(value) {
  if (!known(value)) {
    return 'not known';
  }
  return value < GIB ? `${Math.round(value / 2 ** 20)} MiB` : `${(value / GIB).toFixed(1)} GiB`;
}

function make(tag, name, text) {
  const node = document.createElement(tag);
  if (name) {
    node.className = `gpupool-${name}`;
  }
  if (known(text)) {
    node.textContent = text;
  }
  return node;
}

// --- where the numbers come from ---

function server() {
  // Lab, Notebook 7 and their kin write this into their page; other front ends have no such element.
  const element = document.getElementById('jupyter-config-data');
  if (!element) {
    return null;
  }
  try {
    const config = JSON.parse(element.textContent);
    return config.baseUrl ? { base: config.baseUrl, token: config.token || '' } : null;
  } catch {
    return null;
  }
}

class Source {
  // One for each monitor, however many views of it there are.
  constructor(model) {
    this.model = model;
    this.views = new Set();
    this.server = model.get('served') ? server() : null;
    this.doc = model.get('pool');
    this.takenMs = model.get('taken_ms');
    this.trouble = '';
    this.history = [];
    this.pause = PERIOD_MS;
    this.timer = null;
    this.asking = false;
    model.on('change:pool', () => this.take(model.get('pool'), model.get('taken_ms')));
    model.on('change:trouble', () => this.say(model.get('trouble')));
  }

  show(view, visible) {
    visible ? this.views.add(view) : this.views.delete(view);
    const looking = this.views.size > 0;
    if (looking && !this.asking) {
      this.begin();
    } else if (!looking && this.asking) {
      this.end();
    }
  }

  begin() {
    this.asking = true;
    if (this.server) {
      this.poll();
    } else {
      this.askKernel(true);
    }
  }

  end() {
    this.asking = false;
    clearTimeout(this.timer);
    if (!this.server) {
      this.askKernel(false);
    }
  }

  again() {
    this.say('');
    this.askKernel(false);
    this.askKernel(true);
  }

  askKernel(looking) {
    if (this.model.get('looking') !== looking) {
      this.model.set('looking', looking);
      this.model.save_changes();
    }
  }

  async poll() {
    clearTimeout(this.timer);
    try {
      const headers = this.server.token ? { Authorization: `token ${this.server.token}` } : {};
      const url = `${this.server.base}jupyter_gpupool/api/v1/pool?no_track_activity=1`;
      const answer = await fetch(url, { headers, credentials: 'same-origin', cache: 'no-store' });
      if (answer.status === 404 || answer.status === 403) {
        this.server = null; // it has not our extension, or does not let us: the kernel can tell
        if (this.asking) {
          this.askKernel(true);
        }
        return;
      }
      const body = await answer.json();
      if (!answer.ok) {
        throw new Error(body.message || `The server answered ${answer.status}.`);
      }
      this.pause = PERIOD_MS;
      this.take(body, Date.now());
    } catch (error) {
      this.pause = Math.min(2 * this.pause, LONGEST_MS);
      this.say(String(error.message || error));
    }
    if (this.asking) {
      this.timer = setTimeout(() => this.poll(), this.pause);
    }
  }

  take(doc, takenMs) {
    this.doc = doc;
    this.takenMs = takenMs;
    this.trouble = '';
    this.history = [...this.history, used(doc)].slice(-SAMPLES);
    this.views.forEach(view => view.draw());
  }

  say(trouble) {
    this.trouble = trouble;
    this.views.forEach(view => view.draw());
  }
}

const sources = new Map();

function sourceOf(model) {
  const key = model.get('key');
  if (!sources.has(key)) {
    sources.set(key, new Source(model));
  }
  return sources.get(key);
}

// --- what the numbers mean ---

function used(doc) {
  const found = (doc.devices || []).map(it => it.readings.utilization_percent).filter(known);
  return found.length ? found.reduce((sum, it) => sum + it, 0) / found.length : null;
}

const mine = doc => (doc.leases || []).filter(it => it.mine);

function nameOf(lease, held) {
  if (held.includes(lease.id)) {
    return 'this notebook';
  }
  return lease.holder.label || `…${lease.id.slice(-8)}`;
}

function shareOf(lease) {
  const names = lease.shares.map(it => it.device_name).join(', ');
  const where = names || lease.device || lease.kind || 'device';
  return `${parts(lease.compute_milli)} of ${where}`;
}

function segments(doc, device, held) {
  const found = [];
  for (const lease of doc.leases || []) {
    for (const share of lease.shares.filter(it => it.device_id === device.id)) {
      found.push({
        mine: lease.mine,
        idle: (lease.idle_seconds || 0) > 60,
        compute: share.compute_milli / 1000,
        memory: share.memory_bytes / Math.max(1, device.memory_bytes),
        title: `${lease.mine ? nameOf(lease, held) : 'somebody else'}: ${parts(share.compute_milli)}`
      });
    }
  }
  return found.sort((a, b) => b.mine - a.mine);
}

// --- drawing ---

function bar(label, pieces, key, text) {
  const total = pieces.reduce((sum, it) => sum + it[key], 0);
  const row = make('div', 'row');
  row.append(make('span', 'label', label));
  const track = make('div', 'track');
  track.setAttribute('role', 'meter');
  track.setAttribute('aria-label', `${label} leased`);
  track.setAttribute('aria-valuemin', '0');
  track.setAttribute('aria-valuemax', '100');
  track.setAttribute('aria-valuenow', String(Math.round(100 * total)));
  track.setAttribute('aria-valuetext', text);
  for (const piece of pieces) {
    const part = make('span', `part${piece.mine ? ' gpupool-mine' : ''}${piece.idle ? ' gpupool-idle' : ''}`);
    part.style.width = `${Math.min(100, 100 * piece[key])}%`;
    part.title = piece.title;
    track.append(part);
  }
  row.append(track, make('span', 'value', text));
  return row;
}

function line(history) {
  const space = 'http://www.w3.org/2000/svg';
  const svg = document.createElementNS(space, 'svg');
  svg.setAttribute('class', 'gpupool-line');
  svg.setAttribute('viewBox', `0 0 ${SAMPLES - 1} 100`);
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('role', 'img');
  const last = history.filter(known).at(-1);
  svg.setAttribute('aria-label', `Utilisation of the pool in the last minutes; now ${percent(last)}`);
  const first = SAMPLES - history.length;
  const points = history.map((it, at) => (known(it) ? `${first + at},${100 - it}` : '')).filter(Boolean);
  const path = document.createElementNS(space, 'polyline');
  path.setAttribute('points', points.join(' '));
  svg.append(path);
  return svg;
}

function device(doc, it, held) {
  const card = make('section', 'device');
  card.setAttribute('aria-label', it.name);
  const head = make('div', 'head');
  head.append(make('b', '', it.name), make('span', 'quiet', it.model + (it.emulated ? ' [emulated]' : '')));
  const state = it.offered ? it.health : it.withheld || 'not offered';
  if (state !== 'healthy') {
    head.append(make('span', 'warn', state));
  }
  head.append(make('span', 'right', `in use ${percent(it.readings.utilization_percent)}`));
  const pieces = segments(doc, it, held);
  card.append(
    head,
    bar('compute', pieces, 'compute', `${parts(it.free_compute_milli)} free`),
    bar('memory', pieces, 'memory', `${bytes(it.free_memory_bytes)} free`)
  );
  return card;
}

function lease(it, held) {
  const row = make('li', 'lease');
  row.append(make('b', '', nameOf(it, held)), make('span', '', shareOf(it)));
  if (it.state === 'queued') {
    row.append(make('span', 'quiet', it.reason || 'waits'));
    return row;
  }
  row.append(
    make('span', '', `in use ${percent(it.utilization_percent)}`),
    make('span', '', `${bytes(it.memory_used_bytes)} of ${bytes(it.memory_bytes)}`)
  );
  if (it.state !== 'active') {
    row.append(make('span', 'quiet', it.state));
  }
  return row;
}

function small(doc, held) {
  const own = mine(doc);
  const first = own.find(it => held.includes(it.id)) || own[0];
  const said = first
    ? [shareOf(first), percent(first.utilization_percent)].join(' · ')
    : 'no lease';
  const memory = first ? `${bytes(first.memory_used_bytes)} of ${bytes(first.memory_bytes)}` : '';
  const row = make('div', 'small');
  row.append(make('b', '', first ? nameOf(first, held) : 'GPU pool'), make('span', '', said));
  if (memory) {
    row.append(make('span', '', memory));
  }
  row.append(make('span', 'quiet', `pool ${percent(used(doc))}`));
  return row;
}

function large(source, held) {
  const { doc } = source;
  const box = make('div', 'large');
  const head = make('div', 'head');
  head.append(make('b', '', 'GPU pool'), make('span', 'quiet', `in use ${percent(used(doc))}`));
  head.append(line(source.history));
  const devices = make('div', 'devices');
  devices.append(...(doc.devices || []).map(it => device(doc, it, held)));
  const list = make('ul', 'leases');
  list.setAttribute('aria-label', 'My leases');
  list.append(...mine(doc).map(it => lease(it, held)));
  box.append(head, devices);
  box.append(list.children.length ? list : make('p', 'quiet', 'No lease: %gpupool request 0.25 asks for one.'));
  return box;
}

class View {
  constructor(model, el) {
    this.model = model;
    this.source = sourceOf(model);
    this.root = make('div', 'monitor');
    this.root.setAttribute('role', 'group');
    this.root.setAttribute('aria-label', 'GPU pool');
    this.body = make('div');
    this.foot = make('div', 'foot');
    this.foot.setAttribute('role', 'status');
    this.root.append(this.body, this.foot);
    el.append(this.root);
    this.onScreen = false;
    this.observer = new IntersectionObserver(entries => {
      this.onScreen = entries.at(-1).isIntersecting;
      this.look();
    });
    this.observer.observe(this.root);
    this.look = this.look.bind(this);
    this.draw = this.draw.bind(this);
    document.addEventListener('visibilitychange', this.look);
    model.on('change:held', this.draw);
    model.on('change:small', this.draw);
    this.draw();
  }

  look() {
    this.source.show(this, this.onScreen && document.visibilityState === 'visible');
  }

  draw() {
    const held = this.model.get('held');
    this.body.replaceChildren(
      this.model.get('small') ? small(this.source.doc, held) : large(this.source, held)
    );
    this.foot.replaceChildren();
    if (this.source.trouble) {
      const when = new Date(this.source.takenMs).toLocaleTimeString();
      this.foot.append(make('span', 'warn', `${this.source.trouble} Shown is ${when}.`));
      if (!this.source.server) {
        const button = make('button', 'again', 'Go on');
        button.type = 'button';
        button.addEventListener('click', () => this.source.again());
        this.foot.append(button);
      }
    }
  }

  close() {
    this.observer.disconnect();
    document.removeEventListener('visibilitychange', this.look);
    this.model.off('change:held', this.draw);
    this.model.off('change:small', this.draw);
    this.source.show(this, false);
  }
}

export default {
  initialize({ model }) {
    sourceOf(model);
    return () => {
      const source = sources.get(model.get('key'));
      source?.end();
      sources.delete(model.get('key'));
    };
  },
  render({ model, el }) {
    const view = new View(model, el);
    return () => view.close();
  }
};
