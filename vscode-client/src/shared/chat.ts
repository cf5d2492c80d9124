// The state of one chat. History is fetched (`load`), never replayed; events move it on (`apply`), and each is applied
// at most once, by its `seq`. Whoever cannot follow (a gap, a moved head) is told to fetch again.
import {
  type ApproveParams,
  type EventParams,
  isEventParams,
  isRunEvent,
  type QuestionParams,
  type RunEvent,
} from './events';
import { type Head, type Item, itemsFromTurns, type Queued } from './items';
import { withNotices, withOldKeys } from './merge';
import { fill, type Translate } from './pageTexts';
import { type ItemChanges, Transcript } from './transcript';

const ACTIVE = new Set(['invoking', 'streaming', 'dispatching', 'awaiting_approval', 'condensing']);

/** What a live tool may show: the newest part of what it said. */
const LIVE_OUTPUT_LIMIT = 32_768;

export interface SessionFacts {
  id: string;
  workspace: string;
  title: string;
  trusted: boolean;
  model: string | null;
}

/** What `resume` gave, as far as the chat needs it. */
export interface View {
  session: SessionFacts;
  turns: readonly { id: string; role: string; blocks: readonly unknown[]; gap?: boolean }[];
  before: string | null;
  seq: number;
  cost: number | null;
  notices: readonly { level: 'info' | 'warning' | 'error'; code: string; text: string }[];
}

/** What `snapshot` gave, as far as the chat needs it. */
export interface Moment {
  runId: string;
  phase: string;
  partial: string;
  pending: readonly { id: string; name: string; stage: string }[];
  model: string;
  seq: number;
  gap: boolean;
  events: readonly unknown[];
}

/** `ignored`: not ours or known already. `stale`: applied, but the history must be fetched again. */
export type Applied = 'applied' | 'ignored' | 'stale';

/** What changed since the last `takeChanges`. */
export interface Changes extends ItemChanges {
  head: boolean;
}

/**
 * Whether the history moved on after `view` was taken, and before `moment` was: the view lacks a turn, and the beginning
 * of its text came before the events that the moment gives. Both must be fetched again.
 */
export function movedOn(
  view: { seq: number },
  moment: { seq: number; gap: boolean; events: readonly unknown[] },
): boolean {
  if (moment.gap) {
    return moment.seq !== view.seq;
  }
  return moment.events.some((raw) => isEventParams(raw) && raw.seq > view.seq && raw.event.kind === 'persisted');
}

export class Chat {
  private session: SessionFacts | null = null;
  private run: Head['run'] = null;
  private queued: Queued[] = [];
  private attachments: { id: string; label: string }[] = [];
  private approvals: Head['approvals'] = [];
  private questions: Head['questions'] = [];
  private meter: Head['meter'] = { used: null, window: null, cost: null };
  private model: string | null = null;
  private connection: Head['connection'] = 'starting';
  private before: string | null = null;
  private seq = 0;
  /** Whether condensing is all that goes on: asked for by the user, outside any run. */
  private condensingAlone = false;

  private readonly transcript = new Transcript();
  private headDirty = true;

  constructor(
    private readonly now: () => number,
    private readonly t: Translate = fill,
  ) {}

  get current(): SessionFacts | null {
    return this.session;
  }

  get running(): boolean {
    return this.run !== null;
  }

  get earlierCursor(): string | null {
    return this.before;
  }

  head(): Head {
    const session = this.session;
    return {
      connection: this.connection,
      session: session && {
        id: session.id,
        title: session.title,
        trusted: session.trusted,
        model: session.model,
      },
      run: this.run && { ...this.run },
      queued: [...this.queued],
      approvals: [...this.approvals],
      questions: [...this.questions],
      attachments: [...this.attachments],
      meter: { ...this.meter },
      model: this.model,
      earlier: this.before !== null,
    };
  }

  all(): Item[] {
    return this.transcript.items.map((item) => ({ ...item }));
  }

  /** What to draw anew. A whole `reset` outweighs the rest. */
  takeChanges(): Changes {
    const changes = { ...this.transcript.takeChanges(), head: this.headDirty };
    this.headDirty = false;
    return changes;
  }

  setConnection(connection: Head['connection']): void {
    if (connection === this.connection) {
      return;
    }
    const lost = this.connection === 'running';
    this.connection = connection;
    if (lost) {
      this.interrupt();
    }
    this.headDirty = true;
  }

  setModel(model: string | null, window: number | null): void {
    this.model = model;
    this.meter.window = window ?? this.meter.window;
    this.headDirty = true;
  }

  setAttachments(attachments: readonly { id: string; label: string }[]): void {
    this.attachments = attachments.map(({ id, label }) => ({ id, label }));
    this.headDirty = true;
  }

  setApprovals(approvals: readonly ApproveParams[]): void {
    this.approvals = approvals.map(({ approvalId, callId, tool, action, size, options }) => ({
      approvalId,
      callId,
      tool,
      action,
      size,
      options: [...options],
    }));
    this.headDirty = true;
  }

  setQuestions(questions: readonly QuestionParams[]): void {
    this.questions = questions.map(({ questionId, question, options }) => ({
      questionId,
      question,
      options: [...options],
    }));
    this.headDirty = true;
  }

  /** No session: an empty page that waits for the first prompt. */
  clear(): void {
    this.session = null;
    this.before = null;
    this.seq = 0;
    this.run = null;
    this.queued = [];
    this.meter = { used: null, window: this.meter.window, cost: null };
    this.transcript.replace([]);
    this.headDirty = true;
  }

  /** Puts what the server has in place of what is shown; what is still the same keeps its key. */
  load(view: View, moment: Moment): void {
    const same = this.session?.id === view.session.id && this.session.workspace === view.session.workspace;
    const active = ACTIVE.has(moment.phase);
    const old = same ? this.transcript.items : [];
    if (!same) {
      this.queued = [];
      this.meter = { used: null, window: this.meter.window, cost: null };
    }
    this.session = { ...view.session };
    this.before = view.before;
    this.seq = moment.gap ? moment.seq : view.seq;
    this.meter.cost = view.cost;
    this.run = active
      ? { runId: moment.runId, phase: moment.phase, startedAt: this.startOf(moment.runId), note: '' }
      : null;
    if (moment.model !== '') {
      this.model = moment.model;
    }
    this.condensingAlone = moment.phase === 'condensing';
    this.transcript.replace(withNotices(old, withOldKeys(old, itemsFromTurns(view.turns, active))));
    this.headDirty = true;
    if (!same) {
      for (const notice of view.notices) {
        this.transcript.notice(notice.level, notice.text, '');
      }
    }

    if (!moment.gap) {
      for (const raw of moment.events) {
        if (isEventParams(raw) && isRunEvent(raw.event) && raw.seq > this.seq) {
          this.change(raw.event, raw.runId, raw.at);
          this.seq = raw.seq;
        }
      }
      this.seq = Math.max(this.seq, moment.seq);
    }
    if (active) {
      this.catchUp(moment);
    }
    this.transcript.redraw();
  }

  /** Older turns, put above what is shown. */
  prepend(turns: View['turns'], before: string | null): void {
    const known = new Set(this.transcript.items.map((item) => item.node));
    const older = itemsFromTurns(
      turns.filter((turn) => !known.has(turn.id)),
      false,
    );
    this.before = before;
    this.transcript.replace([...older, ...this.transcript.items]);
    this.headDirty = true;
  }

  /** The user has said something; it waits until its run starts. */
  submitted(runId: string, text: string, mode: 'queue' | 'steer', images = 0): void {
    this.queued.push({ runId, text, mode, images });
    this.headDirty = true;
  }

  /** The submit was answered or refused: it waits no more. A refusal that has been told already is not told again. */
  submitEnded(runId: string, failure?: { kind: string; message: string; hint: string }): void {
    const waited = this.queued.some((entry) => entry.runId === runId);
    this.queued = this.queued.filter((entry) => entry.runId !== runId);
    const told = failure?.kind === 'aborted' || (failure?.kind === 'interrupted' && !waited);
    if (failure !== undefined && !told) {
      this.transcript.notice('error', failure.message, failure.hint, true);
      if (this.run?.runId === runId) {
        this.endRun();
      }
    }
    this.headDirty = true;
  }

  say(level: 'info' | 'warning' | 'error', text: string, hint = '', retry = false): void {
    this.transcript.notice(level, text, hint, retry);
  }

  /** Moves on by one event. */
  apply(params: EventParams): Applied {
    const session = this.session;
    if (params.sessionId !== session?.id || params.workspace !== session.workspace) {
      return 'ignored';
    }
    if (params.seq <= this.seq) {
      return 'ignored';
    }
    if (params.seq > this.seq + 1) {
      return 'stale';
    }
    this.seq = params.seq;
    if (!isRunEvent(params.event)) {
      return 'applied'; // a kind of a newer server
    }
    return this.change(params.event, params.runId, params.at) ? 'stale' : 'applied';
  }

  /** Applies `event`; true when the history must be fetched again. */
  private change(event: RunEvent, runId: string, at: number): boolean {
    switch (event.kind) {
      case 'run_started':
        return this.runStarted(runId, event.node ?? null, at);
      case 'text_delta':
        this.stream('assistant', event.delta, runId, at);
        return false;
      case 'thinking_delta':
        this.stream('thinking', event.delta, runId, at);
        return false;
      case 'snapshot':
        this.setPhase(event.snapshot.phase, runId, at);
        return false;
      case 'tool_started':
        this.transcript.closeLive();
        this.transcript.tool(event.id, event.name);
        return false;
      case 'tool_called': {
        const input = 'input' in event ? event.input : undefined;
        const item = this.transcript.tool(event.id, event.name);
        item.stage = 'running';
        item.input = typeof input === 'string' ? input : JSON.stringify(input ?? {}, null, 2);
        this.transcript.touch(item);
        this.setPhase('dispatching', runId, at);
        return false;
      }
      case 'tool_update': {
        const item = this.transcript.call(event.id);
        if (item !== undefined) {
          item.output = (item.output + event.text).slice(-LIVE_OUTPUT_LIMIT);
          this.transcript.touch(item);
        }
        return false;
      }
      case 'tool_finished': {
        const item = this.transcript.tool(event.id, event.name);
        item.output = event.outcome.output;
        item.stage = event.outcome.isError === true ? 'failed' : 'done';
        this.transcript.touch(item);
        return false;
      }
      case 'approval_requested': {
        const item = this.transcript.call(event.callId);
        if (item !== undefined) {
          item.stage = 'waiting';
          this.transcript.touch(item);
        }
        this.setPhase('awaiting_approval', runId, at);
        return false;
      }
      case 'approval_resolved':
        this.approvals = this.approvals.filter((card) => card.approvalId !== event.id);
        this.setPhase('dispatching', runId, at);
        return false;
      case 'usage':
        this.meter = {
          used: event.estimate ?? event.input + event.output,
          window: event.window ?? this.meter.window,
          cost: event.cost == null ? this.meter.cost : (this.meter.cost ?? 0) + event.cost,
        };
        this.headDirty = true;
        return false;
      case 'condense_started':
        this.condensingAlone = this.run === null;
        this.setPhase('condensing', runId, at);
        return false;
      case 'condense_finished': {
        const done = event.summary != null;
        const alone = this.condensingAlone;
        if (alone) {
          this.condensingAlone = false;
          this.endRun();
        } else {
          this.setPhase('invoking', runId, at);
        }
        if (done && !alone) {
          const told = this.t('Condensed {0} turns: {1} → {2} tokens.', event.cut, event.before, event.after);
          this.transcript.notice('info', told, '');
        } else if (!alone) {
          // Whoever asked for it is answered; only what happens by itself is told here.
          const reason = event.reason ?? this.t('there was nothing to drop');
          this.transcript.notice('warning', this.t('Nothing was condensed: {0}', reason), '');
        }
        return done;
      }
      case 'persisted':
        for (let index = this.transcript.items.length - 1; index >= 0; index -= 1) {
          const item = this.transcript.items[index];
          if (item?.kind === 'notice') {
            continue;
          }
          if (item?.node !== null || item.kind === 'user') {
            break;
          }
          item.node = event.node;
          this.transcript.touch(item);
        }
        this.transcript.closeLive();
        return false;
      case 'queue':
        this.drainSteered(event.count);
        return false;
      case 'retry':
        if (this.run !== null) {
          const seconds = Math.round(event.delay * 10) / 10;
          this.run.note = this.t('Attempt {0} failed ({1}); again in {2} s', event.attempt, event.error, seconds);
          this.headDirty = true;
        }
        return false;
      case 'session_changed':
        return true;
      case 'memory_recalled':
        if (event.entries.length > 0) {
          this.transcript.notice('info', this.t('Recalled {0} remembered entries.', event.entries.length), '');
        }
        return false;
      case 'notice':
        this.transcript.notice(event.level, event.text, '');
        return false;
      case 'settled':
        this.endRun();
        return true;
      case 'faulted':
        this.endRun();
        if (event.error.kind === 'aborted') {
          this.transcript.notice('info', this.t('Stopped.'), '', true);
        } else {
          this.transcript.notice('error', event.error.message, event.error.hint ?? '', true);
        }
        return true;
    }
  }

  private runStarted(runId: string, node: string | null, at: number): boolean {
    this.run = { runId, phase: 'invoking', startedAt: at, note: '' };
    this.headDirty = true;
    const index = this.queued.findIndex((entry) => entry.runId === runId);
    const entry = this.queued[index];
    if (entry === undefined) {
      return true; // somebody else's prompt: its text is in the history
    }
    this.queued.splice(index, 1);
    this.transcript.push({ kind: 'user', key: this.transcript.newKey(), node, text: entry.text, images: entry.images });
    return false;
  }

  /** A prompt that was to steer has been taken into the run when the queue gets shorter without a new run. */
  private drainSteered(count: number): void {
    const waiting = this.queued.filter((entry) => entry.runId !== this.run?.runId);
    let surplus = waiting.length - count;
    for (const entry of waiting) {
      if (surplus > 0 && entry.mode === 'steer') {
        this.queued = this.queued.filter((other) => other !== entry);
        this.transcript.closeLive();
        this.transcript.push({
          kind: 'user',
          key: this.transcript.newKey(),
          node: null,
          text: entry.text,
          images: entry.images,
        });
        surplus -= 1;
        this.headDirty = true;
      }
    }
  }

  private stream(kind: 'assistant' | 'thinking', delta: string, runId: string, at: number): void {
    this.setPhase('streaming', runId, at);
    this.transcript.stream(kind, delta);
  }

  private setPhase(phase: string, runId: string, at: number): void {
    if (!ACTIVE.has(phase)) {
      return;
    }
    if (this.run?.runId === runId && this.run.phase === phase && this.run.note === '') {
      return;
    }
    const startedAt = this.run?.runId === runId ? this.run.startedAt : at;
    this.run = { runId, phase, startedAt, note: '' };
    this.headDirty = true;
  }

  private startOf(runId: string): number {
    return this.run?.runId === runId ? this.run.startedAt : this.now();
  }

  /** What a snapshot knows beyond the turns and the events: the text that is being streamed, and the open calls. */
  private catchUp(moment: Moment): void {
    if (moment.partial !== '') {
      const last = this.transcript.items.at(-1);
      if (last?.kind === 'assistant' && last.live) {
        last.text = moment.partial;
      } else if (moment.phase === 'streaming') {
        this.transcript.push({
          kind: 'assistant',
          key: this.transcript.newKey(),
          node: null,
          text: moment.partial,
          live: true,
        });
      }
    }
    for (const call of moment.pending) {
      const item = this.transcript.tool(call.id, call.name);
      if (item.stage === 'asked' || item.stage === 'interrupted') {
        item.stage = call.stage === 'started' ? 'running' : call.stage === 'awaiting_approval' ? 'waiting' : 'asked';
      }
    }
  }

  /** The server is gone: what ran is over, and says so. */
  private interrupt(): void {
    const ran = this.run !== null || this.queued.length > 0;
    this.endRun();
    this.queued = [];
    this.approvals = [];
    this.questions = [];
    for (const item of this.transcript.items) {
      if (item.kind === 'tool' && item.stage !== 'done' && item.stage !== 'failed') {
        item.stage = 'interrupted';
        this.transcript.touch(item);
      }
    }
    if (ran) {
      this.transcript.notice(
        'warning',
        this.t('The run was interrupted: the server stopped.'),
        this.t('What was said until then is kept.'),
        true,
      );
    }
  }

  private endRun(): void {
    this.run = null;
    this.transcript.closeLive();
    this.headDirty = true;
  }
}
