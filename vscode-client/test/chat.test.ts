import { beforeEach, describe, expect, test } from 'vitest';
import { Chat, type Moment, movedOn, type View } from '../src/shared/chat';
import type { EventParams } from '../src/shared/events';
import { isItem } from '../src/shared/items';
import { isHostMessage } from '../src/shared/messages';

const WORKSPACE = 'file:///w';
let chat: Chat;
let seq: number;

const says = (text: string) => [{ kind: 'text', text }];
const turn = (id: string, role: string, blocks: unknown[]) => ({ id, role, blocks });

function view(turns: View['turns'], extra: Partial<View> = {}): View {
  return {
    session: { id: 's', workspace: WORKSPACE, title: 'T', trusted: true, model: null },
    turns,
    before: null,
    seq: 0,
    cost: null,
    notices: [],
    ...extra,
  };
}

function moment(extra: Partial<Moment> = {}): Moment {
  return { runId: '', phase: 'idle', partial: '', pending: [], model: '', seq: 0, gap: false, events: [], ...extra };
}

function event(kind: string, fields: Record<string, unknown> = {}, runId = 'r'): EventParams {
  seq += 1;
  return { workspace: WORKSPACE, sessionId: 's', runId, seq, at: 1000, event: { kind, ...fields } };
}

const snapshot = { runId: 'r', sessionId: 's', phase: 'settled', pending: [], partial: '' };

function feed(...events: EventParams[]): string[] {
  return events.map((params) => chat.apply(params));
}

function texts(): string[] {
  return chat.all().map((item) => ('text' in item ? `${item.kind}: ${item.text}` : item.kind));
}

beforeEach(() => {
  chat = new Chat(() => 5000);
  chat.setConnection('running');
  chat.load(view([]), moment());
  chat.takeChanges();
  seq = 0;
});

describe('a run', () => {
  test('goes from the prompt through a streamed answer to its end', () => {
    chat.submitted('r', 'hello', 'queue');
    expect(chat.head().queued).toHaveLength(1);
    feed(
      event('run_started', { node: 'u1' }),
      event('thinking_delta', { delta: 'hm' }),
      event('text_delta', { delta: 'Hi ' }),
      event('text_delta', { delta: 'there' }),
    );
    expect(texts()).toEqual(['user: hello', 'thinking: hm', 'assistant: Hi there']);
    expect(chat.head().queued).toEqual([]);
    expect(chat.head().run).toMatchObject({ runId: 'r', phase: 'streaming', startedAt: 1000 });

    feed(event('persisted', { node: 'a1', leaf: 'a1' }));
    expect(chat.all().map((item) => item.node)).toEqual(['u1', 'a1', 'a1']);
    expect(chat.apply(event('settled', { snapshot }))).toBe('stale');
    expect(chat.head().run).toBeNull();
  });

  test('shows a tool from its first mention to its result', () => {
    feed(event('text_delta', { delta: 'Let me see.' }), event('tool_started', { id: 'c', name: 'read_file' }));
    const stage = (): unknown => chat.all().find((item) => item.kind === 'tool');
    expect(stage()).toMatchObject({ stage: 'asked' });
    feed(event('tool_called', { id: 'c', name: 'read_file', input: { path: 'a' } }));
    expect(stage()).toMatchObject({ stage: 'running', input: '{\n  "path": "a"\n}' });
    feed(event('tool_update', { id: 'c', text: 'part' }));
    expect(stage()).toMatchObject({ output: 'part' });
    feed(event('tool_finished', { id: 'c', name: 'read_file', outcome: { output: 'whole', isError: false } }));
    expect(stage()).toMatchObject({ stage: 'done', output: 'whole' });
    feed(event('text_delta', { delta: 'It is whole.' }));
    expect(texts()).toEqual(['assistant: Let me see.', 'tool', 'assistant: It is whole.']);
  });

  test('that failed says why, what to do, and offers to try again', () => {
    feed(event('faulted', { error: { kind: 'model_failed', message: 'No.', hint: 'Set a key.' }, snapshot }));
    expect(chat.all()).toMatchObject([
      { kind: 'notice', level: 'error', text: 'No.', hint: 'Set a key.', retry: true },
    ]);
  });

  test('of somebody else makes us fetch, because its prompt is not known', () => {
    expect(chat.apply(event('run_started', { node: 'u1' }, 'other'))).toBe('stale');
  });

  test('that the user stopped is no error', () => {
    feed(event('faulted', { error: { kind: 'aborted', message: 'aborted' }, snapshot }));
    expect(chat.all()).toMatchObject([{ kind: 'notice', level: 'info', text: 'Stopped.' }]);
  });
});

describe('the order of events', () => {
  test('a repeated event changes nothing', () => {
    const delta = event('text_delta', { delta: 'once' });
    expect(feed(delta, delta)).toEqual(['applied', 'ignored']);
    expect(texts()).toEqual(['assistant: once']);
  });

  test('a gap asks for the history and applies nothing', () => {
    feed(event('text_delta', { delta: 'a' }));
    seq += 1;
    expect(chat.apply(event('text_delta', { delta: 'c' }))).toBe('stale');
    expect(texts()).toEqual(['assistant: a']);
  });

  test('events of other sessions and workspaces are not ours', () => {
    const foreign = { ...event('text_delta', { delta: 'x' }), sessionId: 'other' };
    const elsewhere = { ...event('text_delta', { delta: 'x' }), workspace: 'file:///other' };
    expect(feed(foreign, elsewhere)).toEqual(['ignored', 'ignored']);
    expect(chat.all()).toEqual([]);
  });

  test('an unknown kind, or a known one of the wrong shape, is passed over', () => {
    expect(feed(event('from_the_future', { x: 1 }), event('text_delta', { delta: 7 }))).toEqual(['applied', 'applied']);
    expect(chat.all()).toEqual([]);
    expect(chat.apply(event('text_delta', { delta: 'on' }))).toBe('applied');
  });
});

describe('fetching the history', () => {
  const history = [
    turn('u1', 'user', says('hello')),
    turn('a1', 'assistant', [...says('Hi'), { kind: 'tool_call', id: 'c', name: 'read', input: { p: 1 } }]),
    turn('t1', 'tool', [{ kind: 'tool_result', callId: 'c', output: 'out', isError: true }]),
    turn('a2', 'assistant', says('Done')),
  ];

  test('makes items of turns, a result in the card of its call', () => {
    chat.load(view(history), moment());
    expect(texts()).toEqual(['user: hello', 'assistant: Hi', 'tool', 'assistant: Done']);
    expect(chat.all()[2]).toMatchObject({ stage: 'failed', output: 'out', callId: 'c' });
  });

  test('after a run leaves what is shown as it is: same items, same keys', () => {
    chat.submitted('r', 'hello', 'queue');
    feed(
      event('run_started', { node: 'u1' }),
      event('text_delta', { delta: 'Hi' }),
      event('tool_started', { id: 'c', name: 'read' }),
      event('persisted', { node: 'a1', leaf: 'a1' }),
      event('tool_called', { id: 'c', name: 'read', input: { p: 1 } }),
      event('tool_finished', { id: 'c', name: 'read', outcome: { output: 'out', isError: true } }),
      event('persisted', { node: 't1', leaf: 't1' }),
      event('text_delta', { delta: 'Done' }),
      event('persisted', { node: 'a2', leaf: 'a2' }),
      event('settled', { snapshot }),
    );
    const before = chat.all();
    chat.load(view(history, { seq }), moment({ seq }));
    expect(chat.all()).toEqual(before);
  });

  test('in mid-run takes the streamed text from the snapshot, and does not double it', () => {
    chat.load(
      view([turn('u1', 'user', says('hello'))], { seq: 10 }),
      moment({
        runId: 'r',
        phase: 'streaming',
        partial: 'One two three',
        seq: 12,
        events: [
          {
            workspace: WORKSPACE,
            sessionId: 's',
            runId: 'r',
            seq: 11,
            at: 1,
            event: { kind: 'text_delta', delta: ' two' },
          },
          {
            workspace: WORKSPACE,
            sessionId: 's',
            runId: 'r',
            seq: 12,
            at: 1,
            event: { kind: 'text_delta', delta: ' three' },
          },
        ],
      }),
    );
    expect(texts()).toEqual(['user: hello', 'assistant: One two three']);
    seq = 11;
    expect(chat.apply(event('text_delta', { delta: ' three' }))).toBe('ignored');
    expect(chat.apply(event('text_delta', { delta: ' four' }))).toBe('applied');
    expect(texts()).toEqual(['user: hello', 'assistant: One two three four']);
  });

  test('that was persisted between the two answers is to be fetched again', () => {
    seq = 10;
    const delta = event('text_delta', { delta: '.' });
    const persisted = event('persisted', { node: 'a1', leaf: 'a1' });
    expect(movedOn({ seq: 10 }, moment({ seq: 11, events: [delta] }))).toBe(false);
    expect(movedOn({ seq: 10 }, moment({ seq: 12, events: [delta, persisted] }))).toBe(true);
    expect(movedOn({ seq: 12 }, moment({ seq: 12, events: [delta, persisted] }))).toBe(false);
    expect(movedOn({ seq: 10 }, moment({ seq: 12, gap: true }))).toBe(true);
    expect(movedOn({ seq: 12 }, moment({ seq: 12, gap: true }))).toBe(false);
  });

  test('shows the open calls of a run', () => {
    chat.load(
      view([turn('a', 'assistant', [{ kind: 'tool_call', id: 'c', name: 'run', input: {} }])]),
      moment({ runId: 'r', phase: 'dispatching', pending: [{ id: 'c', name: 'run', stage: 'started' }] }),
    );
    expect(chat.all()).toMatchObject([{ kind: 'tool', stage: 'running' }]);
  });

  test('a call without a result is interrupted where nothing runs', () => {
    chat.load(view([turn('a', 'assistant', [{ kind: 'tool_call', id: 'c', name: 'run', input: {} }])]), moment());
    expect(chat.all()).toMatchObject([{ kind: 'tool', stage: 'interrupted' }]);
  });

  test('keeps notices after the turn that they were said after', () => {
    chat.load(view(history.slice(0, 1)), moment());
    chat.say('warning', 'careful');
    chat.load(view(history), moment());
    expect(texts()).toEqual(['user: hello', 'notice: careful', 'assistant: Hi', 'tool', 'assistant: Done']);
  });

  test('shows condensed history as such, and lost history as a gap', () => {
    chat.load(
      view([
        turn('s', 'user', says('[condensed earlier context]\nGoal: x')),
        { ...turn('u', 'user', says('on')), gap: true },
      ]),
      moment(),
    );
    expect(texts()).toEqual(['summary: Goal: x', 'gap', 'user: on']);
  });

  test('shows what the editor sent along as attached, and not as said', () => {
    const context = { kind: 'file', at: 'file:///w/src/a.py#L1-L2' };
    const sent = { kind: 'text', text: '<context kind="file">secret words</context>', context };
    chat.load(view([turn('u', 'user', [sent, ...says('what is this?')])]), moment());
    expect(chat.all()).toMatchObject([{ kind: 'user', text: 'what is this?', attached: ['a.py#L1-L2'] }]);
    expect(chat.all().every((item) => isItem(item))).toBe(true);
  });

  test('puts older turns above, each once', () => {
    chat.load(view(history.slice(2), { before: 't1' }), moment());
    chat.prepend(history.slice(0, 3), null);
    expect(chat.all().filter((item) => item.kind === 'user')).toHaveLength(1);
    expect(chat.earlierCursor).toBeNull();
  });

  test('tolerates blocks that are not what they should be', () => {
    chat.load(
      view([turn('x', 'assistant', [null, 3, 'x', { kind: 'text' }, { kind: 'tool_call' }, { kind: 7 }])]),
      moment(),
    );
    expect(chat.all()).toEqual([]);
  });
});

describe('losing the server', () => {
  test('ends the run, says so, and keeps what was said', () => {
    chat.submitted('r', 'hello', 'queue');
    feed(event('run_started', { node: 'u' }), event('text_delta', { delta: 'half' }));
    chat.setConnection('stopped');
    expect(chat.head()).toMatchObject({ run: null, queued: [], approvals: [] });
    expect(texts().slice(0, 2)).toEqual(['user: hello', 'assistant: half']);
    expect(chat.all().at(-1)).toMatchObject({ kind: 'notice', retry: true });
  });

  test('says nothing where nothing ran', () => {
    chat.setConnection('stopped');
    expect(chat.all()).toEqual([]);
  });
});

describe('condensing', () => {
  test('on request is no run, and ends with its answer', () => {
    feed(event('condense_started', { trigger: 'manual' }));
    expect(chat.head().run?.phase).toBe('condensing');
    feed(event('condense_finished', { before: 9, after: 9, cut: 0, reason: 'a preview' }));
    expect(chat.head().run).toBeNull();
    expect(chat.all()).toEqual([]);
  });

  test('inside a run goes back to the run, and asks for the new history', () => {
    chat.submitted('r', 'x', 'queue');
    feed(event('run_started', { node: 'u' }), event('condense_started', { trigger: 'auto' }));
    const applied = chat.apply(event('condense_finished', { before: 9, after: 2, cut: 4, summary: 's' }));
    expect(applied).toBe('stale');
    expect(chat.head().run?.phase).toBe('invoking');
  });
});

describe('what is sent to the page', () => {
  test('is always something that the page accepts', () => {
    chat.submitted('r', 'hello', 'queue');
    feed(
      event('run_started', { node: 'u' }),
      event('text_delta', { delta: 'x' }),
      event('tool_started', { id: 'c', name: 'n' }),
    );
    chat.say('info', 'note');
    expect(chat.all().every((item) => isItem(item))).toBe(true);
    expect(isHostMessage({ type: 'reset', head: chat.head(), items: chat.all() })).toBe(true);
  });

  test('is only what changed', () => {
    feed(event('text_delta', { delta: 'a' }));
    chat.takeChanges();
    feed(event('text_delta', { delta: 'b' }), event('text_delta', { delta: 'c' }));
    const changes = chat.takeChanges();
    expect(changes).toMatchObject({ reset: false, head: false, items: [], appends: [{ text: 'bc' }] });
    expect(chat.takeChanges()).toEqual({ reset: false, head: false, items: [], appends: [] });
  });

  test('joins to the whole, in whatever portions it is taken', () => {
    const shown = new Map<string, string>();
    let wanted = '';
    for (let step = 0; step < 500; step += 1) {
      const delta = `${String(step)} `;
      wanted += delta;
      feed(event('text_delta', { delta }));
      if (step % 7 === 3) {
        draw();
      }
    }
    draw();
    expect([...shown.values()]).toEqual([wanted]);

    function draw(): void {
      const changes = chat.takeChanges();
      for (const item of changes.items) {
        shown.set(item.key, 'text' in item ? item.text : '');
      }
      for (const { key, text } of changes.appends) {
        shown.set(key, (shown.get(key) ?? '') + text);
      }
    }
  });
});

test('a prompt that steers is shown where the run took it up', () => {
  chat.submitted('r', 'first', 'queue');
  feed(event('run_started', { node: 'u1' }), event('text_delta', { delta: 'A' }));
  chat.submitted('r2', 'and this', 'steer');
  feed(event('queue', { count: 1 }));
  expect(chat.head().queued).toHaveLength(1);
  feed(event('queue', { count: 0 }), event('text_delta', { delta: 'B' }));
  expect(texts()).toEqual(['user: first', 'assistant: A', 'user: and this', 'assistant: B']);
});

test('usage fills the meter and adds up the cost', () => {
  feed(
    event('usage', { input: 10, output: 5, window: 100, estimate: 20, cost: 0.5 }),
    event('usage', { input: 10, output: 5, window: null, estimate: null, cost: 0.25 }),
  );
  expect(chat.head().meter).toEqual({ used: 15, window: 100, cost: 0.75 });
});
