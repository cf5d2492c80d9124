// Whether an action may run. What is not answered, and what was not offered, is a denial.
import * as vscode from 'vscode';
import type { ApproveParams, Decision } from '../shared/events';
import { oneLine, unmask } from '../shared/format';
import { Desk } from './desk';

/** Actions that are remembered: they can be long. */
const MOST_ACTIONS = 100;

export class ApprovalDesk extends Desk<ApproveParams, Decision> {
  protected readonly silence = 'deny';
  /** What was asked about last, by its call: the tool's card shows it again. */
  private readonly actions = new Map<string, string>();

  override ask(question: ApproveParams, token: vscode.CancellationToken): Promise<Decision> {
    const { callId, action } = question;
    this.actions.delete(callId);
    this.actions.set(callId, action);
    const [oldest] = this.actions.keys();
    if (this.actions.size > MOST_ACTIONS && oldest !== undefined) {
      this.actions.delete(oldest);
    }
    return super.ask(question, token);
  }

  /** The action that was asked about for a call, if it was. */
  actionOf(callId: string): string | undefined {
    return this.actions.get(callId);
  }

  protected idOf(question: ApproveParams): string {
    return question.approvalId;
  }

  protected accepted(decision: Decision, question: ApproveParams): Decision {
    return question.options.includes(decision) ? decision : 'deny';
  }

  protected async notify(question: ApproveParams): Promise<void> {
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
