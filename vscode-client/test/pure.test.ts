import * as path from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { locateServer, ServerMissing } from '../src/host/locate';
import { OneAtATime, orElse } from '../src/host/serial';
import { asServerError } from '../src/host/wire';
import { branchesOf } from '../src/shared/branches';
import { ago, cost, headAndTail, oneLine, tokens, unmask } from '../src/shared/format';
import { isString, listOf, optional, record, tagged } from '../src/shared/guards';
import { isHostMessage, isPageMessage, isSafeLink } from '../src/shared/messages';

describe('guards', () => {
  test('a record needs its own fields, of their types', () => {
    const guard = record({ a: isString, b: optional(isString) });
    expect(guard({ a: 'x' })).toBe(true);
    expect(guard({ a: 'x', b: null })).toBe(true);
    expect(guard({ a: 'x', b: 1 })).toBe(false);
    expect(guard(Object.create({ a: 'inherited' }))).toBe(false);
    expect(guard(['x'])).toBe(false);
  });

  test('a tag must be one of the table, not of what objects inherit', () => {
    const guard = tagged('type', { a: record({}) });
    expect(guard({ type: 'a' })).toBe(true);
    for (const type of ['b', 'constructor', 'toString', '__proto__', 1, null]) {
      expect(guard({ type })).toBe(false);
    }
  });

  test('a list has a length limit', () => {
    expect(listOf(isString, 2)(['a', 'b'])).toBe(true);
    expect(listOf(isString, 2)(['a', 'b', 'c'])).toBe(false);
  });
});

describe('messages of the page', () => {
  test.each([
    { type: 'ready' },
    { type: 'submit', text: 'x', mode: 'queue' },
    { type: 'approve', approvalId: 'a', decision: 'once' },
    { type: 'command', command: 'indusagi.condense' },
  ])('$type is taken', (message) => {
    expect(isPageMessage(message)).toBe(true);
  });

  test.each([
    null,
    'ready',
    { type: 'command', command: 'workbench.action.terminal.new' },
    { type: 'command', command: 'indusagi.rememberText' },
    { type: 'approve', approvalId: 'a', decision: 'forever' },
    { type: 'submit', text: 'x', mode: 'root' },
    { type: 'submit', text: 'x'.repeat(1_000_001), mode: 'queue' },
    { type: 'fork', node: {}, before: true },
    { type: 'eval', text: 'x' },
  ])('%j is dropped', (message) => {
    expect(isPageMessage(message)).toBe(false);
    expect(isHostMessage(message)).toBe(false);
  });

  test.each(['https://a.b/c', 'http://localhost:1/'])('%s may be opened', (href) => {
    expect(isSafeLink(href)).toBe(true);
  });

  test.each([
    'javascript:alert(1)',
    'command:workbench.action.quit',
    'vscode://x/y',
    'file:///etc/passwd',
    'data:text/html,x',
    'https://user:pw@host/',
    '//host/x',
    'x',
  ])('%s may not', (href) => {
    expect(isSafeLink(href)).toBe(false);
  });
});

describe('texts for people', () => {
  test('numbers', () => {
    expect([tokens(999), tokens(1234), tokens(123_456)]).toEqual(['999', '1.2k', '123k']);
    expect([cost(null), cost(0), cost(0.001), cost(1.5)]).toEqual(['', '', '<$0.01', '$1.50']);
    expect([ago(0, 1), ago(0, 600_000), ago(0, 36_000_000), ago(0, 864_000_000)]).toEqual([
      'now',
      '10 min',
      '10 h',
      '10 d',
    ]);
  });

  test('one line is cut between characters', () => {
    expect(oneLine('a\n b', 10)).toBe('a b');
    expect(oneLine('😀😀😀😀', 3)).toBe('😀😀…');
  });

  test('what hides is made visible', () => {
    expect(unmask('a\u202Eb\u200Bc\u001B[31m\u{E0041}')).toBe('a⟨U+202E⟩b⟨U+200B⟩c⟨U+001B⟩[31m⟨U+E0041⟩');
    expect(unmask('tab\tline\r\nemoji 👩‍💻 a\u200Db')).toBe('tab\tline\nemoji 👩‍💻 a⟨U+200D⟩b');
    expect(unmask('carriage\rreturn')).toBe('carriage⟨U+000D⟩return');
  });

  test('a long text keeps its beginning, its end and its true size', () => {
    const { head, left, tail } = headAndTail(`${'a'.repeat(50)}${'b'.repeat(50)}`, 20);
    expect([head, left, tail]).toEqual(['a'.repeat(10), 80, 'b'.repeat(10)]);
    expect(headAndTail('short', 20)).toEqual({ head: 'short', left: 0, tail: '' });
  });
});

describe('finding the server', () => {
  const files = new Set(['/usr/bin/indusagi-lsp', '/venv/bin/python', '/venv/bin/indusagi-lsp', '/usr/bin/python3']);
  const around = {
    platform: 'linux' as const,
    searchPath: ['relative', '.', '/usr/local/bin', '/usr/bin'].join(path.delimiter),
    isFile: (file: string) => files.has(file),
  };
  const none = { path: [], interpreter: '', logLevel: '' };

  test('by path, by interpreter, on the search path: in this order', () => {
    const all = { path: ['/usr/bin/indusagi-lsp', '--x'], interpreter: '/venv/bin/python', logLevel: 'debug' };
    expect(locateServer(all, around)).toEqual({
      command: '/usr/bin/indusagi-lsp',
      args: ['--x', '--stdio', '--log-level', 'debug'],
      origin: 'path',
    });
    expect(locateServer({ ...all, path: [] }, around)).toMatchObject({
      command: '/venv/bin/python',
      origin: 'interpreter',
    });
    expect(locateServer(none, around)).toMatchObject({ command: '/usr/bin/indusagi-lsp', origin: 'PATH' });
  });

  test('an interpreter never imports from the working directory', () => {
    expect(locateServer({ ...none, interpreter: 'python3' }, around).args.slice(0, 3)).toEqual([
      '-P',
      '-m',
      'indusagi_lsp',
    ]);
  });

  test.each([['./server'], ['bin/server'], ['missing']])('%s is not looked for in the workspace', (name) => {
    expect(() =>
      locateServer({ ...none, path: [name] }, { ...around, isFile: (file) => !path.isAbsolute(file) }),
    ).toThrow(ServerMissing);
  });

  test('nothing found says what to do', () => {
    expect(() => locateServer(none, { ...around, searchPath: '' })).toThrow(/pip install/u);
  });
});

describe('one at a time', () => {
  test('many calls at once are two runs', async () => {
    let running = 0;
    let most = 0;
    let runs = 0;
    const work = new OneAtATime(async () => {
      running += 1;
      most = Math.max(most, running);
      runs += 1;
      await new Promise((resolve) => setTimeout(resolve, 5));
      running -= 1;
    });
    await Promise.all([work.run(), work.run(), work.run(), work.run()]);
    expect([runs, most]).toEqual([2, 1]);
    await work.idle();
  });

  test('a run that failed does not hold up the next', async () => {
    const job = vi.fn<() => Promise<void>>().mockRejectedValueOnce(new Error('no')).mockResolvedValue(undefined);
    const work = new OneAtATime(job);
    const first = work.run();
    const second = work.run();
    await expect(first).rejects.toThrow('no');
    await expect(second).resolves.toBeUndefined();
    await work.idle();
  });

  test('the thorough way is for when the quick one failed', async () => {
    const thorough = vi.fn<() => Promise<void>>().mockResolvedValue(undefined);
    await orElse(() => Promise.resolve('done'), thorough);
    expect(thorough).not.toHaveBeenCalled();
    await orElse(() => Promise.reject(new Error('no such method')), thorough);
    expect(thorough).toHaveBeenCalledTimes(1);
  });
});

test('failures are read, whatever they are', () => {
  const ours = asServerError({ code: -32001, message: 'No.', data: { kind: 'bad_request', hint: 'Do.' } });
  expect([ours.kind, ours.full]).toEqual(['bad_request', 'No. Do.']);
  expect(asServerError({ code: -32097, message: 'Pending response rejected since connection got disposed' }).kind).toBe(
    'interrupted',
  );
  expect(asServerError({ code: -32800, message: 'x' }).kind).toBe('aborted');
  expect(asServerError(new Error('odd')).kind).toBe('internal');
  expect(asServerError('text').message).toBe('text');
});

test('branches are the leaves, the live one first, and loops do no harm', () => {
  const node = (id: string, parent: string | null, createdAt: number) => ({
    id,
    parent,
    role: 'user',
    preview: id.toUpperCase(),
    label: null,
    tokens: 1,
    createdAt,
  });
  const branches = branchesOf({
    nodes: [node('a', null, 1), node('b', 'a', 2), node('c', 'a', 3), node('x', 'y', 4), node('y', 'x', 5)],
    condensations: [{ summary: 'a', source: 'c', cut: 'a', trigger: 'manual', before: 2, after: 1 }],
    leaves: ['b', 'c', 'x', 'lost'],
    head: 'b',
  });
  expect(branches.map(({ leaf, turns, head, condensed }) => [leaf, turns, head, condensed])).toEqual([
    ['b', 2, true, false],
    ['x', 2, false, false],
    ['c', 2, false, true],
  ]);
});
