import { beforeEach, expect, test, vi } from 'vitest';
import type * as editor from 'vscode';
import { ModelKeys } from '../src/host/keys';
import { editMemory, forgetMemory, showMemorySource } from '../src/host/memoryCommands';
import type { Parts } from '../src/host/commands';
import type { MemoryEntryView } from '../src/protocol';
import type { MemoryRow } from '../src/host/memoryTree';

const user = vi.hoisted(() => ({
  input: undefined as string | undefined,
  options: undefined as { password?: boolean } | undefined,
  choice: undefined as string | undefined,
}));

vi.mock('vscode', () => ({
  l10n: { t: (text: string) => text },
  ThemeIcon: Object,
  workspace: {},
  window: {
    showInputBox: (options: { password?: boolean }) => {
      user.options = options;
      return Promise.resolve(user.input);
    },
    showInformationMessage: () => Promise.resolve(user.choice),
    showQuickPick: (rows: { label: string }[]) => Promise.resolve(rows.find(({ label }) => label === user.choice)),
  },
}));

const entry: MemoryEntryView = {
  id: 'old',
  content: 'The port is 80.',
  tags: ['ops'],
  metadata: { line: 3 },
  scope: 'global',
  createdAt: 1,
  updatedAt: 1,
  expiresAt: null,
  source: { session: 's', node: 'n' },
  trusted: true,
  tainted: false,
  supersedes: null,
  supersededBy: null,
};
const row: Extract<MemoryRow, { kind: 'entry' }> = { kind: 'entry', entry, workspace: 'file:///w', score: null };
let asked: { method: string; params: Record<string, unknown> }[];
let opened: unknown[];
let freshId: string;
let parts: Parts;

beforeEach(() => {
  user.input = undefined;
  user.choice = undefined;
  asked = [];
  opened = [];
  freshId = 'new';
  parts = {
    connection: {
      request: (method: string, params: Record<string, unknown>) => {
        asked.push({ method, params });
        return Promise.resolve({ entry: { ...entry, id: freshId }, created: true, forgotten: true });
      },
    },
    memory: { refresh: () => undefined },
    chat: {
      open: (...what: unknown[]) => Promise.resolve(opened.push(what)),
      focus: () => Promise.resolve(),
      reveal: () => false,
      fail: (reason: unknown) => expect.fail(String(reason)),
    },
  } as unknown as Parts;
});

const kept = { tags: ['ops'], metadata: { line: 3 }, scope: 'global', source: { session: 's', node: 'n' } };

test('an entry that is changed keeps all but its text, and the old one goes', async () => {
  user.input = 'The port is 8080.';
  await editMemory(parts, row);
  expect(asked).toEqual([
    {
      method: 'indusagi/memory/remember',
      params: { ...kept, text: 'The port is 8080.', workspace: 'file:///w' },
    },
    { method: 'indusagi/memory/forget', params: { id: 'old', workspace: 'file:///w' } },
  ]);
});

test('an entry is not forgotten when the server took the new text for the same one', async () => {
  user.input = 'The port is  80.';
  freshId = 'old';
  await editMemory(parts, row);
  expect(asked.map(({ method }) => method)).toEqual(['indusagi/memory/remember']);
});

test('letting an edit be changes nothing', async () => {
  for (const input of [undefined, '  ', entry.content]) {
    user.input = input;
    await editMemory(parts, row);
  }
  expect(asked).toEqual([]);
});

test('what was forgotten can be taken back whole', async () => {
  user.choice = 'Undo';
  await forgetMemory(parts, row);
  await vi.waitFor(() => {
    expect(asked.at(-1)).toEqual({
      method: 'indusagi/memory/remember',
      params: { ...kept, text: entry.content, workspace: 'file:///w' },
    });
  });
});

test('showing where something was said moves no head, unless the user wants to resume there', async () => {
  await showMemorySource(parts, row);
  expect(opened).toEqual([[{ id: 's', workspace: 'file:///w' }]]);
  user.choice = 'Resume there';
  await showMemorySource(parts, row);
  expect(opened.at(-1)).toEqual([{ id: 's', workspace: 'file:///w' }, 'n']);
});

test('a key is asked for unseen, kept in the secret storage alone, and handed over by its variable', async () => {
  const store = new Map<string, string>();
  const keys = new ModelKeys({
    get: (name: string) => Promise.resolve(store.get(name)),
    store: (name: string, value: string) => Promise.resolve(void store.set(name, value)),
    delete: (name: string) => Promise.resolve(void store.delete(name)),
  } as unknown as editor.SecretStorage);
  user.choice = 'Anthropic';
  user.input = ' secret ';
  await keys.ask();
  expect(user.options?.password).toBe(true);
  expect(await keys.environment()).toEqual({ ANTHROPIC_API_KEY: 'secret' });
  user.input = undefined;
  await keys.ask();
  expect(await keys.environment()).toEqual({ ANTHROPIC_API_KEY: 'secret' });
  user.input = '';
  await keys.ask();
  expect(await keys.environment()).toEqual({});
});
