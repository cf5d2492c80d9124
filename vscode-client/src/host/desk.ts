// Questions of the server that wait for the user. Each has one answer; the first one counts.
import * as vscode from 'vscode';

interface Open<Question, Answer> {
  question: Question;
  answer: (answer: Answer) => void;
}

export abstract class Desk<Question extends { sessionId: string; workspace: string }, Answer>
  implements vscode.Disposable
{
  private readonly open = new Map<string, Open<Question, Answer>>();
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onChanged = this.changed.event;

  constructor(
    /** Whether the user sees the card of this session now. */
    private readonly isShown: (question: Question) => boolean,
    protected readonly show: (question: Question) => Promise<void>,
  ) {}

  /** What it comes to when nobody answers. */
  protected abstract readonly silence: Answer;
  protected abstract idOf(question: Question): string;
  /** What an answer counts as: one that was not to be given is silence. */
  protected abstract accepted(answer: Answer, question: Question): Answer;
  /** Tells the user of a question whose card is not in sight. */
  protected abstract notify(question: Question): Promise<void>;

  /** How many questions wait. */
  get count(): number {
    return this.open.size;
  }

  of(sessionId: string, workspace: string): Question[] {
    return [...this.open.values()]
      .map((entry) => entry.question)
      .filter((question) => question.sessionId === sessionId && question.workspace === workspace);
  }

  find(id: string): Question | undefined {
    return this.open.get(id)?.question;
  }

  ask(question: Question, token: vscode.CancellationToken): Promise<Answer> {
    const id = this.idOf(question);
    return new Promise((resolve) => {
      this.open.get(id)?.answer(this.silence); // asked anew: the older request is void
      const cancelled = token.onCancellationRequested(() => this.answer(id, this.silence));
      this.open.set(id, {
        question,
        answer: (answer) => {
          cancelled.dispose();
          resolve(answer);
        },
      });
      this.changed.fire();
      if (!this.isShown(question)) {
        void this.notify(question);
      }
    });
  }

  /** Answers a question, once; a late answer does nothing. */
  answer(id: string, answer: Answer): void {
    const entry = this.open.get(id);
    if (entry !== undefined) {
      this.open.delete(id);
      entry.answer(this.accepted(answer, entry.question));
      this.changed.fire();
    }
  }

  /** Somebody else answered (another window), or the server is gone. */
  drop(id?: string): void {
    for (const one of id === undefined ? [...this.open.keys()] : [id]) {
      this.answer(one, this.silence);
    }
  }

  dispose(): void {
    this.drop();
    this.changed.dispose();
  }
}
