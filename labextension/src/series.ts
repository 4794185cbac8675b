/**
 * The recent past of the pool, for the charts. Rule of this module: no DOM and no clock of its own; it is
 * bounded, and an unknown reading is a gap, never 0.
 */
import { IHistory, IPool } from './types';

/** How far back the small chart of a device reaches, seconds. */
export const RECENT_SECONDS = 600;
/** How far back the pool's own chart reaches, seconds. */
export const PAST_SECONDS = 8 * 3600;
/** Points of these series are at least so far apart, seconds. */
const RECENT_STEP = 2;
const PAST_STEP = 10;

/** One curve's value; null is a gap. */
type Value = number | null;

/** Curves over the same times, oldest first; times are seconds since the epoch. */
export class Curves {
  /**
   * @param count - How many curves.
   * @param step - Points are at least so far apart, seconds.
   * @param span - Points older than this are dropped, seconds.
   */
  constructor(
    count: number,
    private readonly step: number,
    private readonly span: number
  ) {
    this.values = Array.from({ length: count }, () => []);
  }

  /** How often it has changed; a view that saw this number has nothing to draw. */
  get version(): number {
    return this._version;
  }

  /** Times, then one array a curve: what uPlot draws. */
  get data(): [number[], ...Value[][]] {
    return [this.times, ...this.values];
  }

  /** Note the values at a time; readings that come sooner replace the newest. */
  add(time: number, values: readonly Value[]): void {
    const last = this.times[this.times.length - 1];
    this._version += 1;
    if (last !== undefined && time - last < this.step) {
      this.values.forEach((curve, index) => (curve[curve.length - 1] = values[index]));
      return;
    }
    if (last !== undefined && time - last > 2 * this.step) {
      // Nothing came because nothing changed: what was last known held until now.
      this.push(
        time - this.step,
        this.values.map(curve => curve[curve.length - 1])
      );
    }
    this.push(time, values);
    this.forget(time - this.span);
  }

  /** Note that nothing is known from here on, until the next values come. */
  gap(time: number): void {
    const last = this.times[this.times.length - 1];
    if (last !== undefined && time > last) {
      this._version += 1;
      this.push(
        time,
        this.values.map(() => null)
      );
    }
  }

  /** Put older values in front of what is there; those that are not older are dropped. */
  prepend(times: readonly number[], values: readonly (readonly Value[])[]): void {
    const first = this.times[0] ?? Infinity;
    const count = times.filter(time => time < first).length;
    this._version += 1;
    this.times.unshift(...times.slice(0, count));
    this.values.forEach((curve, index) => curve.unshift(...values[index].slice(0, count)));
  }

  private push(time: number, values: readonly Value[]): void {
    this.times.push(time);
    this.values.forEach((curve, index) => curve.push(values[index]));
  }

  private forget(before: number): void {
    let old = 0;
    while (old < this.times.length && this.times[old] < before) {
      old += 1;
    }
    // Not at every step: taking from the front moves all that follows.
    if (old > 30) {
      this.times.splice(0, old);
      this.values.forEach(curve => curve.splice(0, old));
    }
  }

  private readonly times: number[] = [];
  private readonly values: Value[][];
  private _version = 0;
}

/** How the pool's own chart names its curves, in order. */
export const PAST_CURVES = ['leased', 'busy', 'memory', 'waiting'] as const;

/** Everything that the charts show. */
export class Past {
  /** The pool as a whole: percent leased, busy, memory in use; and how many wait. */
  readonly pool = new Curves(PAST_CURVES.length, PAST_STEP, PAST_SECONDS);

  /** How busy a device was, percent; null when it is not known. */
  device(id: string): Curves | null {
    return this.devices.get(id) ?? null;
  }

  /** Take a snapshot's readings. */
  add(time: number, pool: IPool): void {
    const ids = new Set<string>();
    for (const device of pool.devices) {
      ids.add(device.id);
      this.curve(device.id).add(time, [device.readings.utilization_percent]);
    }
    for (const id of this.devices.keys()) {
      if (!ids.has(id)) {
        this.devices.delete(id);
      }
    }
    this.pool.add(time, summary(pool));
  }

  /** Put what the Jupyter server remembers in front of what was seen here. */
  seed(now: number, history: IHistory): void {
    const newest = now - history.age_seconds;
    const times = (values: readonly Value[]): number[] =>
      values.map((_, index) => newest - (values.length - 1 - index) * history.step_seconds);
    this.pool.prepend(
      times(history.leased),
      PAST_CURVES.map(name => history[name])
    );
    for (const [id, values] of Object.entries(history.devices)) {
      this.devices.get(id)?.prepend(times(values), [values]);
    }
  }

  /** Note that the pool is not heard. */
  gap(time: number): void {
    this.pool.gap(time);
    this.devices.forEach(curve => curve.gap(time));
  }

  private curve(id: string): Curves {
    let curve = this.devices.get(id);
    if (!curve) {
      curve = new Curves(1, RECENT_STEP, RECENT_SECONDS);
      this.devices.set(id, curve);
    }
    return curve;
  }

  private readonly devices = new Map<string, Curves>();
}

/** The pool in four numbers. */
export function summary(pool: IPool): Value[] {
  const offered = pool.devices.filter(device => device.offered || device.leases.length > 0);
  const taken = offered.map(device => 100 * (1 - device.free_compute_milli / 1000));
  const busy = known(offered.map(device => device.readings.utilization_percent));
  const memory = known(
    offered.map(({ readings, memory_bytes }) =>
      readings.memory_used_bytes === null ? null : (100 * readings.memory_used_bytes) / memory_bytes
    )
  );
  return [mean(taken), mean(busy), mean(memory), pool.queue.length];
}

function known(values: readonly Value[]): number[] {
  return values.filter((value): value is number => value !== null);
}

function mean(values: readonly number[]): Value {
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
}
