/**
 * Keeps what did not change. Rule of this module: pure; two values that read the same become the same value,
 * so that a view can tell by identity that it has nothing to do.
 */

/** Return `after`, with every part that equals its counterpart in `before` taken from there. */
export function reuse<T>(before: unknown, after: T): T {
  if (Object.is(before, after)) {
    return after;
  }
  if (typeof before !== 'object' || typeof after !== 'object' || !before || !after) {
    return after;
  }
  if (Array.isArray(after)) {
    return Array.isArray(before) ? (reuseArray(before, after) as T) : after;
  }
  return Array.isArray(before) ? after : reuseObject(before, after);
}

function reuseArray(before: readonly unknown[], after: unknown[]): readonly unknown[] {
  let same = before.length === after.length;
  for (let index = 0; index < after.length; index++) {
    after[index] = reuse(before[index], after[index]);
    same = same && Object.is(after[index], before[index]);
  }
  return same ? before : after;
}

function reuseObject<T extends object>(before: object, after: T): T {
  const old = before as Record<string, unknown>;
  const fresh = after as Record<string, unknown>;
  const keys = Object.keys(fresh);
  let same = keys.length === Object.keys(old).length;
  for (const key of keys) {
    fresh[key] = reuse(old[key], fresh[key]);
    same = same && Object.is(fresh[key], old[key]);
  }
  return same ? (old as T) : after;
}

/**
 * The same for lists whose members come and go: each member is compared with the one of the same identity, not
 * with the one in its place.
 */
export function reuseById<T extends { readonly id: string }>(
  before: readonly T[],
  after: readonly T[]
): readonly T[] {
  const old = new Map(before.map(member => [member.id, member]));
  const fresh = after.map(member => reuse(old.get(member.id), member));
  const same =
    fresh.length === before.length && fresh.every((member, index) => member === before[index]);
  return same ? before : fresh;
}
