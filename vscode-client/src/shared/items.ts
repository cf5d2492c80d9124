// What the chat shows, as plain data: made from turns, changed by events, drawn by the page.
import {
  type Guarded,
  isBoolean,
  isNumber,
  isRecord,
  isString,
  listOf,
  nullable,
  oneOf,
  optional,
  record,
  tagged,
} from './guards';
import { isDecision } from './events';

const base = { key: isString, node: nullable(isString) };

export const isToolStage = oneOf('asked', 'waiting', 'running', 'done', 'failed', 'interrupted');

/** `node` is the turn in the session's graph, null while it is not on disk yet. */
export const isItem = tagged('kind', {
  /** `attached` names what of the editor went with it. */
  user: record({ ...base, text: isString, images: isNumber, attached: optional(listOf(isString)) }),
  assistant: record({ ...base, text: isString, live: isBoolean }),
  thinking: record({ ...base, text: isString, live: isBoolean }),
  tool: record({
    ...base,
    callId: isString,
    name: isString,
    input: isString,
    output: isString,
    stage: isToolStage,
  }),
  summary: record({ ...base, text: isString }),
  notice: record({
    ...base,
    level: oneOf('info', 'warning', 'error'),
    text: isString,
    hint: isString,
    retry: isBoolean,
  }),
  gap: record(base),
});
export type Item = Guarded<typeof isItem>;
export type ItemOf<K extends Item['kind']> = Extract<Item, { kind: K }>;

export const isApprovalCard = record({
  approvalId: isString,
  callId: isString,
  tool: isString,
  action: isString,
  size: isNumber,
  options: listOf(isDecision),
});

export const isQuestionCard = record({ questionId: isString, question: isString, options: listOf(isString) });

export const isQueued = record({
  runId: isString,
  text: isString,
  mode: oneOf('queue', 'steer'),
  images: isNumber,
});
export type Queued = Guarded<typeof isQueued>;

export const isAttachment = record({ id: isString, label: isString });

/** All but the items: small, and sent whole whenever it changes. */
export const isHead = record({
  connection: oneOf('starting', 'running', 'stopped', 'failed'),
  session: nullable(record({ id: isString, title: isString, trusted: isBoolean, model: nullable(isString) })),
  run: nullable(record({ runId: isString, phase: isString, startedAt: isNumber, note: isString })),
  queued: listOf(isQueued),
  approvals: listOf(isApprovalCard),
  questions: listOf(isQuestionCard),
  attachments: listOf(isAttachment),
  meter: record({ used: nullable(isNumber), window: nullable(isNumber), cost: nullable(isNumber) }),
  model: nullable(isString),
  earlier: isBoolean,
});
export type Head = Guarded<typeof isHead>;

/** The first line of a turn that stands for condensed history. */
export const SUMMARY_MARK = '[condensed earlier context]';

interface TurnLike {
  id: string;
  role: string;
  blocks: readonly unknown[];
  gap?: boolean;
}

/** The name of what the editor sent along, for a block that says so: it is no speech of the user's. */
function attachedName(context: unknown): string | null {
  const where = isRecord(context) ? context['at'] : undefined;
  return isString(where) ? where.slice(where.lastIndexOf('/') + 1) : null;
}

function asJson(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value ?? null, null, 2);
}

/** Turns, root to leaf, as items: a tool's result goes into the card of its call. */
export function itemsFromTurns(turns: readonly TurnLike[], running: boolean): Item[] {
  const items: Item[] = [];
  const calls = new Map<string, ItemOf<'tool'>>();
  for (const turn of turns) {
    if (turn.gap === true) {
      items.push({ kind: 'gap', key: `${turn.id}:gap`, node: null });
    }
    let prompt: ItemOf<'user'> | undefined;
    let ordinal = 0;
    for (const block of turn.blocks) {
      if (!isRecord(block)) {
        continue;
      }
      const key = `${turn.id}:${String(ordinal)}`;
      const place = { key, node: turn.id };
      if (turn.role === 'tool' || block['kind'] === 'tool_result') {
        const call = isString(block['callId']) ? calls.get(block['callId']) : undefined;
        if (call !== undefined) {
          call.output = isString(block['output']) ? block['output'] : '';
          call.stage = block['isError'] === true ? 'failed' : 'done';
        }
        continue;
      }

      if (turn.role === 'user' || turn.role === 'system') {
        const said = isString(block['text']) ? block['text'] : '';
        if (said.startsWith(SUMMARY_MARK)) {
          items.push({ kind: 'summary', ...place, text: said.slice(SUMMARY_MARK.length).trim() });
          ordinal += 1;
          continue;
        }
        if (prompt === undefined) {
          prompt = { kind: 'user', ...place, text: '', images: 0 };
          items.push(prompt);
          ordinal += 1;
        }
        const attached = attachedName(block['context']);
        if (block['kind'] === 'image') {
          prompt.images += 1;
        } else if (attached !== null) {
          prompt.attached = [...(prompt.attached ?? []), attached];
        } else if (said !== '') {
          prompt.text = prompt.text === '' ? said : `${prompt.text}\n${said}`;
        }
        continue;
      }

      if (block['kind'] === 'text' && isString(block['text'])) {
        items.push({ kind: 'assistant', ...place, text: block['text'], live: false });
      } else if (block['kind'] === 'thinking' && isString(block['text'])) {
        items.push({ kind: 'thinking', ...place, text: block['text'], live: false });
      } else if (block['kind'] === 'tool_call' && isString(block['id'])) {
        const call: ItemOf<'tool'> = {
          kind: 'tool',
          ...place,
          callId: block['id'],
          name: isString(block['name']) ? block['name'] : '?',
          input: asJson(block['input']),
          output: '',
          stage: running ? 'asked' : 'interrupted',
        };
        calls.set(call.callId, call);
        items.push(call);
      } else {
        continue;
      }
      ordinal += 1;
    }
  }
  return items;
}
