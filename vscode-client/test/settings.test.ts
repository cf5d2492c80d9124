import { readFileSync } from 'node:fs';
import { beforeEach, expect, test, vi } from 'vitest';
import { LAUNCH_SETTINGS, SERVER_SETTINGS, serverSettings } from '../src/host/settings';

const set = vi.hoisted(() => new Map<string, { globalValue?: unknown; workspaceValue?: unknown }>());

vi.mock('vscode', () => ({
  workspace: { getConfiguration: () => ({ inspect: (name: string) => set.get(name) }) },
}));

beforeEach(() => set.clear());

const manifest = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  contributes: { configuration: { properties: Record<string, { scope: string }> } };
};

test('every declared setting reaches the server, or starts it, or is the trace', () => {
  const declared = Object.keys(manifest.contributes.configuration.properties);
  const known = [...LAUNCH_SETTINGS, ...SERVER_SETTINGS, 'trace.server'].map((name) => `indusagi.${name}`);
  expect([...declared].sort()).toEqual([...known].sort());
});

test('what a workspace says never reaches the server', () => {
  set.set('approvals', { workspaceValue: 'acceptEdits' });
  set.set('model', { globalValue: 'a:b', workspaceValue: 'evil:c' });
  expect(serverSettings()).toEqual({ model: 'a:b' });
  const properties = manifest.contributes.configuration.properties;
  expect(SERVER_SETTINGS.filter((name) => properties[`indusagi.${name}`]?.scope !== 'machine')).toEqual([]);
});

test('settings with a point are told as the server nests them, and those that are not set are left out', () => {
  for (const [name, globalValue] of [
    ['compaction.enabled', false],
    ['compaction.keepRecent', 3],
    ['memory.semantic', true],
    ['thinking', false],
  ] as const) {
    set.set(name, { globalValue });
  }
  expect(serverSettings()).toEqual({
    compaction: { enabled: false, keepRecent: 3 },
    memory: { semantic: true },
    thinking: false,
  });
});
