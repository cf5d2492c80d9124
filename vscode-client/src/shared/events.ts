// What happens in a run, as the server tells it in `indusagi/event`. A kind that we do not know passes as unknown:
// a newer server may say more than we understand.
import {
  type Guarded,
  isBoolean,
  isNumber,
  isRecord,
  isString,
  listOf,
  oneOf,
  optional,
  record,
  tagged,
} from './guards';

export const isDecision = oneOf('once', 'session', 'always', 'deny');
export type Decision = Guarded<typeof isDecision>;

const isFault = record({ kind: isString, message: isString, hint: optional(isString) });

const isPendingCall = record({ id: isString, name: isString, stage: isString });

const isRunSnapshot = record({
  runId: isString,
  sessionId: isString,
  phase: isString,
  pending: listOf(isPendingCall),
  partial: optional(isString),
});

export const isRunEvent = tagged('kind', {
  snapshot: record({ snapshot: isRunSnapshot }),
  text_delta: record({ delta: isString }),
  thinking_delta: record({ delta: isString }),
  tool_started: record({ id: isString, name: isString }),
  tool_finished: record({
    id: isString,
    name: isString,
    outcome: record({ output: isString, isError: optional(isBoolean) }),
  }),
  settled: record({ snapshot: isRunSnapshot }),
  faulted: record({ error: isFault, snapshot: isRunSnapshot }),
  run_started: record({ node: optional(isString) }),
  tool_called: record({ id: isString, name: isString }),
  tool_update: record({ id: isString, text: isString }),
  approval_requested: record({ id: isString, callId: isString, action: isString }),
  approval_resolved: record({ id: isString, decision: isDecision, by: isString }),
  usage: record({
    input: isNumber,
    output: isNumber,
    window: optional(isNumber),
    estimate: optional(isNumber),
    cost: optional(isNumber),
  }),
  condense_started: record({ trigger: isString }),
  condense_finished: record({
    before: isNumber,
    after: isNumber,
    cut: isNumber,
    summary: optional(isString),
    reason: optional(isString),
  }),
  persisted: record({ node: isString, leaf: isString }),
  queue: record({ count: isNumber }),
  retry: record({ attempt: isNumber, delay: isNumber, error: isString }),
  session_changed: record({ head: optional(isString) }),
  memory_recalled: record({ entries: listOf(isRecord) }),
  notice: record({ level: oneOf('info', 'warning', 'error'), code: isString, text: isString }),
});
export type RunEvent = Guarded<typeof isRunEvent>;

export const isEventParams = record({
  workspace: isString,
  sessionId: isString,
  runId: isString,
  seq: isNumber,
  at: isNumber,
  event: record({ kind: isString }),
});
export type EventParams = Guarded<typeof isEventParams>;

export const isApproveParams = record({
  approvalId: isString,
  workspace: isString,
  sessionId: isString,
  runId: isString,
  callId: isString,
  tool: isString,
  action: isString,
  size: isNumber,
  sha256: isString,
  options: listOf(isDecision),
});
export type ApproveParams = Guarded<typeof isApproveParams>;

export const isQuestionParams = record({
  questionId: isString,
  workspace: isString,
  sessionId: isString,
  callId: isString,
  question: isString,
  options: listOf(isString),
});
export type QuestionParams = Guarded<typeof isQuestionParams>;

export const isDiagnosticsParams = record({ workspace: isString, uri: optional(isString) });
export type DiagnosticsParams = Guarded<typeof isDiagnosticsParams>;

export const isStatusParams = record({
  busy: isBoolean,
  message: isString,
  kind: optional(oneOf('Normal', 'Error', 'Warning', 'Inactive')),
  command: optional(isString),
});
export type StatusParams = Guarded<typeof isStatusParams>;
