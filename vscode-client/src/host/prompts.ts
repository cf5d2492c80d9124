// What the user says, from the send button to the end of its run: what goes with it, the session that is made for a
// first prompt, stopping it, and sending it again when it failed.
import { randomUUID } from 'node:crypto';
import * as vscode from 'vscode';
import type { ContextItem } from '../protocol';
import { Methods } from '../protocol';
import type { Chat } from '../shared/chat';
import type { Connection } from './connection';
import { asServerError } from './wire';

export interface SessionRef {
  id: string;
  workspace: string;
}

/** A picture as the session format has it. */
export interface Image {
  mediaType: string;
  dataBase64: string;
}

/** Something that goes with the next prompt: of the editor, or a picture. */
export type Attachment = { id: string; label: string } & ({ item: ContextItem } | { image: Image });

interface Prompt {
  text: string;
  attachments: readonly Attachment[];
}

/** What the prompts need of the view. */
export interface Place {
  readonly chat: Chat;
  readonly connection: Connection;
  /** The session that is shown. */
  session(): SessionRef | undefined;
  /** The session for a first prompt; two prompts at once get the same. */
  create(): Promise<SessionRef>;
  /** Something has changed that the page should show. */
  changed(): void;
}

export class Prompts {
  private attachments: Attachment[] = [];
  /** The prompt whose run failed or was stopped last, for `retry`. */
  private failed: (Prompt & { sessionId: string | undefined }) | undefined;
  /** Prompts that wait for their session to be made; stopping takes them out. */
  private readonly waiting = new Map<string, Prompt>();

  constructor(private readonly place: Place) {}

  attach(attachment: Attachment): void {
    this.setAttachments([...this.attachments.filter((entry) => entry.id !== attachment.id), attachment]);
  }

  detach(id: string): void {
    this.setAttachments(this.attachments.filter((entry) => entry.id !== id));
  }

  /** Sends a prompt with all that is attached; makes the session first when there is none. Ends with the run. */
  async send(text: string, mode: 'queue' | 'steer'): Promise<void> {
    const attachments = this.attachments;
    this.setAttachments([]);
    await this.submit({ text, attachments }, mode);
  }

  /** Sends the prompt again that failed in the session that is shown. */
  async retry(): Promise<void> {
    const { chat } = this.place;
    const failed = this.failed;
    if (chat.running) {
      return;
    }
    if (failed === undefined || failed.sessionId !== this.place.session()?.id) {
      chat.say('info', vscode.l10n.t('The prompt that failed was not sent from here: send it again yourself.'));
      this.place.changed();
      return;
    }
    const again = new Set(failed.attachments.map((entry) => entry.id));
    this.setAttachments(this.attachments.filter((entry) => !again.has(entry.id)));
    await this.submit(failed, 'queue');
  }

  /** Stops what goes on in the session that is shown; before there is one, what waits for it. */
  async stop(): Promise<void> {
    const { chat, connection } = this.place;
    const session = this.place.session();
    if (session !== undefined) {
      await connection.request(Methods.abort, { sessionId: session.id, workspace: session.workspace });
      return;
    }
    if (this.waiting.size > 0) {
      for (const [runId, prompt] of this.waiting) {
        chat.submitEnded(runId);
        this.keep(prompt, undefined);
      }
      this.waiting.clear();
      chat.say('info', vscode.l10n.t('Stopped.'), '', true);
      this.place.changed();
    }
  }

  private async submit(prompt: Prompt, mode: 'queue' | 'steer'): Promise<void> {
    const { chat, connection } = this.place;
    const runId = randomUUID();
    let session = this.place.session();
    let failed = true;
    chat.submitted(runId, prompt.text, mode, prompt.attachments.filter((entry) => 'image' in entry).length);
    this.place.changed();
    try {
      if (session === undefined) {
        this.waiting.set(runId, prompt);
        session = await this.place.create();
        if (!this.waiting.delete(runId)) {
          this.keep(prompt, session.id);
          return; // stopped before it was sent
        }
      }
      const end = await connection.request(Methods.submit, {
        sessionId: session.id,
        workspace: session.workspace,
        ...said(prompt),
        mode,
        runId,
        context: prompt.attachments.flatMap((entry) => ('item' in entry ? [entry.item] : [])),
        ...chosenModel(),
      });
      failed = end.phase !== 'settled';
      chat.submitEnded(runId);
    } catch (reason) {
      const stopped = session === undefined && !this.waiting.delete(runId);
      const error = asServerError(reason);
      if (!stopped) {
        chat.submitEnded(runId, { kind: error.kind, message: error.message, hint: error.hint });
      }
    }
    if (failed) {
      this.keep(prompt, session?.id);
    }
    this.place.changed();
  }

  /** Keeps a prompt that came to nothing; what went with it is attached again, whether it is repeated or reworded. */
  private keep(prompt: Prompt, sessionId: string | undefined): void {
    this.failed = { ...prompt, sessionId };
    if (sessionId === this.place.session()?.id) {
      const present = new Set(this.attachments.map((entry) => entry.id));
      this.setAttachments([...prompt.attachments.filter((entry) => !present.has(entry.id)), ...this.attachments]);
    }
  }

  private setAttachments(attachments: Attachment[]): void {
    this.attachments = attachments;
    this.place.chat.setAttachments(attachments);
    this.place.changed();
  }
}

/** The prompt as the server takes it: blocks where there are pictures. */
function said(prompt: Prompt): { text: string } | { blocks: Record<string, unknown>[] } {
  const images = prompt.attachments.flatMap((entry) => ('image' in entry ? [entry.image] : []));
  if (images.length === 0) {
    return { text: prompt.text };
  }
  return {
    blocks: [{ kind: 'text', text: prompt.text }, ...images.map((image) => ({ kind: 'image', ...image }))],
  };
}

/** The model of the user's settings, for a request; nothing where the server is to choose. */
function chosenModel(): { model?: string } {
  const model = vscode.workspace.getConfiguration('indusagi').get<string>('model', '');
  return model === '' ? {} : { model };
}
