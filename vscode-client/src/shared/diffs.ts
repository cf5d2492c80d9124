// Unified diffs, as the agent shows its edits before it makes them: read, and applied to a text in either direction.

export interface Hunk {
  /** The first line that it speaks of in the old text, and in the new one; from 1. */
  oldStart: number;
  newStart: number;
  /** Each with its mark: ' ', '-' or '+'. */
  lines: string[];
  /** Whether the last line of that side has no line end. */
  oldOpen: boolean;
  newOpen: boolean;
}

export interface FileDiff {
  /** Null where the file does not exist on that side. */
  oldPath: string | null;
  newPath: string | null;
  hunks: Hunk[];
}

export interface Sides {
  path: string;
  before: string;
  after: string;
  /** Whether these are the whole files, or only what the diff shows of them. */
  whole: boolean;
}

/** Every file of a diff; other text around them is passed over. */
export function parseDiff(text: string): FileDiff[] {
  const lines = text.split('\n');
  const files: FileDiff[] = [];
  for (let at = 0; at < lines.length; at += 1) {
    const source = /^--- (.*)$/u.exec(lines[at] ?? '')?.[1];
    const target = /^\+\+\+ (.*)$/u.exec(lines[at + 1] ?? '')?.[1];
    if (source === undefined || target === undefined) {
      continue;
    }
    const file: FileDiff = { oldPath: pathOf(source), newPath: pathOf(target), hunks: [] };
    at += 2;
    for (let head = hunkHead(lines[at]); head !== null; head = hunkHead(lines[at])) {
      const read = readHunk(lines, at + 1, head);
      file.hunks.push(read.hunk);
      at = read.next;
    }
    at -= 1;
    files.push(file);
  }
  return files;
}

interface HunkHead {
  oldStart: number;
  oldCount: number;
  newStart: number;
  newCount: number;
}

function hunkHead(line: string | undefined): HunkHead | null {
  const found = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/u.exec(line ?? '');
  if (found === null) {
    return null;
  }
  return {
    oldStart: Number(found[1]),
    oldCount: Number(found[2] ?? 1),
    newStart: Number(found[3]),
    newCount: Number(found[4] ?? 1),
  };
}

/** By the counts of its head, not by what its lines look like: a removed line may begin with `-- `. */
function readHunk(lines: readonly string[], start: number, head: HunkHead): { hunk: Hunk; next: number } {
  const hunk: Hunk = {
    oldStart: head.oldStart,
    newStart: head.newStart,
    lines: [],
    oldOpen: false,
    newOpen: false,
  };
  let old = head.oldCount;
  let fresh = head.newCount;
  let at = start;
  for (; at < lines.length; at += 1) {
    const line = lines[at] ?? '';
    const mark = line[0];
    if (mark === '\\') {
      const last = hunk.lines.at(-1)?.[0];
      hunk.oldOpen ||= last !== '+';
      hunk.newOpen ||= last !== '-';
      continue;
    }
    if ((old <= 0 && fresh <= 0) || (mark !== ' ' && mark !== '-' && mark !== '+')) {
      break;
    }
    hunk.lines.push(line);
    old -= mark === '+' ? 0 : 1;
    fresh -= mark === '-' ? 0 : 1;
  }
  return { hunk, next: at };
}

function pathOf(name: string): string | null {
  const path = name.replace(/\t.*$/u, '').trim();
  return path === '/dev/null' ? null : path.replace(/^[ab]\//u, '');
}

/** One side of a hunk as lines. */
function side(hunk: Hunk, mark: '-' | '+'): string[] {
  return hunk.lines.filter((line) => line.startsWith(' ') || line.startsWith(mark)).map((line) => line.slice(1));
}

/** `text` with the hunks made (`forward`) or taken back; null where the text is not what they speak of. */
export function applyDiff(text: string, hunks: readonly Hunk[], forward: boolean): string | null {
  const crlf = text.includes('\r\n');
  const lines = (crlf ? text.replaceAll('\r\n', '\n') : text).split('\n');
  let moved = 0;
  for (const hunk of hunks) {
    const from = side(hunk, forward ? '-' : '+');
    const to = side(hunk, forward ? '+' : '-');
    const start = forward ? hunk.oldStart : hunk.newStart;
    // Of nothing, the line is named after which something is added.
    const at = (from.length === 0 ? start : start - 1) + moved;
    const [fromOpen, toOpen] = forward ? [hunk.oldOpen, hunk.newOpen] : [hunk.newOpen, hunk.oldOpen];
    const reachesEnd = at + from.length >= lines.length - (fromOpen ? 0 : 1);
    if (from.some((line, index) => lines[at + index] !== line) || at + from.length > lines.length) {
      return null;
    }
    const ended = reachesEnd && fromOpen && !toOpen ? [...to, ''] : to;
    const taken = from.length + (reachesEnd && !fromOpen && toOpen && lines[at + from.length] === '' ? 1 : 0);
    lines.splice(at, taken, ...ended);
    moved += ended.length - taken;
  }
  const made = lines.join('\n');
  return crlf ? made.replaceAll('\n', '\r\n') : made;
}

/**
 * Both sides of a file's diff, given what the file holds now (null: there is none): whether the diff has been made
 * already is found by trying. Where it fits neither way, only what the diff shows is given.
 */
export function sidesOf(file: FileDiff, now: string | null): Sides {
  const path = file.newPath ?? file.oldPath ?? '';
  const text = now ?? '';
  const after = applyDiff(text, file.hunks, true);
  if (after !== null && (file.oldPath === null) === (now === null)) {
    return { path, before: text, after: file.newPath === null ? '' : after, whole: true };
  }
  const before = applyDiff(text, file.hunks, false);
  if (before !== null) {
    return { path, before, after: text, whole: true };
  }
  const shown = (mark: '-' | '+'): string => file.hunks.map((hunk) => side(hunk, mark).join('\n')).join('\n…\n');
  return { path, before: shown('-'), after: shown('+'), whole: false };
}

/** What `edit_file` has changed, out of its arguments and what the file holds now; null for other arguments. */
export function sidesOfEdits(input: unknown, now: string | null): Sides | null {
  if (typeof input !== 'object' || input === null) {
    return null;
  }
  const { path, edits, content } = input as { path?: unknown; edits?: unknown; content?: unknown };
  if (typeof path !== 'string') {
    return null;
  }
  if (typeof content === 'string') {
    return { path, before: now ?? '', after: content, whole: true };
  }
  if (!Array.isArray(edits)) {
    return null;
  }
  const pairs = edits.flatMap((edit: unknown) => {
    const { old_text: old, new_text: fresh } = (edit ?? {}) as { old_text?: unknown; new_text?: unknown };
    return typeof old === 'string' && typeof fresh === 'string' ? [{ old, fresh }] : [];
  });
  if (pairs.length === 0) {
    return null;
  }
  let before = now ?? '';
  for (const { old, fresh } of pairs.toReversed()) {
    const at = fresh === '' ? -1 : before.indexOf(fresh);
    if (at === -1 || before.includes(fresh, at + 1)) {
      // Not to be found, or more than once: the texts themselves are what can be shown.
      const join = (side: 'old' | 'fresh'): string => pairs.map((pair) => pair[side]).join('\n…\n');
      return { path, before: join('old'), after: join('fresh'), whole: false };
    }
    before = before.slice(0, at) + old + before.slice(at + fresh.length);
  }
  return { path, before, after: now ?? '', whole: true };
}
