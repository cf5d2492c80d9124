import { beforeEach, expect, test, vi } from 'vitest';
import type * as vscode from 'vscode';
import type { Connection } from '../src/host/connection';
import { Restores } from '../src/host/restore';

interface Item {
  label: string;
  detail: string;
  file: { path: string };
}
interface Picker {
  items: Item[];
  selectedItems: Item[];
  accept: () => void;
  hide: () => void;
  press: (item: Item) => void;
}

interface Editor {
  told: string[];
  choices: (string | undefined)[];
  picker: unknown;
  commands: unknown[][];
}

const editor = vi.hoisted((): Editor => ({ told: [], choices: [], picker: undefined, commands: [] }));

vi.mock('vscode', () => {
  const uri = (scheme: string, path: string, query = ''): object => ({
    scheme,
    path,
    query,
    with: (change: { query: string }) => uri(scheme, path, change.query),
    toString: () => `${scheme}:${path}?${query}`,
  });
  return {
    ThemeIcon: vi.fn(),
    Uri: {
      parse: (text: string) => uri('file', text.replace('file://', '')),
      joinPath: (base: { path: string }, below: string) => uri('file', `${base.path}/${below}`),
      from: ({ scheme, path }: { scheme: string; path: string }) => uri(scheme, path),
    },
    commands: { executeCommand: (...all: unknown[]) => Promise.resolve(editor.commands.push(all)) },
    window: {
      showInformationMessage: (text: string) => {
        editor.told.push(text);
        return Promise.resolve(editor.choices.shift());
      },
      createQuickPick: () => {
        const listeners: Record<string, (value?: unknown) => void> = {};
        const on = (name: string) => (listener: () => void) => (listeners[name] = listener);
        editor.picker = {
          items: [],
          selectedItems: [],
          onDidAccept: on('accept'),
          onDidHide: on('hide'),
          onDidTriggerItemButton: on('press'),
          accept: () => listeners['accept']?.(),
          hide: () => listeners['hide']?.(),
          press: (item: Item) => listeners['press']?.({ item }),
          show: () => undefined,
          dispose: () => undefined,
        };
        return editor.picker;
      },
    },
    l10n: { t: (text: string, ...parts: unknown[]) => text.replace(/\{(\d)\}/gu, (_all, at) => String(parts[+at])) },
  };
});

const file = (path: string, more: object = {}): object => ({
  path,
  action: 'restore',
  by: 'edit',
  conflicts: [],
  reason: '',
  problem: '',
  diff: '',
  ...more,
});
const FILES = [
  file('a.py'),
  file('new.txt', { action: 'remove', conflicts: ['command'], reason: 'It was changed while a command ran.' }),
  file('lost.bin', { problem: 'its old content was not kept' }),
];
const SESSION = { id: 's', workspace: 'file:///w' };
let plan: object[];
let asked: { method: string; params: Record<string, unknown> }[];
const restores = new Restores(
  {
    request: (method: string, params: Record<string, unknown>) => {
      asked.push({ method, params });
      if (method === 'indusagi/files/content') {
        return Promise.resolve({ path: params['path'], text: 'old' });
      }
      const done = params['preview'] !== true;
      return Promise.resolve({ token: 't', files: plan, restore: done ? 'r' : null, restored: ['a.py'], kept: [] });
    },
  } as unknown as Connection,
  { warn: () => undefined } as unknown as vscode.LogOutputChannel,
);
const picker = (): Picker => editor.picker as Picker;
const settle = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));

beforeEach(() => {
  plan = FILES;
  asked = [];
  Object.assign(editor, { told: [], choices: [], picker: undefined, commands: [] });
});

test('nothing is said where no file would change', async () => {
  plan = [];
  await restores.offer(SESSION, { node: 'n' });
  expect(editor.told).toEqual([]);
});

test('an offer that is closed changes nothing', async () => {
  await restores.offer(SESSION, { node: 'n', before: true });
  expect(editor.told).toEqual(['The agent has changed 3 files since that turn. Bring them back?']);
  expect(asked.map(({ params }) => params['preview'])).toEqual([true]);
});

test('what somebody may have changed since is not chosen, and only what is chosen goes back', async () => {
  editor.choices = ['Choose…', 'Undo'];
  const offered = restores.offer(SESSION, { node: 'n', before: true });
  await settle();
  expect(picker().selectedItems.map(({ label }) => label)).toEqual(['a.py']);
  expect(picker().items.map(({ detail }) => detail)).toEqual([
    '',
    'It was changed while a command ran.',
    'Impossible: its old content was not kept',
  ]);
  picker().selectedItems = picker().items; // everything is ticked: what cannot be done is left all the same
  picker().accept();
  await settle();
  const done = asked.find(({ params }) => params['token'] === 't');
  expect(done?.params).toMatchObject({
    sessionId: 's',
    node: 'n',
    before: true,
    choices: { 'a.py': 'restore', 'new.txt': 'restore', 'lost.bin': 'keep' },
  });
  expect(asked.at(-1)?.params).toMatchObject({ undo: 'r', preview: true });
  picker().hide();
  await offered;
  expect(asked.filter(({ params }) => params['preview'] !== true)).toHaveLength(1);
});

test('a file is shown in the editor’s own diff, what is there on the left', async () => {
  const choosing = restores.choose(SESSION, { node: 'n', before: true });
  await settle();
  picker().items.forEach((item) => picker().press(item));
  const shown = editor.commands.map(([command, left, right]) => [command, String(left), String(right)]);
  expect(shown[0]?.slice(0, 2)).toEqual(['vscode.diff', 'file:/w/a.py?']);
  expect(shown[1]?.[2]).toBe('indusagi-restore:/w/new.txt?');
  const right = editor.commands[0]?.[2] as vscode.Uri;
  await expect(restores.provideTextDocumentContent(right)).resolves.toBe('old');
  expect(asked.at(-1)?.params).toEqual({
    sessionId: 's',
    workspace: 'file:///w',
    path: 'a.py',
    node: 'n',
    before: true,
  });
  const nothing = editor.commands[1]?.[2] as vscode.Uri;
  await expect(restores.provideTextDocumentContent(nothing)).resolves.toBe('');
  picker().hide();
  await choosing;
  expect(asked.filter(({ params }) => params['token'] !== undefined)).toEqual([]);
});
