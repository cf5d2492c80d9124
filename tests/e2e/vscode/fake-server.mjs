#!/usr/bin/env node
// A small server that speaks the Indusagi protocol, for what a real one must not do on demand: crash in mid-run, lose
// events, flood, answer with hostile text, take five seconds to shut down. The prompt chooses:
//
//   say TEXT · tool · approve [long|later] · slow · crash · gap · flood RATE SECONDS [list|code] · file PATH (streams that file) · fail
//
// FAKE_STATE names a file where sessions outlive a restart; FAKE_SLOW_SHUTDOWN the milliseconds that shutdown takes;
// FAKE_TURNS the number of turns that a session "long" is born with.
import { createHash, randomUUID } from 'node:crypto';
import fs from 'node:fs';

const STATE = process.env.FAKE_STATE ?? '';
const memory = [];
const sessions = new Map();
const waiting = new Map();
let nextId = 1;
let workspaces = [];
const cancelledRequests = new Set();

if (STATE !== '' && fs.existsSync(STATE)) {
  for (const session of JSON.parse(fs.readFileSync(STATE, 'utf8'))) {
    sessions.set(session.id, { ...session, seq: 0, events: [], run: null, queue: [] });
  }
}

function keep() {
  if (STATE !== '') {
    const plain = [...sessions.values()].map(({ id, title, workspace, nodes, head, links, at }) => {
      return { id, title, workspace, nodes, head, links, at };
    });
    fs.writeFileSync(STATE, JSON.stringify(plain));
  }
}

// --- the wire -----------------------------------------------------------------------------------------------------------

function write(message) {
  const body = Buffer.from(JSON.stringify({ jsonrpc: '2.0', ...message }));
  process.stdout.write(Buffer.concat([Buffer.from(`Content-Length: ${body.length}\r\n\r\n`), body]));
}

let input = Buffer.alloc(0);
process.stdin.on('data', (chunk) => {
  input = Buffer.concat([input, chunk]);
  for (;;) {
    const end = input.indexOf('\r\n\r\n');
    if (end === -1) {
      return;
    }
    const length = Number(/Content-Length: (\d+)/iu.exec(input.subarray(0, end).toString())[1]);
    if (input.length < end + 4 + length) {
      return;
    }
    const message = JSON.parse(input.subarray(end + 4, end + 4 + length).toString());
    input = input.subarray(end + 4 + length);
    void receive(message);
  }
});
process.stdin.on('end', () => process.exit(0));

class Refusal extends Error {
  constructor(kind, message, hint = '') {
    super(message);
    this.data = { kind, hint };
  }
}

async function receive(message) {
  if (message.method === undefined) {
    waiting.get(message.id)?.(message.result);
    waiting.delete(message.id);
    return;
  }
  if (message.method === '$/cancelRequest') {
    cancelledRequests.add(message.params.id);
    return;
  }
  const handler = handlers[message.method];
  if (message.id === undefined) {
    handler?.(message.params ?? {});
    return;
  }
  try {
    if (handler === undefined) {
      write({ id: message.id, error: { code: -32601, message: `no method ${message.method}` } });
      return;
    }
    write({ id: message.id, result: (await handler(message.params ?? {})) ?? null });
  } catch (error) {
    write({ id: message.id, error: { code: -32001, message: error.message, data: error.data } });
  }
}

function ask(method, params) {
  const id = `fake-${nextId++}`;
  write({ id, method, params });
  return new Promise((resolve) => waiting.set(id, resolve));
}

// --- sessions -----------------------------------------------------------------------------------------------------------

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const text = (said) => [{ kind: 'text', text: said }];

function find({ sessionId }) {
  const session = sessions.get(sessionId);
  if (session === undefined) {
    throw new Refusal('session_not_found', `There is no session '${sessionId}'.`, 'List the sessions to see which exist.');
  }
  return session;
}

function addNode(session, role, blocks, parent = session.head) {
  const createdAt = Date.now();
  const id = createHash('sha256').update(JSON.stringify([parent, role, blocks, createdAt, nextId++])).digest('hex').slice(0, 32);
  session.nodes.push({ id, parent, role, blocks, createdAt });
  session.head = id;
  session.at = createdAt;
  keep();
  return id;
}

function pathTo(session, leaf) {
  const byId = new Map(session.nodes.map((node) => [node.id, node]));
  const path = [];
  for (let node = byId.get(leaf); node !== undefined; node = byId.get(node.parent)) {
    path.unshift(node);
  }
  return path;
}

function leavesOf(session) {
  const parents = new Set(session.nodes.map((node) => node.parent));
  return session.nodes.filter((node) => !parents.has(node.id)).map((node) => node.id);
}

function preview(node) {
  return node.blocks.map((block) => block.text ?? block.name ?? '').join(' ').slice(0, 100);
}

function info(session) {
  return {
    id: session.id, workspace: session.workspace, title: session.title, createdAt: session.at, updatedAt: session.at,
    turns: session.nodes.length, head: session.head, tokens: 100 * session.nodes.length, cost: null,
    state: session.run === null ? 'idle' : 'running', model: null, parentSession: null,
  };
}

function changed(session) {
  write({ method: 'indusagi/sessionsChanged', params: { workspace: session.workspace } });
}

function emit(session, runId, event) {
  session.seq += 1;
  const params = { workspace: session.workspace, sessionId: session.id, runId, seq: session.seq, at: Date.now(), event };
  session.events.push(params);
  if (session.events.length > 5000) {
    session.events.shift();
  }
  if (!session.mute) {
    write({ method: 'indusagi/event', params });
  }
}

function snapshot(session, runId = session.run?.id ?? '', phase = session.run?.phase ?? 'idle', error = null) {
  return {
    runId, sessionId: session.id, phase, messages: [], pending: session.run?.pending ?? [],
    usage: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, cost: null }, model: 'fake', leaf: session.head, error,
    partial: session.run?.partial ?? '',
  };
}

// --- runs ---------------------------------------------------------------------------------------------------------------

async function stream(session, said, pace = 0) {
  const run = session.run;
  run.phase = 'streaming';
  for (let at = 0; at < said.length && !run.aborted; at += 12) {
    const delta = said.slice(at, at + 12);
    run.partial += delta;
    emit(session, run.id, { kind: 'text_delta', delta });
    await pause(pace);
  }
  const whole = run.partial;
  run.partial = '';
  if (whole !== '') {
    const node = addNode(session, 'assistant', text(whole));
    emit(session, run.id, { kind: 'persisted', node, leaf: node });
  }
}

async function useTool(session, name, toolInput, work) {
  const run = session.run;
  const id = `call-${nextId++}`;
  emit(session, run.id, { kind: 'tool_started', id, name });
  const node = addNode(session, 'assistant', [{ kind: 'tool_call', id, name, input: toolInput }]);
  emit(session, run.id, { kind: 'persisted', node, leaf: node });
  run.phase = 'dispatching';
  run.pending = [{ id, name, stage: 'started' }];
  emit(session, run.id, { kind: 'tool_called', id, name, input: toolInput });
  const outcome = await work(id);
  run.pending = [];
  emit(session, run.id, { kind: 'tool_finished', id, name, outcome });
  const answer = addNode(session, 'tool', [{ kind: 'tool_result', callId: id, ...outcome }]);
  emit(session, run.id, { kind: 'persisted', node: answer, leaf: answer });
}

/** What a flood is made of: paragraphs, one list without end, or code without end. */
const PIECES = {
  paragraphs: (count) => (count % 40 === 39 ? 'end.\n\n' : `word${count % 10} `),
  list: (count) => (count % 10 === 9 ? 'end.\n' : count % 10 === 0 ? '- item ' : `word${count % 10} `),
  code: (count) => (count === 0 ? '```python\n' : count % 10 === 9 ? 'end\n' : `word${count % 10} `),
};

async function flood(session, rate, seconds, kind = 'paragraphs') {
  const run = session.run;
  run.phase = 'streaming';
  const start = performance.now();
  let sent = 0;
  while (!run.aborted && performance.now() - start < seconds * 1000) {
    const due = Math.floor(((performance.now() - start) / 1000) * rate);
    for (; sent < due; sent += 1) {
      const delta = PIECES[kind](sent);
      run.partial += delta;
      emit(session, run.id, { kind: 'text_delta', delta });
    }
    await pause(4);
  }
  const whole = run.partial;
  run.partial = '';
  const node = addNode(session, 'assistant', text(whole));
  emit(session, run.id, { kind: 'persisted', node, leaf: node });
}

async function play(session, prompt) {
  const [word, ...rest] = prompt.split(' ');
  const argument = rest.join(' ');
  const run = session.run;
  switch (word) {
    case 'say':
      return stream(session, argument);
    case 'file':
      return stream(session, fs.readFileSync(argument, 'utf8'));
    case 'slow':
      return stream(session, 'one two three four five six seven eight nine ten '.repeat(20), 100);
    case 'crash':
      await stream(session, 'Partial words before the end');
      process.exit(9);
      break;
    case 'gap': {
      session.mute = true;
      const muted = stream(session, 'These words were never sent. ');
      await muted;
      session.mute = false;
      session.seq += 3;
      return stream(session, 'These came after the gap.');
    }
    case 'flood':
      return flood(session, Number(rest[0]), Number(rest[1]), rest[2]);
    case 'fail':
      throw new Refusal('model_failed', 'The model refused.', 'Set a key.');
    case 'tool':
      await useTool(session, 'read_file', { path: 'a.py' }, async () => ({ output: 'x = 1\n', isError: false }));
      return stream(session, 'The file holds one line.');
    case 'approve': {
      const action = argument === 'long' ? `echo start${' padding'.repeat(2000)} end` : 'rm -r build';
      await useTool(session, 'run_command', { command: action }, async (callId) => {
        const approvalId = randomUUID();
        await pause(argument === 'later' ? 2500 : 0);
        run.phase = 'awaiting_approval';
        emit(session, run.id, {
          kind: 'approval_requested', id: approvalId, callId, action, options: ['once', 'session', 'deny'],
        });
        const answer = await ask('indusagi/approve', {
          approvalId, workspace: session.workspace, sessionId: session.id, runId: run.id, callId, tool: 'run_command',
          action, size: Buffer.byteLength(action), sha256: createHash('sha256').update(action).digest('hex'),
          options: ['once', 'session', 'deny'],
        });
        const decision = answer?.decision ?? 'deny';
        emit(session, run.id, { kind: 'approval_resolved', id: approvalId, decision, by: 'user' });
        return decision === 'deny' ? { output: 'denied', isError: true } : { output: `ran (${decision})`, isError: false };
      });
      return stream(session, 'That was it.');
    }
    default:
      return stream(session, `You said **${prompt}**.`);
  }
}

async function startRun(session, runId, prompt) {
  const run = { id: runId, phase: 'invoking', partial: '', pending: [], aborted: false };
  session.run = run;
  const node = addNode(session, 'user', text(prompt));
  session.title ||= prompt.slice(0, 40);
  emit(session, runId, { kind: 'run_started', node });
  write({ method: 'indusagi/status', params: { busy: true, message: 'running', kind: 'Normal' } });
  changed(session);
  let result;
  try {
    await play(session, prompt);
    session.run = null;
    if (run.aborted) {
      throw new Refusal('aborted', 'Stopped.');
    }
    emit(session, runId, { kind: 'usage', input: 1200, output: 80, window: 8192, estimate: 1300, cost: null });
    result = snapshot(session, runId, 'settled');
    emit(session, runId, { kind: 'settled', snapshot: result });
  } catch (error) {
    session.run = null;
    const fault = { kind: error.data?.kind ?? 'internal', message: error.message, hint: error.data?.hint ?? '' };
    result = snapshot(session, runId, 'faulted', fault);
    emit(session, runId, { kind: 'faulted', error: fault, snapshot: result });
  }
  write({ method: 'indusagi/status', params: { busy: false, message: 'ready', kind: 'Normal' } });
  changed(session);
  const next = session.queue.shift();
  if (next !== undefined) {
    void startRun(session, next.runId, next.prompt).then(next.resolve);
  }
  return result;
}

const handlers = {
  initialize(params) {
    workspaces = (params.workspaceFolders ?? []).map((folder) => folder.uri);
    trusted = params.initializationOptions?.trusted === true;
    return {
      capabilities: {
        textDocumentSync: 1,
        experimental: { indusagi: { protocolVersion: 1, methods: Object.keys(handlers), events: [] } },
      },
      serverInfo: { name: 'fake', version: '0' },
    };
  },
  async shutdown() {
    await pause(Number(process.env.FAKE_SLOW_SHUTDOWN ?? 0));
  },
  exit() {
    process.exit(0);
  },
  'indusagi/session/new'({ workspace, title }) {
    const session = {
      id: randomUUID(), workspace: workspace ?? workspaces[0] ?? '', title: title ?? '', nodes: [], head: null, links: [],
      at: Date.now(), seq: 0, events: [], run: null, queue: [],
    };
    sessions.set(session.id, session);
    keep();
    changed(session);
    return info(session);
  },
  'indusagi/session/list'({ workspace, query }) {
    const wanted = [...sessions.values()].filter((session) => {
      return (workspace == null || session.workspace === workspace) && (query == null || session.title.includes(query));
    });
    return { sessions: wanted.sort((one, other) => other.at - one.at).map(info), nextCursor: null };
  },
  'indusagi/session/tree'(params) {
    const session = find(params);
    return {
      nodes: session.nodes.map((node) => ({
        id: node.id, parent: node.parent, role: node.role, preview: preview(node), label: null, tokens: 10,
        createdAt: node.createdAt,
      })),
      condensations: session.links, leaves: leavesOf(session), head: session.head,
    };
  },
  'indusagi/session/rename'(params) {
    const session = find(params);
    session.title = params.title;
    keep();
    return info(session);
  },
  'indusagi/session/adopt'(params) {
    return { sessionId: find(params).id, head: find(params).head };
  },
  'indusagi/resume'(params) {
    const session = find(params);
    if (params.node != null) {
      session.head = params.node;
      keep();
    }
    let path = pathTo(session, session.head);
    if (params.before != null) {
      path = path.slice(0, path.findIndex((node) => node.id === params.before));
    }
    const page = path.slice(-(params.limit ?? 100));
    return {
      session: info(session), head: session.head, trusted: true, notices: [], labels: {}, branches: [], seq: session.seq,
      usage: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, cost: null },
      before: page.length < path.length ? page[0].id : null,
      turns: page.map(({ id, role, blocks, createdAt }) => ({ id, role, blocks, createdAt, gap: false, verified: true })),
    };
  },
  'indusagi/submit'(params) {
    const session = find(params);
    const runId = params.runId ?? randomUUID();
    if (session.run === null) {
      return startRun(session, runId, params.text);
    }
    return new Promise((resolve) => {
      session.queue.push({ runId, prompt: params.text, resolve });
      emit(session, session.run.id, { kind: 'queue', count: session.queue.length });
    });
  },
  'indusagi/abort'(params) {
    const session = find(params);
    const phase = session.run?.phase ?? 'idle';
    if (session.run !== null) {
      session.run.aborted = true;
    }
    return { phase };
  },
  'indusagi/snapshot'(params) {
    const session = find(params);
    const since = params.sinceSeq ?? session.seq;
    const events = session.events.filter((event) => event.seq > since);
    const gap = events.length !== session.seq - since;
    return { snapshot: snapshot(session), seq: session.seq, events: gap ? [] : events, gap, questions: [] };
  },
  'indusagi/fork'(params) {
    const session = find(params);
    const node = session.nodes.find((entry) => entry.id === params.node);
    session.head = params.before ? node.parent : node.id;
    keep();
    changed(session);
    return { leaf: session.head, sessionId: session.id, prefill: params.before ? preview(node) : null };
  },
  'indusagi/condense'(params) {
    const session = find(params);
    const path = pathTo(session, session.head);
    const cut = Math.max(0, path.length - 2);
    if (cut === 0) {
      return { condensed: false, leaf: session.head, before: 0, after: 0, cut: 0, summary: null, reason: 'nothing to drop', preview: null };
    }
    const draft = `Goal\n- ${path.slice(0, cut).map(preview).join('\n- ')}`;
    if (params.preview) {
      return {
        condensed: false, leaf: session.head, before: 1000, after: 200, cut, summary: null, reason: null,
        preview: {
          cut, dropped: path.slice(0, cut).map((node) => node.id), kept: path.slice(cut).map((node) => node.id),
          before: 1000, after: 200, draft, token: session.head,
        },
      };
    }
    const source = session.head;
    const summary = addNode(session, 'user', text(`[condensed earlier context]\n${params.text ?? draft}`), null);
    for (const node of path.slice(cut)) {
      addNode(session, node.role, node.blocks);
    }
    session.links.push({ summary, source, cut: path[cut].id, trigger: 'manual', before: 1000, after: 200 });
    keep();
    changed(session);
    return { condensed: true, leaf: session.head, before: 1000, after: 200, cut, summary, reason: null, preview: null };
  },
  'indusagi/condense/undo'(params) {
    const session = find(params);
    const link = session.links.at(-1);
    if (link === undefined) {
      throw new Refusal('invalid_state', 'There is no condensation to undo.');
    }
    session.head = link.source;
    keep();
    return { leaf: session.head };
  },
  'indusagi/memory/remember'(params) {
    const known = memory.find((entry) => entry.content === params.text);
    const entry = known ?? {
      id: randomUUID(), content: params.text, tags: params.tags ?? [], metadata: params.metadata ?? {},
      scope: params.scope ?? 'shared', createdAt: Date.now(), updatedAt: Date.now(), expiresAt: null,
      source: params.source ?? null,
    };
    if (known === undefined) {
      memory.push(entry);
    }
    return { entry, created: known === undefined };
  },
  'indusagi/memory/recall'(params) {
    const words = params.text.toLowerCase().split(/\s+/u);
    const hits = memory.map((entry) => ({
      entry, score: words.filter((word) => entry.content.toLowerCase().includes(word)).length / words.length,
    }));
    return { hits: hits.filter((hit) => hit.score > 0).sort((one, other) => other.score - one.score) };
  },
  'indusagi/memory/list'() {
    return { entries: memory.toReversed() };
  },
  'indusagi/memory/forget'(params) {
    const index = memory.findIndex((entry) => entry.id === params.id);
    if (index !== -1) {
      memory.splice(index, 1);
    }
    return { forgotten: index !== -1 };
  },
  'indusagi/models/list'() {
    return {
      models: [{ id: 'fake', provider: 'fake', name: 'fake', window: 8192, tools: true, local: true, available: true, note: '' }],
      current: 'fake', hint: '',
    };
  },
  'indusagi/status'() {
    return { version: '0', protocolVersion: 1, busy: false, message: '', kind: 'Normal', workspaces: [], trusted };
  },
};

let trusted = false;

const born = Number(process.env.FAKE_TURNS ?? 0);
if (born > 0) {
  const session = {
    id: 'long', workspace: process.env.FAKE_WORKSPACE ?? '', title: `${born} turns`, nodes: [], head: null, links: [],
    at: Date.now(), seq: 0, events: [], run: null, queue: [],
  };
  for (let count = 0; count < born; count += 1) {
    const id = `n${count}`;
    session.nodes.push({
      id, parent: session.head, role: count % 2 === 0 ? 'user' : 'assistant', createdAt: count,
      blocks: text(`turn ${count} with some *words* and \`code\`\n\n\`\`\`python\nprint(${count})\n\`\`\``),
    });
    session.head = id;
  }
  sessions.set(session.id, session);
}
