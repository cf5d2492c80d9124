// What can be typed as `/name` in the message box: each stands for a command of the extension.
import type { PageCommand } from './messages';
import type { PageText } from './pageTexts';

export interface Slash {
  name: string;
  command: PageCommand;
  says: PageText;
}

export const SLASHES: readonly Slash[] = [
  { name: 'new', command: 'indusagi.newSession', says: 'commandNew' },
  { name: 'resume', command: 'indusagi.resume', says: 'commandResume' },
  { name: 'fork', command: 'indusagi.fork', says: 'commandFork' },
  { name: 'condense', command: 'indusagi.condense', says: 'commandCondense' },
  { name: 'preview', command: 'indusagi.condensePreview', says: 'commandPreview' },
  { name: 'undo', command: 'indusagi.undoCondense', says: 'commandUndo' },
  { name: 'rename', command: 'indusagi.rename', says: 'commandRename' },
  { name: 'label', command: 'indusagi.label', says: 'commandLabel' },
  { name: 'graph', command: 'indusagi.showGraph', says: 'commandGraph' },
  { name: 'compare', command: 'indusagi.compare', says: 'commandCompare' },
  { name: 'recall', command: 'indusagi.recall', says: 'commandRecall' },
  { name: 'model', command: 'indusagi.selectModel', says: 'commandModel' },
  { name: 'attach', command: 'indusagi.attach', says: 'commandAttach' },
  { name: 'export', command: 'indusagi.exportSession', says: 'commandExport' },
  { name: 'doctor', command: 'indusagi.doctor', says: 'commandDoctor' },
  { name: 'stop', command: 'indusagi.stop', says: 'commandStop' },
];

export type CompletionKind = 'file' | 'memory' | 'command';

/** What is being typed at the caret: `@file`, `#memory`, or `/command` as the whole message. */
export interface Typed {
  kind: CompletionKind;
  query: string;
  /** Where the sign stands. */
  start: number;
}

export function typedAt(text: string, caret: number): Typed | null {
  const before = text.slice(0, caret);
  const command = /^\/([a-z]*)$/u.exec(before)?.[1];
  if (command !== undefined && caret === text.length) {
    return { kind: 'command', query: command, start: 0 };
  }
  // A sign that follows a letter is a part of a word: an address, a colour, a heading of an issue.
  const found = /(?:^|\s)([@#])([^\s@#]{0,100})$/u.exec(before);
  if (found?.[1] === undefined || found[2] === undefined) {
    return null;
  }
  const query = found[2];
  return { kind: found[1] === '@' ? 'file' : 'memory', query, start: caret - query.length - 1 };
}

/** The text with what was typed replaced by what was chosen, and where the caret goes. */
export function completed(text: string, caret: number, typed: Typed, chosen: string): { text: string; caret: number } {
  const space = text.slice(caret).startsWith(' ') || chosen === '' ? '' : ' ';
  const head = `${text.slice(0, typed.start)}${chosen}${space}`;
  return { text: `${head}${text.slice(caret)}`, caret: head.length };
}
