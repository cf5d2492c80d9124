import { beforeEach, expect, test, vi } from 'vitest';
import type { CancellationToken } from 'vscode';
import { shownProblems } from '../src/host/diagnostics';
import { QuestionDesk } from '../src/host/questions';

interface Shown {
  title: string;
}

const editor = vi.hoisted(() => ({
  told: [] as { text: string; buttons: string[] }[],
  choice: undefined as string | undefined,
  problems: [] as [{ toString: () => string }, unknown[]][],
}));

vi.mock('vscode', () => {
  const parse = (text: string) => ({
    scheme: text.split(':')[0],
    path: decodeURIComponent(text.replace(/^\w+:\/\//u, '')),
    toString: () => text,
  });
  return {
    EventEmitter: class {
      event = () => ({ dispose: () => undefined });
      fire = () => undefined;
      dispose = () => undefined;
    },
    Uri: { parse },
    languages: {
      getDiagnostics: (uri?: { toString: () => string }) =>
        uri === undefined
          ? editor.problems
          : (editor.problems.find(([file]) => file.toString() === uri.toString())?.[1] ?? []),
    },
    window: {
      showInformationMessage: (text: string, ...buttons: Shown[]) => {
        editor.told.push({ text, buttons: buttons.map(({ title }) => title) });
        return Promise.resolve(buttons.find(({ title }) => title === editor.choice));
      },
    },
    l10n: { t: (text: string, ...parts: string[]) => text.replace('{0}', parts[0] ?? '') },
  };
});

let cancel: () => void = () => undefined;
const token = {
  onCancellationRequested: (listener: () => void) => {
    cancel = listener;
    return { dispose: () => undefined };
  },
} as unknown as CancellationToken;
const question = (text: string, options: string[] = []) => ({
  questionId: 'q',
  workspace: 'file:///w',
  sessionId: 's',
  callId: 'c',
  question: text,
  options,
});
let shown: string[];
const desk = (inSight = false): QuestionDesk =>
  new QuestionDesk(
    () => inSight,
    (asked) => {
      shown.push(asked.questionId);
      return Promise.resolve();
    },
  );

beforeEach(() => {
  editor.told = [];
  editor.choice = undefined;
  editor.problems = [];
  shown = [];
});

test.each([
  ['Tabs?', ['yes', 'no'], ['Answer…', 'yes', 'no']],
  ['Tabs?', [], ['Answer…']],
  ['Which?', ['1', '2', '3', '4'], ['Answer…']],
  ['x'.repeat(161), ['yes'], ['Answer…']],
  ['one\ntwo', ['yes'], ['Answer…']],
])('a notification offers answers where the whole question is in it: %j', (text, options, buttons) => {
  void desk().ask(question(text, options), token);
  expect(editor.told.map((one) => one.buttons)).toEqual([buttons]);
});

test('a question whose card is in sight is not told beside it', () => {
  void desk(true).ask(question('Tabs?'), token);
  expect(editor.told).toEqual([]);
});

test('an answer of the notification counts, and showing the card leaves the question open', async () => {
  editor.choice = 'yes';
  await expect(desk().ask(question('Tabs?', ['yes']), token)).resolves.toBe('yes');
  editor.choice = 'Answer…';
  const one = desk();
  const asked = one.ask(question('Tabs?'), token);
  await Promise.resolve();
  await Promise.resolve();
  expect(shown).toEqual(['q']);
  expect(one.count).toBe(1);
  one.answer('q', 'no, spaces');
  await expect(asked).resolves.toBe('no, spaces');
});

test.each([
  ['an empty answer', (one: QuestionDesk) => one.answer('q', '  ')],
  ['no answer', (one: QuestionDesk) => one.answer('q', null)],
  ['a run that ended', () => cancel()],
  ['a server that is gone', (one: QuestionDesk) => one.drop()],
])('%s is silence', async (_name, end) => {
  const one = desk();
  const asked = one.ask(question('Tabs?'), token);
  end(one);
  await expect(asked).resolves.toBeNull();
  expect(one.count).toBe(0);
});

const place = { line: 2, character: 4 };
const range = { start: place, end: place };

test('the problems of the folder are told, the most severe first, and nothing of another folder', () => {
  const file = (name: string) => ({ scheme: 'file', path: name, toString: () => `file://${name}` });
  editor.problems = [
    [
      file('/w/a.py'),
      [
        { range, message: 'hint', severity: 3 },
        { range, message: 'error', severity: 0, source: 'ruff', code: { value: 'F401' } },
      ],
    ],
    [file('/w-evil/b.py'), [{ range, message: 'elsewhere', severity: 0 }]],
    [{ scheme: 'untitled', path: '/w/c', toString: () => 'untitled:/w/c' }, [{ range, message: 'no', severity: 0 }]],
    [file('/w/clean.py'), []],
  ];
  const error = { range, message: 'error', severity: 1, source: 'ruff', code: 'F401' };
  const found = { uri: 'file:///w/a.py', diagnostics: [error, { range, message: 'hint', severity: 4 }] };
  expect(shownProblems({ workspace: 'file:///w', uri: null })).toEqual({ files: [found] });
  expect(shownProblems({ workspace: 'file:///w', uri: 'file:///w/a.py' })).toEqual({ files: [found] });
  expect(shownProblems({ workspace: 'file:///w', uri: 'file:///w-evil/b.py' })).toEqual({ files: [] });
});

test('very many problems are bounded', () => {
  const problems = Array.from({ length: 5000 }, () => ({ range, message: 'x', severity: 1 }));
  editor.problems = ['/w/a', '/w/b'].map((path) => [
    { scheme: 'file', path, toString: () => `file://${path}` },
    problems,
  ]);
  const { files } = shownProblems({ workspace: 'file:///w', uri: null });
  expect(files?.map((file) => file.diagnostics?.length)).toEqual([1000]);
});
