/**
 * What a person may choose. Rule of this module: pure; a saved value that makes no sense any more counts as the
 * default, so that an old file never breaks a new version.
 */

/** Parts of the panel that can be left out. */
export const SECTIONS = [
  'leases',
  'devices',
  'queue',
  'history',
  'usage',
  'snapshots',
  'nodes'
] as const;

/** A part of the panel that can be left out. */
export type Section = (typeof SECTIONS)[number];

/** Kinds of notification that can be left out. */
export const ALERTS = ['granted', 'reclaim', 'memory', 'device', 'ended'] as const;

/** A kind of notification that can be left out. */
export type AlertKind = (typeof ALERTS)[number];

/** What a person may choose. */
export interface IPoolSettings {
  /** Readings are shown at most so often, seconds. */
  readonly refreshSeconds: number;
  /** From so many devices on they are a table. */
  readonly compactFrom: number;
  /** A lease that has done nothing for so long is shown as idle, seconds. */
  readonly idleSeconds: number;
  /** From so much of its memory on a lease is marked, percent. */
  readonly memoryWarnPercent: number;
  /** The parts of the panel that are shown. */
  readonly sections: ReadonlySet<Section>;
  /** The kinds of notification that are shown. */
  readonly alerts: ReadonlySet<AlertKind>;
  /** Whether the status bar shows the lease of the notebook in front. */
  readonly statusBar: boolean;
}

/** What holds where nobody chose. */
export const DEFAULTS: IPoolSettings = {
  refreshSeconds: 1,
  compactFrom: 9,
  idleSeconds: 300,
  memoryWarnPercent: 90,
  sections: new Set(SECTIONS),
  alerts: new Set(ALERTS),
  statusBar: true
};

/** Read what was saved. */
export function parseSettings(saved: Readonly<Record<string, unknown>>): IPoolSettings {
  return {
    refreshSeconds: number(saved.refreshSeconds, DEFAULTS.refreshSeconds, 0.5, 60),
    compactFrom: number(saved.compactFrom, DEFAULTS.compactFrom, 1, 1000),
    idleSeconds: number(saved.idleMinutes, DEFAULTS.idleSeconds / 60, 0.1, 1440) * 60,
    memoryWarnPercent: number(saved.memoryWarnPercent, DEFAULTS.memoryWarnPercent, 1, 100),
    sections: chosen(saved.sections, SECTIONS),
    alerts: chosen(saved.notifications, ALERTS),
    statusBar: saved.statusBar !== false
  };
}

function number(value: unknown, fallback: number, low: number, high: number): number {
  return typeof value === 'number' && Number.isFinite(value)
    ? Math.min(high, Math.max(low, value))
    : fallback;
}

/** Everything is shown but what was switched off by name. */
function chosen<T extends string>(value: unknown, all: readonly T[]): ReadonlySet<T> {
  const saved = (typeof value === 'object' && value ? value : {}) as Record<string, unknown>;
  return new Set(all.filter(name => saved[name] !== false));
}
