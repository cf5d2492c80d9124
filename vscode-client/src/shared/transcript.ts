// The items of one conversation, and what of them has changed since they were drawn last.
import type { Item, ItemOf } from './items';

/** What to draw anew: all of it (`reset`), whole items, or text that came to the end of one. */
export interface ItemChanges {
  reset: boolean;
  items: Item[];
  appends: { key: string; text: string }[];
}

export class Transcript {
  items: Item[] = [];
  private readonly byKey = new Map<string, Item>();
  private readonly byCall = new Map<string, ItemOf<'tool'>>();
  private counter = 0;
  private reset = true;
  private readonly touched = new Set<string>();
  private readonly appended = new Map<string, string[]>();

  takeChanges(): ItemChanges {
    const changes: ItemChanges = { reset: this.reset, items: [], appends: [] };
    if (!this.reset) {
      for (const key of this.touched) {
        const item = this.byKey.get(key);
        if (item !== undefined) {
          changes.items.push({ ...item });
        }
      }
      for (const [key, parts] of this.appended) {
        if (!this.touched.has(key)) {
          changes.appends.push({ key, text: parts.join('') });
        }
      }
    }
    this.reset = false;
    this.touched.clear();
    this.appended.clear();
    return changes;
  }

  /** Everything is drawn anew. */
  redraw(): void {
    this.reset = true;
  }

  /** Puts text to the end of what is being said, or begins to say something. */
  stream(kind: 'assistant' | 'thinking', delta: string): void {
    const last = this.items.at(-1);
    if (last?.kind === kind && last.live) {
      last.text += delta;
      const parts = this.appended.get(last.key);
      if (parts === undefined) {
        this.appended.set(last.key, [delta]);
      } else {
        parts.push(delta);
      }
      return;
    }
    this.closeLive();
    this.push({ kind, key: this.newKey(), node: null, text: delta, live: true });
  }

  /** The card of a tool's call, if there is one. */
  call(callId: string): ItemOf<'tool'> | undefined {
    return this.byCall.get(callId);
  }

  closeLive(): void {
    const last = this.items.at(-1);
    if ((last?.kind === 'assistant' || last?.kind === 'thinking') && last.live) {
      last.live = false;
      this.touch(last);
    }
  }

  tool(callId: string, name: string): ItemOf<'tool'> {
    const known = this.byCall.get(callId);
    if (known !== undefined) {
      return known;
    }
    const item: ItemOf<'tool'> = {
      kind: 'tool',
      key: this.newKey(),
      node: null,
      callId,
      name,
      input: '',
      output: '',
      stage: 'asked',
    };
    this.push(item);
    return item;
  }

  notice(level: 'info' | 'warning' | 'error', text: string, hint: string, retry = false): void {
    this.push({ kind: 'notice', key: this.newKey(), node: this.lastNode(), level, text, hint, retry });
  }

  private lastNode(): string | null {
    return this.items.findLast((item) => item.node !== null)?.node ?? null;
  }

  newKey(): string {
    this.counter += 1;
    return `live:${String(this.counter)}`;
  }

  push(item: Item): void {
    this.items.push(item);
    this.index(item);
    this.touch(item);
  }

  replace(items: Item[]): void {
    this.items = items;
    this.byKey.clear();
    this.byCall.clear();
    for (const item of items) {
      this.index(item);
    }
    this.reset = true;
  }

  private index(item: Item): void {
    this.byKey.set(item.key, item);
    if (item.kind === 'tool') {
      this.byCall.set(item.callId, item);
    }
  }

  touch(item: Item): void {
    this.touched.add(item.key);
  }
}
