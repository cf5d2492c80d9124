// Fetched items in place of those that are shown: what is still the same keeps its key, and what only the panel knows
// (the notices) keeps its place.
import type { Item } from './items';

/** Gives items that were shown before their old keys, so that the page keeps what it has drawn. */
export function withOldKeys(old: readonly Item[], fresh: Item[]): Item[] {
  const keys = new Map<string, string[]>();
  for (const item of old) {
    if (item.node !== null && item.kind !== 'notice') {
      const name = `${item.kind} ${item.node}`;
      const list = keys.get(name);
      if (list === undefined) {
        keys.set(name, [item.key]);
      } else {
        list.push(item.key);
      }
    }
  }
  for (const item of fresh) {
    const key = keys.get(`${item.kind} ${item.node ?? ''}`)?.shift();
    if (key !== undefined) {
      item.key = key;
    }
  }
  return fresh;
}

/** Puts the notices back behind the turn they were said after; one whose turn is gone goes with it. */
export function withNotices(old: readonly Item[], fresh: Item[]): Item[] {
  const after = new Map<string | null, Item[]>();
  for (const item of old) {
    if (item.kind === 'notice') {
      const list = after.get(item.node);
      if (list === undefined) {
        after.set(item.node, [item]);
      } else {
        list.push(item);
      }
    }
  }
  if (after.size === 0) {
    return fresh;
  }

  const last = new Map<string, number>();
  fresh.forEach((item, index) => {
    if (item.node !== null) {
      last.set(item.node, index);
    }
  });
  const merged: Item[] = [];
  fresh.forEach((item, index) => {
    merged.push(item);
    if (item.node !== null && last.get(item.node) === index) {
      merged.push(...(after.get(item.node) ?? []));
    }
  });
  const trailing = old.findLast((item) => item.kind === 'notice');
  if (trailing !== undefined && !merged.includes(trailing) && old.at(-1) === trailing) {
    // Said last, and about a turn that is gone (a condensation): still worth reading.
    trailing.node = fresh.at(-1)?.node ?? null;
    merged.push(trailing);
  }
  return merged;
}
