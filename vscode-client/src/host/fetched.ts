// What the server answers, as far as the chat needs it.
import type { SessionInfo, SessionView, SnapshotResult } from '../protocol';
import type { Moment, View } from '../shared/chat';

export const EMPTY_MOMENT: Moment = {
  runId: '',
  phase: 'idle',
  partial: '',
  pending: [],
  model: '',
  seq: 0,
  gap: false,
  events: [],
};

export function emptyView(info: SessionInfo): View {
  return {
    session: {
      id: info.id,
      workspace: info.workspace,
      title: info.title,
      trusted: info.state !== 'foreign',
      model: info.model,
    },
    turns: [],
    before: null,
    seq: 0,
    cost: info.cost,
    notices: [],
  };
}

export function viewOf(view: SessionView): View {
  return {
    session: {
      id: view.session.id,
      workspace: view.session.workspace,
      title: view.session.title,
      trusted: view.trusted,
      model: view.session.model,
    },
    turns: view.turns,
    before: view.before,
    seq: view.seq,
    cost: view.usage.cost,
    notices: view.notices,
  };
}

export function momentOf(result: SnapshotResult): Moment {
  const { runId, phase, partial, pending, model } = result.snapshot;
  return { runId, phase, partial, pending, model, seq: result.seq, gap: result.gap, events: result.events };
}
