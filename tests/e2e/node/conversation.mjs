// A whole conversation through the protocol library under vscode-languageclient, as a VS Code extension that is not ours
// would have it: chat, fork, resume, condense, approvals, cancel, a chat document, a session file.
//
//   node conversation.mjs        CLIENT (folder with node_modules), SERVER (JSON list) and WORKSPACE in the environment
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const require = createRequire(join(process.env.CLIENT, 'package.json'));
const lsp = require('vscode-languageserver-protocol/node');

const [command, ...args] = JSON.parse(process.env.SERVER);
const workspace = process.env.WORKSPACE;
const folder = pathToFileURL(workspace).href;
const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
const exited = new Promise((resolve) => child.once('exit', resolve));
const connection = lsp.createProtocolConnection(
  new lsp.StreamMessageReader(child.stdout),
  new lsp.StreamMessageWriter(child.stdin),
);

const events = [];
const waiting = [];
connection.onNotification('indusagi/event', (params) => {
  events.push(params);
  for (const look of [...waiting]) {
    look();
  }
});
for (const quiet of ['indusagi/status', 'indusagi/sessionsChanged', 'indusagi/memoryChanged']) {
  connection.onNotification(quiet, () => undefined);
}
const questions = [];
let decision = 'once';
connection.onRequest('indusagi/approve', (question) => {
  questions.push(question);
  return { decision };
});
connection.onRequest(lsp.RegistrationRequest.type, () => undefined);
connection.onRequest(lsp.CodeLensRefreshRequest.type, () => undefined);

// The one document that is open, kept as the editor would.
const chat = { uri: `${folder}/talk.chat.md`, version: 1, text: 'What is here?\n' };
connection.onRequest(lsp.ApplyWorkspaceEditRequest.type, async ({ edit }) => {
  const edits = edit.documentChanges?.flatMap((change) => change.edits) ?? edit.changes[chat.uri];
  const offset = ({ line, character }) => {
    const lines = chat.text.split('\n').slice(0, line);
    return lines.reduce((sum, one) => sum + one.length + 1, 0) + character;
  };
  const placed = edits.map((one) => [offset(one.range.start), offset(one.range.end), one]).sort((a, b) => b[0] - a[0]);
  const contentChanges = [];
  for (const [start, end, one] of placed) {
    chat.text = chat.text.slice(0, start) + one.newText + chat.text.slice(end);
    contentChanges.push({ range: one.range, text: one.newText });
  }
  chat.version += 1;
  await connection.sendNotification(lsp.DidChangeTextDocumentNotification.type, {
    textDocument: { uri: chat.uri, version: chat.version },
    contentChanges,
  });
  return { applied: true };
});
connection.onError(([error]) => {
  throw error;
});
connection.listen();

function until(condition) {
  return new Promise((resolve) => {
    const look = () => {
      if (condition()) {
        waiting.splice(waiting.indexOf(look), 1);
        resolve();
      }
    };
    waiting.push(look);
    look();
  });
}
const ask = (name, ...given) => connection.sendRequest(`indusagi/${name}`, ...given);
const run = (name, params) =>
  connection.sendRequest(lsp.ExecuteCommandRequest.type, { command: `indusagi.server.${name}`, arguments: [params] });

const told = await connection.sendRequest(lsp.InitializeRequest.type, {
  processId: process.pid,
  rootUri: null,
  workspaceFolders: [{ uri: folder, name: 'work' }],
  initializationOptions: { trusted: true },
  capabilities: {
    workspace: { applyEdit: true, workspaceEdit: { documentChanges: true }, symbol: {} },
    textDocument: {
      publishDiagnostics: {},
      codeAction: { codeActionLiteralSupport: { codeActionKind: { valueSet: ['quickfix'] } } },
      hover: { contentFormat: ['markdown'] },
      documentSymbol: { hierarchicalDocumentSymbolSupport: true },
      definition: {},
      references: {},
      foldingRange: {},
      codeLens: {},
      inlayHint: {},
      completion: {},
      documentLink: {},
    },
    experimental: { indusagi: { events: true, approvals: true } },
  },
});
assert.equal(told.capabilities.experimental.indusagi.protocolVersion, 1);
await connection.sendNotification(lsp.InitializedNotification.type, {});

// --- chat, with an approval that is given and one that is not
const { id: sessionId } = await ask('session/new');
let final = await ask('submit', { sessionId, text: 'Write a file.', runId: 'run-1' });
assert.equal(final.phase, 'settled');
assert.equal(questions.length, 1);
assert.ok(questions[0].action.includes('+hello'));
assert.equal(readFileSync(join(workspace, 'new.txt'), 'utf8'), 'hello\n');
decision = 'deny';
await ask('submit', { sessionId, text: 'Write a file.', runId: 'run-2' });
assert.ok(!existsSync(join(workspace, 'no.txt')));
const mine = () => events.filter((one) => one.sessionId === sessionId);
assert.deepEqual(
  mine().map((one) => one.seq),
  mine().map((_, index) => index + 1),
  'a gap in the sequence',
);
console.log('asked before it acts');

// --- fork, resume
const view = await ask('resume', { sessionId });
const fork = await run('fork', { sessionId, node: view.turns[0].id, before: true });
assert.equal(fork.prefill, 'Write a file.');
await ask('submit', { sessionId, text: 'What is here?' });
assert.equal((await ask('session/tree', { sessionId })).leaves.length, 2);
assert.equal((await ask('resume', { sessionId, node: view.head })).head, view.head);
console.log('forked and resumed');

// --- condense and undo
for (let round = 0; round < 7; round += 1) {
  await ask('submit', { sessionId, text: `Long words, please.${' and on'.repeat(100)}` });
}
const before = await ask('resume', { sessionId });
const condensed = await ask('condense', { sessionId });
assert.ok(condensed.condensed && condensed.after < condensed.before);
assert.equal((await ask('condense/undo', { sessionId })).leaf, before.head);
console.log('condensed, and undone');

// --- cancel
const cancel = new lsp.CancellationTokenSource();
const seen = events.length;
const stalled = ask('submit', { sessionId, text: 'Stall.', runId: 'stall' }, cancel.token);
await until(() => events.slice(seen).some((one) => one.runId === 'stall' && one.event.kind === 'text_delta'));
cancel.cancel();
await assert.rejects(stalled, (error) => error.code === lsp.LSPErrorCodes.RequestCancelled);
const ends = () => events.filter((one) => one.runId === 'stall' && ['settled', 'faulted'].includes(one.event.kind));
await until(() => ends().length > 0);
final = await ask('submit', { sessionId, text: 'What is here?' });
assert.equal(final.phase, 'settled');
assert.equal(ends().length, 1);
console.log('cancelled');

// --- a chat document
await connection.sendNotification(lsp.DidOpenTextDocumentNotification.type, {
  textDocument: { uri: chat.uri, languageId: 'markdown', version: chat.version, text: chat.text },
});
const sent = await run('chat/send', { uri: chat.uri });
assert.ok(sent.written);
assert.match(chat.text, /## Indusagi\n\nThere is one file, and it says hello. 😀/);
const links = await connection.sendRequest(lsp.DocumentLinkRequest.type, { textDocument: { uri: chat.uri } });
assert.equal(links.length, 1);
const lenses = await connection.sendRequest(lsp.CodeLensRequest.type, { textDocument: { uri: chat.uri } });
assert.ok(lenses.length > 0);
async function offered(text) {
  const lines = chat.text.split('\n');
  const end = { line: lines.length - 1, character: lines.at(-1).length };
  chat.text += text;
  chat.version += 1;
  await connection.sendNotification(lsp.DidChangeTextDocumentNotification.type, {
    textDocument: { uri: chat.uri, version: chat.version },
    contentChanges: [{ range: { start: end, end }, text }],
  });
  const at = { line: end.line, character: end.character + text.length };
  const found = await connection.sendRequest(lsp.CompletionRequest.type, {
    textDocument: { uri: chat.uri },
    position: at,
  });
  return (found.items ?? found).map((one) => one.label);
}
assert.deepEqual(await offered('/'), ['/condense', '/undo', '/remember']);
assert.ok((await offered(' @hel')).some((label) => label.includes('hello.txt')));
await ask('memory/remember', { text: 'Tabs, not spaces' });
assert.ok((await offered(' #Tab')).some((label) => label.includes('Tabs')));
console.log('the answer came into the document');

// --- a session file
const file = join(workspace, '.indusagi', 'sessions', `${sent.sessionId}.jsonl`);
const textDocument = { uri: pathToFileURL(file).href };
const text = readFileSync(file, 'utf8');
const published = new Promise((resolve) => {
  connection.onNotification(lsp.PublishDiagnosticsNotification.type, (params) => {
    if (params.uri === textDocument.uri) {
      resolve(params.diagnostics);
    }
  });
});
await connection.sendNotification(lsp.DidOpenTextDocumentNotification.type, {
  textDocument: { ...textDocument, languageId: 'jsonl', version: 1, text: `${text}{"type":"no` },
});
const [torn] = await published;
assert.ok(torn, 'no diagnostic for a torn record');
const fixes = await connection.sendRequest(lsp.CodeActionRequest.type, {
  textDocument,
  range: torn.range,
  context: { diagnostics: [torn] },
});
assert.ok(fixes.length > 0, 'no quick fix');
const lines = text.split('\n');
const answer = lines.findIndex((line) => line.includes('There is one file'));
const at = { textDocument, position: { line: answer, character: lines[answer].indexOf('There is') } };
const all = { start: { line: 0, character: 0 }, end: { line: lines.length, character: 0 } };
const parent = await connection.sendRequest(lsp.DefinitionRequest.type, at);
assert.ok([parent].flat()[0].range.start.line < answer);
assert.match(JSON.stringify(await connection.sendRequest(lsp.HoverRequest.type, at)), /There is one file/);
const above = { ...at, position: [parent].flat()[0].range.start, context: { includeDeclaration: false } };
for (const [type, params] of [
  [lsp.ReferencesRequest.type, above],
  [lsp.DocumentSymbolRequest.type, { textDocument }],
  [lsp.FoldingRangeRequest.type, { textDocument }],
  [lsp.CodeLensRequest.type, { textDocument }],
  [lsp.InlayHintRequest.type, { textDocument, range: all }],
  [lsp.WorkspaceSymbolRequest.type, { query: 'hello' }],
]) {
  const found = await connection.sendRequest(type, params);
  assert.ok(found.length > 0, `${type.method} found nothing`);
}
console.log('a session file is a language');

await connection.sendRequest(lsp.ShutdownRequest.type);
await connection.sendNotification(lsp.ExitNotification.type);
assert.equal(await exited, 0);
console.log('OK');
