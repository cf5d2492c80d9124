// Questions of the server that wait for the user. Each has one answer; the first one counts.
import * as vscode from 'vscode';
import type { ApproveParams, Decision } from '../shared/events';
import { oneLine, unmask } from '../shared/format';

interface Open {
  question: ApproveParams;
  answer: (decision: Decision) => void;
}

export class ApprovalDesk implements vscode.Disposable {
  private readonly open = new Map<string, Open>();
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onChanged = this.changed.event;

  constructor(
    /** Whether the user sees the card of this session now. */
    private readonly isShown: (question: ApproveParams) => boolean,
    private readonly show: (question: ApproveParams) => Promise<void>,
  ) {}

  /** How many questions wait. */
  get count(): number {
    return this.open.size;
  }

  of(sessionId: string, workspace: string): ApproveParams[] {
    return [...this.open.values()]
      .map((entry) => entry.question)
      .filter((question) => question.sessionId === sessionId && question.workspace === workspace);
  }

  find(approvalId: string): ApproveParams | undefined {
    return this.open.get(approvalId)?.question;
  }

  ask(question: ApproveParams, token: vscode.CancellationToken): Promise<Decision> {
    return new Promise((resolve) => {
      this.open.get(question.approvalId)?.answer('deny'); // asked anew: the older request is void
      const cancelled = token.onCancellationRequested(() => this.answer(question.approvalId, 'deny'));
      this.open.set(question.approvalId, {
        question,
        answer: (decision) => {
          cancelled.dispose();
          resolve(decision);
        },
      });
      this.changed.fire();
      if (!this.isShown(question)) {
        void this.notify(question);
      }
    });
  }

  /** Answers a question, once; a late answer does nothing. */
  answer(approvalId: string, decision: Decision): void {
    const entry = this.open.get(approvalId);
    if (entry !== undefined) {
      this.open.delete(approvalId);
      entry.answer(entry.question.options.includes(decision) ? decision : 'deny');
      this.changed.fire();
    }
  }

  /** Somebody else answered (another window), or the server is gone. */
  drop(approvalId?: string): void {
    for (const id of approvalId === undefined ? [...this.open.keys()] : [approvalId]) {
      this.answer(id, 'deny');
    }
  }

  dispose(): void {
    this.drop();
    this.changed.dispose();
  }

  private async notify(question: ApproveParams): Promise<void> {
    const labels: Record<Decision, string> = {
      once: vscode.l10n.t('Allow once'),
      session: vscode.l10n.t('Allow for this session'),
      always: vscode.l10n.t('Always allow in this folder'),
      deny: vscode.l10n.t('Deny'),
    };
    const show = vscode.l10n.t('Show');
    const whole = unmask(question.action);
    const action = oneLine(whole, 160);
    const choice = await vscode.window.showWarningMessage(
      vscode.l10n.t('Allow {0}? {1}', unmask(question.tool), action),
      show,
      // What is not shown exactly (a long action, or one of several lines) cannot be judged: it must be looked at first.
      ...(action === whole.trim() ? question.options.map((option) => labels[option]) : [labels.deny]),
    );
    if (choice === show) {
      await this.show(question);
      return;
    }
    const decision = question.options.find((option) => labels[option] === choice);
    if (decision !== undefined) {
      this.answer(question.approvalId, decision);
    }
    // A closed notification is no answer: the card in the panel still waits.
  }
}
