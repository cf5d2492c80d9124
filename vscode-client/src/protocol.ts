/* eslint-disable */
// Generated from the server's wire types by `python tests/contract/regenerate.py`. Do not edit.

export const PROTOCOL_VERSION = 1;

/** Of the wire types that this file was made from. */
export const MESSAGES_HASH = '4244d96a9ec8bcb7';

/** Tokens and money spent. */
export interface UsageView {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
  cost: number | null;
}

/** Something that the user should know; `code` is stable. */
export interface NoticeView {
  level: 'info' | 'warning' | 'error';
  code: string;
  text: string;
}

/** A session in a list. */
export interface SessionInfo {
  id: string;
  workspace: string;
  title: string;
  createdAt: number;
  updatedAt: number;
  turns: number;
  head: string | null;
  tokens: number;
  cost: number | null;
  state: 'idle' | 'running' | 'interrupted' | 'foreign';
  model: string | null;
  parentSession: string | null;
}

/** Make an empty session. */
export interface SessionNewParams {
  workspace?: string | null;
  title?: string | null;
  model?: string | null;
}

/** List sessions, the newest first; `query` filters by title. */
export interface SessionListParams {
  workspace?: string | null;
  query?: string | null;
  cursor?: string | null;
  limit?: number | null;
  archived?: boolean;
}

/** A page of sessions; ask again with `nextCursor` for more. */
export interface SessionListResult {
  sessions: SessionInfo[];
  nextCursor: string | null;
}

/**
 * Show a session and make it ready to go on: at its head, or at `node`. `limit` turns, the newest; `before` asks for
 * the page that ends before that node.
 */
export interface ResumeParams {
  sessionId: string;
  workspace?: string | null;
  node?: string | null;
  limit?: number | null;
  before?: string | null;
}

/** One turn of the live path. A `gap` is history that the file has lost above this turn. */
export interface TurnView {
  id: string;
  role: string;
  blocks: Record<string, unknown>[];
  createdAt: number;
  gap: boolean;
  verified: boolean;
}

/** A leaf of the session's graph. */
export interface BranchView {
  leaf: string;
  preview: string;
  turns: number;
  updatedAt: number;
  live: boolean;
}

/** A page of a session's live path, root to leaf, and what surrounds it. */
export interface SessionView {
  session: SessionInfo;
  turns: TurnView[];
  head: string | null;
  branches: BranchView[];
  usage: UsageView;
  labels: Record<string, string>;
  trusted: boolean;
  notices: NoticeView[];
  before: string | null;
  seq: number;
}

/** Names a session. */
export interface SessionParams {
  sessionId: string;
  workspace?: string | null;
}

/** A node of the graph; `tokens` is the estimate of this turn alone. */
export interface TreeNode {
  id: string;
  parent: string | null;
  role: string;
  preview: string;
  label: string | null;
  tokens: number;
  createdAt: number;
}

/** Ties the condensed line to the one it was made from. */
export interface CondenseLink {
  summary: string;
  source: string;
  cut: string | null;
  trigger: string;
  before: number;
  after: number;
}

/** The whole graph of a session, parents before children. */
export interface TreeResult {
  nodes: TreeNode[];
  condensations: CondenseLink[];
  leaves: string[];
  head: string | null;
}

/** Go on from an earlier node: after it, or `before` it with its prompt handed back. */
export interface ForkParams {
  sessionId: string;
  node: string;
  workspace?: string | null;
  before?: boolean;
  newSession?: boolean;
}

/** Where the fork stands; `prefill` is the prompt to edit, when the fork was `before` a user's turn. */
export interface ForkResult {
  leaf: string | null;
  sessionId: string;
  prefill: string | null;
}

/** The session is now the user's own. */
export interface AdoptResult {
  sessionId: string;
  head: string | null;
}

/** Name a node; without `name` the label is taken away. The label `pin` keeps the turn through condensing. */
export interface LabelParams {
  sessionId: string;
  node: string;
  workspace?: string | null;
  name?: string | null;
}

/** The session's labels, by node. */
export interface LabelsResult {
  labels: Record<string, string>;
}

/** Give a session a title. */
export interface RenameParams {
  sessionId: string;
  title: string;
  workspace?: string | null;
}

/** Put a session away, or take it out again. */
export interface ArchiveParams {
  sessionId: string;
  workspace?: string | null;
  archived?: boolean;
}

/** The session is gone for good. */
export interface DeletedResult {
  deleted: boolean;
}

/**
 * Export the branch that ends at `leaf`, by default the live one. `compared` is for two branches side by side in
 * Markdown: it leaves out the times, the number of turns and what was spent, which always differ.
 */
export interface ExportParams {
  sessionId: string;
  workspace?: string | null;
  leaf?: string | null;
  format?: 'markdown' | 'html' | 'jsonl';
  compared?: boolean;
}

/** A file's content, and a name for it. */
export interface ExportResult {
  text: string;
  fileName: string;
  mediaType: string;
}

/** Import sessions of other tools: from a file or folder, else from where the tools keep those of this workspace. */
export interface ImportParams {
  workspace?: string | null;
  path?: string | null;
  tool?: string | null;
  everywhere?: boolean;
  workDoneToken?: number | string | null;
}

/** What came of one file. `added` counts new turns; `problem` says why nothing could be imported. */
export interface ImportedFile {
  path: string;
  tool: string | null;
  sessionId: string | null;
  title: string | null;
  turns: number;
  added: number;
  unanswered: number;
  skipped: string[];
  cost: number | null;
  problem: string | null;
}

/** A report per file. */
export interface ImportResult {
  files: ImportedFile[];
}

/** Compare two branches, each named by its leaf. */
export interface CompareParams {
  sessionId: string;
  left: string;
  right: string;
  workspace?: string | null;
}

/** What one branch has of its own. */
export interface CompareSide {
  leaf: string;
  nodes: string[];
  turns: Record<string, number>;
  filesRead: string[];
  filesModified: string[];
  usage: UsageView;
  calls: number;
  failed: number;
  result: string;
}

/** Two branches: `common` is the last node that both have. */
export interface CompareResult {
  common: string | null;
  shared: number;
  left: CompareSide;
  right: CompareSide;
  filesOfBoth: string[];
}

/** Bring the result of the branch that ends at `leaf` to the live one, as a note; `text` says it in other words. */
export interface NoteParams {
  sessionId: string;
  leaf: string;
  workspace?: string | null;
  text?: string | null;
}

/** Search what was said, in all sessions and on all their branches. */
export interface SearchParams {
  query: string;
  workspace?: string | null;
  sessionId?: string | null;
  limit?: number | null;
}

/** A node that holds all the words; `spans` are [start, end] of them in `snippet`, in characters. */
export interface SearchHit {
  sessionId: string;
  node: string;
  role: string;
  createdAt: number;
  snippet: string;
  spans: number[][];
}

/** The hits, the best first; `more` says that there are others. */
export interface SearchResult {
  hits: SearchHit[];
  more: boolean;
  notices: NoticeView[];
}

/** Look at every byte of a session, or of all; `repair` heals without deleting. */
export interface DoctorParams {
  workspace?: string | null;
  sessionId?: string | null;
  repair?: boolean;
}

/** Something about a session; `code` is stable. */
export interface DoctorFinding {
  level: 'info' | 'warning' | 'error';
  code: string;
  text: string;
  node: string | null;
  healed: boolean;
}

/** One session's health. */
export interface DoctorSession {
  sessionId: string;
  healthy: boolean;
  nodes: number;
  branches: number;
  head: string | null;
  findings: DoctorFinding[];
}

/** The diagnosis as data and in words. */
export interface DoctorResult {
  healthy: boolean;
  repaired: boolean;
  sessions: DoctorSession[];
  text: string;
}

/** Show the whole of an output that a block names by its blob. */
export interface BlobParams {
  blob: string;
  workspace?: string | null;
}

/** The whole output. */
export interface BlobResult {
  text: string;
}

/** Remove the blobs that no session names, and old contents of files that none can need; `dryRun` only tells. */
export interface CollectParams {
  workspace?: string | null;
  dryRun?: boolean;
}

/** What was removed, its bytes, and how many blobs stay; of old contents of files their number and bytes. */
export interface CollectResult {
  removed: string[];
  bytes: number;
  kept: number;
  contents: number;
  contentBytes: number;
}

/** What the agent changed on the way to `node`, by default the live leaf. */
export interface FilesChangesParams {
  sessionId: string;
  workspace?: string | null;
  node?: string | null;
}

/** A tool call that changed a file, and the turn in which it stands. */
export interface FileCallView {
  callId: string;
  node: string;
}

/** What the agent did to a file, all in all; `kept` says whether its first content can be brought back. */
export interface FileChangeView {
  path: string;
  kind: 'made' | 'changed' | 'removed' | 'same';
  by: 'edit' | 'command' | 'restore';
  calls: FileCallView[];
  kept: boolean;
}

/** The files by path. */
export interface FilesChangesResult {
  node: string | null;
  files: FileChangeView[];
}

/** What a file of a plan would hold; which plan is said as in `files/restore`. */
export interface FilesContentParams {
  sessionId: string;
  path: string;
  workspace?: string | null;
  node?: string | null;
  before?: boolean;
  undo?: string | null;
}

/** The text; null where the file would not be there, is no text, is too large, or was not kept. */
export interface FilesContentResult {
  path: string;
  text: string | null;
}

/**
 * Bring the files back to where they were at `node` (with `before`: at its parent), or undo a restore. `preview` only
 * gives the plan. Files with conflicts are left alone unless `choices` says `restore` for their path, together with the
 * plan's `token`; `keep` leaves any file alone.
 */
export interface FilesRestoreParams {
  sessionId: string;
  workspace?: string | null;
  node?: string | null;
  before?: boolean;
  undo?: string | null;
  preview?: boolean;
  token?: string | null;
  choices?: Record<string, 'restore' | 'keep'>;
}

/**
 * One file of a plan. `action`: give it its old content, remove what the agent made, or make again what it removed.
 * `conflicts` say why it is only done by choice, `reason` says so in words; `problem` says why it cannot be done at
 * all. `by` made the last change in effect.
 */
export interface FileRestoreView {
  path: string;
  action: 'restore' | 'remove' | 'recreate';
  by: 'edit' | 'command' | 'restore';
  conflicts: ('changed' | 'between' | 'command' | 'unfinished' | 'removal' | 'protected')[];
  reason: string;
  problem: string;
  diff: string;
}

/** The plan; once `applied`, also what was done. `restore` names it, so that it can be undone. */
export interface FilesRestoreResult {
  applied: boolean;
  token: string;
  files: FileRestoreView[];
  restore: string | null;
  restored: string[];
  kept: string[];
}

/** An LSP position. */
export interface Position {
  line: number;
  character: number;
}

/** An LSP range. */
export interface Range {
  start: Position;
  end: Position;
}

/** Something of the editor that goes with a prompt: a file, a selection (with its text), a diagnostic. */
export interface ContextItem {
  kind: 'file' | 'selection' | 'diagnostic';
  uri: string;
  range?: Range | null;
  text?: string | null;
}

/**
 * Say something to the agent: `text`, or `blocks` in the session format. Answered when the run ends. `mode` says what
 * happens while another run goes on: `queue` waits for its end, `steer` enters it after the current tools. `model` is
 * used from this run on. The client may choose `runId` to tell its events apart.
 */
export interface SubmitParams {
  sessionId: string;
  workspace?: string | null;
  text?: string | null;
  blocks?: Record<string, unknown>[] | null;
  mode?: 'queue' | 'steer';
  context?: ContextItem[];
  runId?: string | null;
  model?: string | null;
  workDoneToken?: number | string | null;
}

/** A tool call without a result yet. */
export interface PendingCallView {
  id: string;
  name: string;
  stage: string;
}

/** What went wrong, and what to do. */
export interface FaultView {
  kind: string;
  message: string;
  hint: string;
}

/** Where a run is. `messages` is what the model would be sent; `partial` is the answer that is being streamed. */
export interface SnapshotView {
  runId: string;
  sessionId: string;
  phase: string;
  messages: Record<string, unknown>[];
  pending: PendingCallView[];
  usage: UsageView;
  model: string;
  leaf: string | null;
  error: FaultView | null;
  partial: string;
}

/**
 * Ask the agent about a place in a document: `fix` a problem, `explain` it, or `ask` a question of one's own. `message`
 * is the diagnostic's, where there is one. Without a `question`, `ask` opens a chat document to write it in.
 */
export interface AskParams {
  kind: 'fix' | 'explain' | 'ask';
  uri: string;
  range: Range;
  workspace?: string | null;
  message?: string | null;
  question?: string | null;
  sessionId?: string | null;
  runId?: string | null;
  workDoneToken?: number | string | null;
}

/** What was answered, and where the user sees it: in the client's own view, a chat document, or a message. */
export interface AskResult {
  sessionId: string | null;
  phase: string;
  answer: string;
  shown: 'client' | 'chat' | 'message';
  uri: string | null;
}

/** Send the last section of an open chat document (`*.chat.md`); the answer comes into the document as edits. */
export interface ChatSendParams {
  uri: string;
  workspace?: string | null;
  runId?: string | null;
  workDoneToken?: number | string | null;
}

/** The session, how the run ended, and whether the whole answer is in the document. */
export interface ChatSendResult {
  sessionId: string | null;
  phase: string;
  written: boolean;
}

/** The phase that the session was in. */
export interface AbortResult {
  phase: string;
}

/** Ask where a session is; with `sinceSeq`, for the events after that one too. */
export interface SnapshotParams {
  sessionId: string;
  workspace?: string | null;
  sinceSeq?: number | null;
}

/**
 * `events` holds the event notifications after `sinceSeq`; `gap` says that they are not kept any more. `questions` are
 * the approvals that wait for an answer, `asked` the agent's questions to the user that do, under the ids under which
 * they were asked.
 */
export interface SnapshotResult {
  snapshot: SnapshotView;
  seq: number;
  events: Record<string, unknown>[];
  gap: boolean;
  questions: ApproveParams[];
  asked: QuestionParams[];
}

/**
 * Condense the live path. `preview` only shows what would happen, and gives a `token`; `token` with `text` applies that
 * preview with the edited text. `upTo` and `from` bound what is dropped: turns up to, or from, that node.
 */
export interface CondenseParams {
  sessionId: string;
  workspace?: string | null;
  instruction?: string | null;
  upTo?: string | null;
  from?: string | null;
  preview?: boolean;
  token?: string | null;
  text?: string | null;
}

/** What condensing would do: `dropped` and `kept` are node ids, `cut` the number of turns dropped. */
export interface CondensePreview {
  cut: number;
  dropped: string[];
  kept: string[];
  before: number;
  after: number;
  draft: string;
  token: string;
}

/** The outcome; `preview` where one was asked for. When nothing was condensed, `reason` says why. */
export interface CondenseResult {
  condensed: boolean;
  leaf: string | null;
  before: number;
  after: number;
  cut: number;
  summary: string | null;
  reason: string | null;
  preview: CondensePreview | null;
}

/** The live leaf now. */
export interface LeafResult {
  leaf: string | null;
}

/** The turn that said it. */
export interface MemorySource {
  session: string;
  node?: string | null;
}

/** Something remembered. */
export interface MemoryEntryView {
  id: string;
  content: string;
  tags: string[];
  metadata: Record<string, unknown>;
  scope: 'agent' | 'shared' | 'global';
  createdAt: number;
  updatedAt: number;
  trusted: boolean;
  expiresAt: number | null;
  source: MemorySource | null;
  tainted: boolean;
  supersedes: string | null;
  supersededBy: string | null;
}

/** Remember a text. An equal text in the same scope is not stored twice. */
export interface RememberParams {
  text: string;
  workspace?: string | null;
  tags?: string[];
  metadata?: Record<string, unknown>;
  scope?: 'agent' | 'shared' | 'global';
  source?: MemorySource | null;
  ttlSeconds?: number | null;
  supersedes?: string | null;
}

/** A hit: `score` is 1 for identical, 0 for unrelated. */
export interface ScoredEntryView {
  entry: MemoryEntryView;
  score: number;
}

/** The entry, whether it is new, and what was remembered before that may say the same or the contrary. */
export interface RememberResult {
  entry: MemoryEntryView;
  created: boolean;
  similar: ScoredEntryView[];
}

/** Find what was remembered about a text. */
export interface RecallParams {
  text: string;
  workspace?: string | null;
  scope?: 'agent' | 'shared' | 'global' | null;
  tags?: string[];
  limit?: number | null;
}

/** The hits, the best first. */
export interface RecallResult {
  hits: ScoredEntryView[];
}

/** List what is remembered, the newest first. */
export interface MemoryListParams {
  workspace?: string | null;
  scope?: 'agent' | 'shared' | 'global' | null;
  tags?: string[];
  limit?: number | null;
}

/** The entries. */
export interface MemoryListResult {
  entries: MemoryEntryView[];
}

/** Forget one entry. */
export interface ForgetParams {
  id: string;
  workspace?: string | null;
}

/** Whether there was such an entry. */
export interface ForgetResult {
  forgotten: boolean;
}

/** Name one entry. */
export interface MemoryParams {
  id: string;
  workspace?: string | null;
}

/** The entry, and the chain of entries that replaced each other of which it is one, the oldest first. */
export interface MemoryGetResult {
  entry: MemoryEntryView;
  history: MemoryEntryView[];
}

/** Change some fields of an entry; what is not named stays. With `expectedUpdatedAt` only if it is still that. */
export interface MemoryUpdateParams {
  id: string;
  workspace?: string | null;
  text?: string | null;
  tags?: string[] | null;
  metadata?: Record<string, unknown> | null;
  expectedUpdatedAt?: number | null;
}

/** The entry as it is now. */
export interface MemoryEntryResult {
  entry: MemoryEntryView;
}

/** Why is this entry where it is among the hits for a text? */
export interface MemoryExplainParams {
  id: string;
  text: string;
  workspace?: string | null;
}

/**
 * The parts of a score by name, and each word of the question with where the entry has it. `rank` counts from 1 and is
 * null where the entry is no hit. A word is in the entry's `own` text, `near` it (in the turns around it), or in a
 * `split` compound name.
 */
export interface MemoryExplainResult {
  entry: MemoryEntryView;
  score: number;
  rank: number | null;
  parts: Record<string, number>;
  words: Record<string, ('own' | 'near' | 'split')[]>;
}

/** All that is remembered, as a Markdown document. */
export interface MemoryExportParams {
  workspace?: string | null;
  scope?: 'agent' | 'shared' | 'global' | null;
  tags?: string[];
}

/** The document, and how many entries it holds. */
export interface MemoryExportResult {
  text: string;
  entries: number;
}

/**
 * Bring in a document of `memory/export`, as it was or edited. What this user's key does not vouch for comes marked as
 * foreign and replaces nothing, unless `adopt` vouches for it.
 */
export interface MemoryImportParams {
  text: string;
  workspace?: string | null;
  adopt?: boolean;
}

/** How many were new, took the place of an earlier form, were there already, or were left out for what is here. */
export interface MemoryImportResult {
  added: number;
  changed: number;
  present: number;
  kept: number;
  problems: string[];
}

/** List the workflows that can be run here, and the newest `limit` executions. */
export interface WorkflowListParams {
  workspace?: string | null;
  limit?: number | null;
}

/** A step of a workflow, as its definition has it. */
export interface WorkflowStepInfo {
  id: string;
  kind: 'prompt' | 'tool' | 'callable' | 'approve';
  title: string;
  needs: string[];
  when: string | null;
}

/** A workflow. Where it cannot be run, `problem` says why, and there are no steps. */
export interface WorkflowInfo {
  name: string;
  title: string;
  description: string;
  file: string;
  origin: 'user' | 'workspace';
  inputs: Record<string, unknown>;
  steps: WorkflowStepInfo[];
  problem: string;
}

/** How a step ended. `unknown`: it may have done its work all the same, and is asked about before it is repeated. */
export interface WorkflowStepResult {
  id: string;
  status: 'ok' | 'failed' | 'skipped';
  output: unknown;
  error: string | null;
  session: string | null;
  attempts: number;
  unknown: boolean;
}

/**
 * One execution of a workflow; `unknown` are the steps that were begun and have no known end. `waiting`: such a step
 * was not allowed to be repeated. Every state but `running` and `done` can be resumed.
 */
export interface WorkflowExecution {
  executionId: string;
  workspace: string;
  workflow: string;
  state: 'running' | 'done' | 'failed' | 'waiting' | 'cancelled' | 'interrupted';
  startedAt: number;
  completed: string[];
  total: number;
  current: string;
  unknown: string[];
  error: string;
  steps: WorkflowStepResult[];
}

/** The workflows, and the executions, the newest first and without the results of their steps. */
export interface WorkflowListResult {
  workflows: WorkflowInfo[];
  executions: WorkflowExecution[];
}

/** Run a workflow. Answered when it has ended; the client may choose `executionId` to tell its progress apart. */
export interface WorkflowRunParams {
  name: string;
  workspace?: string | null;
  inputs?: Record<string, unknown>;
  executionId?: string | null;
  workDoneToken?: number | string | null;
}

/** Go on with an execution; `done` names steps of unknown outcome that have done their work. Answered at its end. */
export interface WorkflowResumeParams {
  executionId: string;
  workspace?: string | null;
  done?: string[];
  workDoneToken?: number | string | null;
}

/** Cancel an execution, also one that another window runs; what its steps have done stays done. */
export interface WorkflowCancelParams {
  executionId: string;
  workspace?: string | null;
}

/** Whether there was something to cancel. */
export interface WorkflowCancelResult {
  cancelled: boolean;
}

/** Names a workspace folder by its URI; without it, the first one. */
export interface WorkspaceParams {
  workspace?: string | null;
}

/**
 * Grant or withdraw trust in a folder; without `workspace`, in all that are open and in those that come. Where it is
 * withdrawn, what goes on is ended: runs, commands, workflows. Sessions stay open.
 */
export interface TrustParams {
  trusted: boolean;
  workspace?: string | null;
}

/** A model that can be named; `available` says whether it could be called now, `note` why (not). */
export interface ModelInfo {
  id: string;
  provider: string;
  name: string;
  window: number | null;
  tools: boolean;
  local: boolean;
  available: boolean;
  note: string;
}

/** The models, the one in use, and how to set a better one. */
export interface ModelsListResult {
  models: ModelInfo[];
  current: string;
  hint: string;
}

/** One workspace folder's host. */
export interface WorkspaceStatus {
  uri: string;
  name: string;
  trusted: boolean;
  model: string;
  sessions: number;
  running: string[];
  notices: NoticeView[];
}

/** The server at a glance. */
export interface StatusResult {
  version: string;
  protocolVersion: number;
  busy: boolean;
  message: string;
  kind: 'Normal' | 'Error' | 'Warning' | 'Inactive';
  workspaces: WorkspaceStatus[];
}

/** `indusagi/event`. `seq` is gapless per session and server life; `event` is a RunEvent with its `kind`. */
export interface EventParams {
  workspace: string;
  sessionId: string;
  runId: string;
  seq: number;
  at: number;
  event: Record<string, unknown>;
}

/** `indusagi/status`: what the status item shows. */
export interface StatusParams {
  busy: boolean;
  message: string;
  kind: 'Normal' | 'Error' | 'Warning' | 'Inactive';
  command: string | null;
}

/** `indusagi/sessionsChanged`: list again. */
export interface SessionsChangedParams {
  workspace: string;
}

/** `indusagi/memoryChanged`: list again. */
export interface MemoryChangedParams {
  workspace: string;
}

/** `indusagi/workflow`: how an execution goes on. `status` is that of the step, at its end that of the execution. */
export interface WorkflowParams {
  workspace: string;
  executionId: string;
  workflow: string;
  kind: 'started' | 'step_started' | 'step_progress' | 'step_retry' | 'step_finished' | 'finished';
  step: string | null;
  status: string;
  text: string;
  completed: number;
  total: number;
  at: number;
}

/**
 * `indusagi/approve`: may this run? `action` is shown to the user. `size` (bytes) and `sha256` are those of the whole
 * action in UTF-8.
 */
export interface ApproveParams {
  approvalId: string;
  workspace: string;
  sessionId: string;
  runId: string;
  callId: string;
  tool: string;
  action: string;
  size: number;
  sha256: string;
  options: ('once' | 'session' | 'always' | 'deny')[];
}

/** The user's word. */
export interface ApproveResult {
  decision: 'once' | 'session' | 'always' | 'deny';
}

/** `indusagi/question`: the agent asks the user. `options` are offered; any other text is an answer too. */
export interface QuestionParams {
  questionId: string;
  workspace: string;
  sessionId: string;
  callId: string;
  question: string;
  options: string[];
}

/** The user's words; null where they gave no answer. */
export interface QuestionResult {
  answer?: string | null;
}

/** `indusagi/diagnostics`: what problems does the editor show, in the file `uri`, or in all below `workspace`? */
export interface DiagnosticsParams {
  workspace: string;
  uri: string | null;
}

/** A problem in the shape of LSP's `Diagnostic`, as far as it is used. `severity` goes from 1, error, to 4, hint. */
export interface DiagnosticView {
  range: Range;
  message: string;
  severity?: number | null;
  source?: string | null;
  code?: string | number | null;
}

/** The problems of one file. */
export interface FileDiagnostics {
  uri: string;
  diagnostics?: DiagnosticView[];
}

/** The files with problems; others may be left out. */
export interface DiagnosticsResult {
  files?: FileDiagnostics[];
}

/** `error.data` of our own errors. */
export interface ErrorData {
  kind: string;
  hint: string;
}

/** What the model is told of a tool call. */
export interface ToolResultView {
  output: string;
  isError: boolean;
}

/** The state of the run, whole. */
export interface SnapshotEvent {
  kind: 'snapshot';
  snapshot: SnapshotView;
}

/** More of the answer's text. */
export interface TextDeltaEvent {
  kind: 'text_delta';
  delta: string;
}

/** More of the reasoning. */
export interface ThinkingDeltaEvent {
  kind: 'thinking_delta';
  delta: string;
}

/** The model has begun to ask for a tool. */
export interface ToolStartedEvent {
  kind: 'tool_started';
  id: string;
  name: string;
}

/** A tool call has ended, with the authoritative result as the model sees it. */
export interface ToolFinishedEvent {
  kind: 'tool_finished';
  id: string;
  name: string;
  outcome: ToolResultView;
}

/** The run has ended well. */
export interface SettledEvent {
  kind: 'settled';
  snapshot: SnapshotView;
}

/** The run has ended badly; what was said until then is kept. */
export interface FaultedEvent {
  kind: 'faulted';
  error: FaultView;
  snapshot: SnapshotView;
}

/** A run has begun; `node` is the user's turn, on disk already, or null where the disk refused it. */
export interface RunStartedEvent {
  kind: 'run_started';
  node: string | null;
}

/** A tool is now being executed. */
export interface ToolCalledEvent {
  kind: 'tool_called';
  id: string;
  name: string;
  input: unknown;
}

/** Progress text of a running tool. */
export interface ToolUpdateEvent {
  kind: 'tool_update';
  id: string;
  text: string;
}

/** A tool waits for the user's word. */
export interface ApprovalRequestedEvent {
  kind: 'approval_requested';
  id: string;
  callId: string;
  action: string;
  options: ('once' | 'session' | 'always' | 'deny')[];
}

/** The user's word, or what stands for it; `by` names who decided. */
export interface ApprovalResolvedEvent {
  kind: 'approval_resolved';
  id: string;
  decision: 'once' | 'session' | 'always' | 'deny';
  by: string;
}

/** What a model call took. `window` and `estimate` are tokens: the model's size, and our idea of the next prompt. */
export interface UsageReportedEvent {
  kind: 'usage';
  input: number;
  output: number;
  window: number | null;
  estimate: number;
  cost: number | null;
}

/** History is being condensed. */
export interface CondenseStartedEvent {
  kind: 'condense_started';
  trigger: 'auto' | 'manual' | 'overflow';
}

/** Condensing has ended: sizes in tokens; `cut` turns were dropped. Without a summary, `reason` says why not. */
export interface CondenseFinishedEvent {
  kind: 'condense_finished';
  before: number;
  after: number;
  cut: number;
  summary: string | null;
  reason: string | null;
}

/** A turn is safely on disk. */
export interface PersistedEvent {
  kind: 'persisted';
  node: string;
  leaf: string;
}

/** How many prompts wait. */
export interface QueueChangedEvent {
  kind: 'queue';
  count: number;
}

/** The model is asked again after `delay` seconds. */
export interface RetryEvent {
  kind: 'retry';
  attempt: number;
  delay: number;
  error: string;
}

/** The session's file changed: `added` nodes by another process, or a move of the head. */
export interface SessionChangedEvent {
  kind: 'session_changed';
  added: string[];
  head: string | null;
  diverged: string[];
}

/** Remembered entries that entered the prompt, each with its `id` and `content`. */
export interface MemoryRecalledEvent {
  kind: 'memory_recalled';
  entries: Record<string, unknown>[];
}

/** Something that the user should know; `code` is stable, `text` is for people. */
export interface NoticeEvent {
  kind: 'notice';
  level: 'info' | 'warning' | 'error';
  code: string;
  text: string;
}

export type RunEvent =
  | SnapshotEvent
  | TextDeltaEvent
  | ThinkingDeltaEvent
  | ToolStartedEvent
  | ToolFinishedEvent
  | SettledEvent
  | FaultedEvent
  | RunStartedEvent
  | ToolCalledEvent
  | ToolUpdateEvent
  | ApprovalRequestedEvent
  | ApprovalResolvedEvent
  | UsageReportedEvent
  | CondenseStartedEvent
  | CondenseFinishedEvent
  | PersistedEvent
  | QueueChangedEvent
  | RetryEvent
  | SessionChangedEvent
  | MemoryRecalledEvent
  | NoticeEvent;

export const Methods = {
  sessionNew: 'indusagi/session/new',
  sessionList: 'indusagi/session/list',
  resume: 'indusagi/resume',
  sessionTree: 'indusagi/session/tree',
  sessionAdopt: 'indusagi/session/adopt',
  sessionLabel: 'indusagi/session/label',
  sessionRename: 'indusagi/session/rename',
  sessionArchive: 'indusagi/session/archive',
  sessionDelete: 'indusagi/session/delete',
  sessionExport: 'indusagi/session/export',
  sessionImport: 'indusagi/session/import',
  sessionCompare: 'indusagi/session/compare',
  sessionNote: 'indusagi/session/note',
  sessionSearch: 'indusagi/session/search',
  sessionDoctor: 'indusagi/session/doctor',
  blobGet: 'indusagi/blob/get',
  blobCollect: 'indusagi/blob/collect',
  filesChanges: 'indusagi/files/changes',
  filesRestore: 'indusagi/files/restore',
  filesContent: 'indusagi/files/content',
  submit: 'indusagi/submit',
  ask: 'indusagi/ask',
  chatSend: 'indusagi/chat/send',
  abort: 'indusagi/abort',
  snapshot: 'indusagi/snapshot',
  fork: 'indusagi/fork',
  condense: 'indusagi/condense',
  condenseUndo: 'indusagi/condense/undo',
  memoryRemember: 'indusagi/memory/remember',
  memoryRecall: 'indusagi/memory/recall',
  memoryList: 'indusagi/memory/list',
  memoryForget: 'indusagi/memory/forget',
  memoryGet: 'indusagi/memory/get',
  memoryUpdate: 'indusagi/memory/update',
  memoryAdopt: 'indusagi/memory/adopt',
  memoryExplain: 'indusagi/memory/explain',
  memoryExport: 'indusagi/memory/export',
  memoryImport: 'indusagi/memory/import',
  workflowList: 'indusagi/workflow/list',
  workflowRun: 'indusagi/workflow/run',
  workflowResume: 'indusagi/workflow/resume',
  workflowCancel: 'indusagi/workflow/cancel',
  modelsList: 'indusagi/models/list',
  trust: 'indusagi/trust',
  status: 'indusagi/status',
} as const;

export const Commands = {
  sessionNew: 'indusagi.server.session/new',
  sessionList: 'indusagi.server.session/list',
  resume: 'indusagi.server.resume',
  sessionTree: 'indusagi.server.session/tree',
  sessionAdopt: 'indusagi.server.session/adopt',
  sessionLabel: 'indusagi.server.session/label',
  sessionRename: 'indusagi.server.session/rename',
  sessionArchive: 'indusagi.server.session/archive',
  sessionDelete: 'indusagi.server.session/delete',
  sessionExport: 'indusagi.server.session/export',
  sessionImport: 'indusagi.server.session/import',
  sessionCompare: 'indusagi.server.session/compare',
  sessionNote: 'indusagi.server.session/note',
  sessionSearch: 'indusagi.server.session/search',
  sessionDoctor: 'indusagi.server.session/doctor',
  blobGet: 'indusagi.server.blob/get',
  blobCollect: 'indusagi.server.blob/collect',
  filesChanges: 'indusagi.server.files/changes',
  filesRestore: 'indusagi.server.files/restore',
  filesContent: 'indusagi.server.files/content',
  submit: 'indusagi.server.submit',
  ask: 'indusagi.server.ask',
  chatSend: 'indusagi.server.chat/send',
  abort: 'indusagi.server.abort',
  snapshot: 'indusagi.server.snapshot',
  fork: 'indusagi.server.fork',
  condense: 'indusagi.server.condense',
  condenseUndo: 'indusagi.server.condense/undo',
  memoryRemember: 'indusagi.server.memory/remember',
  memoryRecall: 'indusagi.server.memory/recall',
  memoryList: 'indusagi.server.memory/list',
  memoryForget: 'indusagi.server.memory/forget',
  memoryGet: 'indusagi.server.memory/get',
  memoryUpdate: 'indusagi.server.memory/update',
  memoryAdopt: 'indusagi.server.memory/adopt',
  memoryExplain: 'indusagi.server.memory/explain',
  memoryExport: 'indusagi.server.memory/export',
  memoryImport: 'indusagi.server.memory/import',
  workflowList: 'indusagi.server.workflow/list',
  workflowRun: 'indusagi.server.workflow/run',
  workflowResume: 'indusagi.server.workflow/resume',
  workflowCancel: 'indusagi.server.workflow/cancel',
  modelsList: 'indusagi.server.models/list',
  trust: 'indusagi.server.trust',
  status: 'indusagi.server.status',
} as const;

export const Notifications = {
  event: 'indusagi/event',
  status: 'indusagi/status',
  sessionsChanged: 'indusagi/sessionsChanged',
  memoryChanged: 'indusagi/memoryChanged',
  workflow: 'indusagi/workflow',
} as const;

export const Requests = {
  approve: 'indusagi/approve',
  question: 'indusagi/question',
  diagnostics: 'indusagi/diagnostics',
} as const;

/** Parameters and result of each operation, by its method. */
export interface Operations {
  'indusagi/session/new': { params: SessionNewParams; result: SessionInfo };
  'indusagi/session/list': { params: SessionListParams; result: SessionListResult };
  'indusagi/resume': { params: ResumeParams; result: SessionView };
  'indusagi/session/tree': { params: SessionParams; result: TreeResult };
  'indusagi/session/adopt': { params: SessionParams; result: AdoptResult };
  'indusagi/session/label': { params: LabelParams; result: LabelsResult };
  'indusagi/session/rename': { params: RenameParams; result: SessionInfo };
  'indusagi/session/archive': { params: ArchiveParams; result: SessionInfo };
  'indusagi/session/delete': { params: SessionParams; result: DeletedResult };
  'indusagi/session/export': { params: ExportParams; result: ExportResult };
  'indusagi/session/import': { params: ImportParams; result: ImportResult };
  'indusagi/session/compare': { params: CompareParams; result: CompareResult };
  'indusagi/session/note': { params: NoteParams; result: LeafResult };
  'indusagi/session/search': { params: SearchParams; result: SearchResult };
  'indusagi/session/doctor': { params: DoctorParams; result: DoctorResult };
  'indusagi/blob/get': { params: BlobParams; result: BlobResult };
  'indusagi/blob/collect': { params: CollectParams; result: CollectResult };
  'indusagi/files/changes': { params: FilesChangesParams; result: FilesChangesResult };
  'indusagi/files/restore': { params: FilesRestoreParams; result: FilesRestoreResult };
  'indusagi/files/content': { params: FilesContentParams; result: FilesContentResult };
  'indusagi/submit': { params: SubmitParams; result: SnapshotView };
  'indusagi/ask': { params: AskParams; result: AskResult };
  'indusagi/chat/send': { params: ChatSendParams; result: ChatSendResult };
  'indusagi/abort': { params: SessionParams; result: AbortResult };
  'indusagi/snapshot': { params: SnapshotParams; result: SnapshotResult };
  'indusagi/fork': { params: ForkParams; result: ForkResult };
  'indusagi/condense': { params: CondenseParams; result: CondenseResult };
  'indusagi/condense/undo': { params: SessionParams; result: LeafResult };
  'indusagi/memory/remember': { params: RememberParams; result: RememberResult };
  'indusagi/memory/recall': { params: RecallParams; result: RecallResult };
  'indusagi/memory/list': { params: MemoryListParams; result: MemoryListResult };
  'indusagi/memory/forget': { params: ForgetParams; result: ForgetResult };
  'indusagi/memory/get': { params: MemoryParams; result: MemoryGetResult };
  'indusagi/memory/update': { params: MemoryUpdateParams; result: MemoryEntryResult };
  'indusagi/memory/adopt': { params: MemoryParams; result: MemoryEntryResult };
  'indusagi/memory/explain': { params: MemoryExplainParams; result: MemoryExplainResult };
  'indusagi/memory/export': { params: MemoryExportParams; result: MemoryExportResult };
  'indusagi/memory/import': { params: MemoryImportParams; result: MemoryImportResult };
  'indusagi/workflow/list': { params: WorkflowListParams; result: WorkflowListResult };
  'indusagi/workflow/run': { params: WorkflowRunParams; result: WorkflowExecution };
  'indusagi/workflow/resume': { params: WorkflowResumeParams; result: WorkflowExecution };
  'indusagi/workflow/cancel': { params: WorkflowCancelParams; result: WorkflowCancelResult };
  'indusagi/models/list': { params: WorkspaceParams; result: ModelsListResult };
  'indusagi/trust': { params: TrustParams; result: StatusResult };
  'indusagi/status': { params: WorkspaceParams; result: StatusResult };
}

/** Error codes of ours, by kind of fault. */
export const ErrorCodes = {
  bad_request: -32010,
  invalid_state: -32011,
  session_not_found: -32012,
  session_foreign: -32013,
  node_not_found: -32014,
  persistence: -32015,
  aborted: -32016,
  turn_budget: -32017,
  compaction_failed: -32018,
  model_failed: -32019,
  overflow: -32020,
  tool_failed: -32021,
  path_denied: -32022,
  approval_denied: -32023,
  internal: -32024,
} as const;
