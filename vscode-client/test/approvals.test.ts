import { beforeEach, expect, test, vi } from 'vitest';
import type { CancellationToken } from 'vscode';
import { ApprovalDesk } from '../src/host/approvals';

const editor = vi.hoisted(() => ({ warned: [] as unknown[][], choice: undefined as string | undefined }));

vi.mock('vscode', () => ({
  EventEmitter: class {
    event = () => ({ dispose: () => undefined });
    fire = () => undefined;
    dispose = () => undefined;
  },
  window: {
    showWarningMessage: (...shown: unknown[]) => {
      editor.warned.push(shown);
      return Promise.resolve(editor.choice);
    },
  },
  l10n: {
    t: (text: string, ...parts: string[]) => text.replace(/\{(\d)\}/gu, (_all, at: string) => parts[Number(at)] ?? ''),
  },
}));

const token = { onCancellationRequested: () => ({ dispose: () => undefined }) } as unknown as CancellationToken;
const question = (action: string) => ({
  approvalId: 'a',
  workspace: 'file:///w',
  sessionId: 's',
  runId: 'r',
  callId: 'c',
  tool: 'run_command',
  action,
  size: action.length,
  sha256: '',
  options: ['once' as const, 'deny' as const],
});

beforeEach(() => {
  editor.warned = [];
  editor.choice = undefined;
});

test.each([
  ['make test', ['Show', 'Allow once', 'Deny']],
  ['make test\n', ['Show', 'Allow once', 'Deny']],
  ['make test\nrm -r build', ['Show', 'Deny']],
  ["printf 'a  b'", ['Show', 'Deny']],
  ['x'.repeat(161), ['Show', 'Deny']],
])('a notification lets only pass what it shows exactly: %j', (action, buttons) => {
  const desk = new ApprovalDesk(
    () => false,
    () => Promise.resolve(),
  );
  void desk.ask(question(action), token);
  expect(editor.warned.map(([, ...shown]) => shown)).toEqual([buttons]);
  desk.dispose();
});

test('the first answer counts, and one that was not offered is a denial', async () => {
  editor.choice = 'Allow once';
  const desk = new ApprovalDesk(
    () => false,
    () => Promise.resolve(),
  );
  const asked = desk.ask(question('make test'), token);
  await expect(asked).resolves.toBe('once');
  desk.answer('a', 'deny');
  editor.choice = undefined;
  const other = desk.ask(question('make test'), token);
  desk.answer('a', 'always');
  await expect(other).resolves.toBe('deny');
});
