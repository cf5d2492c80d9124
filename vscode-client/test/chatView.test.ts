import { beforeEach, expect, test, vi } from 'vitest';
import type * as editor from 'vscode';
import { ChatView } from '../src/host/chatView';
import type { ApprovalDesk } from '../src/host/approvals';
import type { QuestionDesk } from '../src/host/questions';
import type { Connection } from '../src/host/connection';
import { ServerError } from '../src/host/wire';

vi.mock('vscode', () => ({
  EventEmitter: class {
    event = () => ({ dispose: () => undefined });
    fire = () => undefined;
    dispose = () => undefined;
  },
  Uri: { joinPath: () => ({ toString: () => 'x' }) },
  commands: { executeCommand: () => Promise.resolve() },
  window: {},
  workspace: {
    registerTextDocumentContentProvider: () => ({ dispose: () => undefined }),
    getConfiguration: () => ({ get: (_name: string, value: unknown) => value }),
  },
  l10n: { t: (text: string) => text },
  env: { language: 'en' },
}));

interface Asked {
  method: string;
  params: Record<string, unknown>;
  answer: (result: unknown) => void;
  refuse: (reason: unknown) => void;
}

let asked: Asked[];
let view: ChatView;
let posted: { type: string; text?: string; replace?: boolean }[];
let say: (message: unknown) => void;

/** The requests of a method that wait for their answer. */
const open = (method: string): Asked[] => asked.filter((one) => one.method === `indusagi/${method}`);
const settle = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));

beforeEach(() => {
  asked = [];
  posted = [];
  const nothing = () => ({ dispose: () => undefined });
  const connection = {
    onEvent: nothing,
    onState: nothing,
    request: (method: string, params: Record<string, unknown>) =>
      new Promise((answer, refuse) => asked.push({ method, params, answer, refuse })),
  };
  const context = { workspaceState: { update: () => Promise.resolve(), get: () => undefined }, extensionUri: {} };
  const desk = { of: () => [] };
  view = new ChatView(
    context as unknown as editor.ExtensionContext,
    connection as unknown as Connection,
    () => desk as unknown as ApprovalDesk,
    { error: () => undefined, warn: () => undefined } as unknown as editor.LogOutputChannel,
    () => desk as unknown as QuestionDesk,
  );
  const page = {
    webview: {
      onDidReceiveMessage: (listener: (message: unknown) => void) => (say = listener),
      postMessage: (message: { type: string }) => posted.push(message),
      asWebviewUri: (uri: unknown) => uri,
    },
    onDidDispose: nothing,
    onDidChangeVisibility: nothing,
  };
  view.resolveWebviewView(page as unknown as editor.WebviewView);
  say({ type: 'ready' });
});

const made = (id: string): unknown => ({
  id,
  workspace: 'file:///w',
  title: '',
  state: 'idle',
  model: null,
  cost: null,
});

/** Lets the view show the session `id`, which is empty. */
async function show(id: string): Promise<void> {
  const opened = view.open({ id, workspace: 'file:///w' });
  await fetched(id);
  await opened;
}

/** Answers what the view asks to show the session `id`. */
async function fetched(id: string): Promise<void> {
  await settle();
  const session = made(id);
  open('resume')
    .at(-1)
    ?.answer({ session, turns: [], before: null, seq: 0, usage: { cost: null }, notices: [], trusted: true });
  await settle();
  const snapshot = { runId: '', phase: 'idle', partial: '', pending: [], model: '' };
  open('snapshot').at(-1)?.answer({ snapshot, seq: 0, gap: false, events: [] });
  await settle();
}

test('two prompts at once go to one new session', async () => {
  say({ type: 'submit', text: 'first', mode: 'queue' });
  say({ type: 'submit', text: 'second', mode: 'queue' });
  await settle();
  expect(open('session/new')).toHaveLength(1);
  open('session/new')[0]?.answer(made('s'));
  await settle();
  expect(open('submit').map(({ params }) => [params['sessionId'], params['text']])).toEqual([
    ['s', 'first'],
    ['s', 'second'],
  ]);
  expect(view.chat.head().queued.map(({ text }) => text)).toEqual(['first', 'second']);
});

test('a session that could not be made is tried again with the next prompt', async () => {
  say({ type: 'submit', text: 'first', mode: 'queue' });
  await settle();
  open('session/new')[0]?.refuse(new ServerError('internal', 'No.', ''));
  await settle();
  say({ type: 'submit', text: 'second', mode: 'queue' });
  await settle();
  expect(open('session/new')).toHaveLength(2);
});

test('a session that was opened meanwhile stays, and the prompt goes where it was said', async () => {
  say({ type: 'submit', text: 'first', mode: 'queue' });
  await settle();
  await show('other');
  open('session/new')[0]?.answer(made('s'));
  await settle();
  expect(view.session?.id).toBe('other');
  expect(open('submit').map(({ params }) => params['sessionId'])).toEqual(['s']);
});

test('trying again sends what failed, not what was said last', async () => {
  await show('s');
  say({ type: 'submit', text: 'fails', mode: 'queue' });
  say({ type: 'submit', text: 'goes well', mode: 'queue' });
  await settle();
  const [first, second] = open('submit');
  first?.answer({ phase: 'faulted' });
  second?.answer({ phase: 'settled' });
  await settle();
  say({ type: 'retry' });
  await settle();
  expect(open('submit').at(-1)?.params).toMatchObject({ sessionId: 's', text: 'fails' });
});

test('trying again never sends the prompt of another session', async () => {
  await show('s');
  say({ type: 'submit', text: 'fails', mode: 'queue' });
  await settle();
  open('submit')[0]?.refuse(new ServerError('model_failed', 'No.', ''));
  await settle();
  await show('other');
  say({ type: 'retry' });
  await settle();
  expect(open('submit')).toHaveLength(1);
  expect(view.chat.all()).toMatchObject([{ kind: 'notice', level: 'info' }]);
});

test('a fork hands a prompt back to edit, and leaves the draft alone where there is none', async () => {
  await show('s');
  for (const prefill of [null, 'to edit']) {
    const forked = view.fork('n', prefill !== null);
    await settle();
    open('fork').at(-1)?.answer({ sessionId: 's', leaf: 'n', prefill });
    await fetched('s');
    await forked;
  }
  expect(posted.filter(({ type }) => type === 'prefill')).toEqual([
    { type: 'prefill', text: 'to edit', replace: true },
  ]);
});

test('stop takes back a prompt whose session is still being made; it can be sent again', async () => {
  say({ type: 'submit', text: 'first', mode: 'queue' });
  await settle();
  say({ type: 'stop' });
  await settle();
  expect(view.chat.head().queued).toEqual([]);
  expect(view.chat.all()).toMatchObject([{ kind: 'notice', text: 'Stopped.', retry: true }]);
  open('session/new')[0]?.answer(made('s'));
  await settle();
  expect(open('submit')).toEqual([]);
  say({ type: 'retry' });
  await settle();
  expect(open('submit').map(({ params }) => params['text'])).toEqual(['first']);
});

const file = { id: 'f', label: 'a.py', item: { kind: 'file' as const, uri: 'file:///w/a.py' } };

test('what went with a prompt that failed is attached again, and goes along once when it is repeated', async () => {
  await show('s');
  view.attach(file);
  say({ type: 'submit', text: 'fails', mode: 'queue' });
  await settle();
  expect(view.chat.head().attachments).toEqual([]);
  open('submit')[0]?.refuse(new ServerError('model_failed', 'No.', ''));
  await settle();
  expect(view.chat.head().attachments).toMatchObject([{ id: 'f' }]);
  say({ type: 'retry' });
  await settle();
  expect(open('submit').at(-1)?.params['context']).toEqual([file.item]);
  expect(view.chat.head().attachments).toEqual([]);
});

test('what went with a failed prompt of another session is not attached here', async () => {
  await show('s');
  view.attach(file);
  say({ type: 'submit', text: 'fails', mode: 'queue' });
  await settle();
  await show('other');
  open('submit')[0]?.refuse(new ServerError('model_failed', 'No.', ''));
  await settle();
  expect(view.chat.head().attachments).toEqual([]);
});

test('a pasted picture goes as a block beside the text', async () => {
  await show('s');
  say({ type: 'image', name: 'shot.png', mediaType: 'image/png', dataBase64: 'QUJD' });
  say({ type: 'image', name: 'x', mediaType: 'image/svg+xml', dataBase64: 'QUJD' });
  await settle();
  expect(view.chat.head().attachments).toMatchObject([{ label: 'shot.png' }]);
  say({ type: 'submit', text: 'what is this?', mode: 'queue' });
  await settle();
  const params = open('submit')[0]?.params;
  expect(params?.['text']).toBeUndefined();
  expect(params?.['blocks']).toEqual([
    { kind: 'text', text: 'what is this?' },
    { kind: 'image', mediaType: 'image/png', dataBase64: 'QUJD' },
  ]);
  expect(view.chat.head().queued).toMatchObject([{ images: 1 }]);
});
