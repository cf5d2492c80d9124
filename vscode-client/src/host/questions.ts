// What the agent asks the user: the words of the answer, or null where there are none.
import * as vscode from 'vscode';
import type { QuestionParams } from '../shared/events';
import { oneLine, unmask } from '../shared/format';
import { Desk } from './desk';

interface Offered extends vscode.MessageItem {
  answer: string | null;
}

/** Buttons that a notification has room for. */
const SHORT = 3;

export class QuestionDesk extends Desk<QuestionParams, string | null> {
  protected readonly silence = null;

  protected idOf(question: QuestionParams): string {
    return question.questionId;
  }

  protected accepted(answer: string | null): string | null {
    return answer === null || answer.trim() === '' ? null : answer;
  }

  protected async notify(question: QuestionParams): Promise<void> {
    const whole = unmask(question.question);
    const said = oneLine(whole, 160);
    const offered: Offered[] = question.options.map((option) => ({ title: unmask(option), answer: option }));
    const show: Offered = { title: vscode.l10n.t('Answer…'), answer: null };
    const choice = await vscode.window.showInformationMessage(
      vscode.l10n.t('The agent asks: {0}', said),
      show,
      ...(said === whole.trim() && offered.length <= SHORT ? offered : []),
    );
    if (choice === show) {
      await this.show(question);
    } else if (choice !== undefined) {
      this.answer(question.questionId, choice.answer);
    }
  }
}
