// The chat view: keeps the state of the session that is shown, feeds the page, and does what the page asks for.
import { randomUUID } from 'node:crypto';
import * as vscode from 'vscode';
import type { SessionInfo } from '../protocol';
import { Methods } from '../protocol';
import { Chat, movedOn } from '../shared/chat';
import { parseDiff, sidesOf, sidesOfEdits } from '../shared/diffs';
import type { EventParams } from '../shared/events';
import { isRecord, isString } from '../shared/guards';
import { type HostMessage, isPageMessage, isSafeLink, type PageMessage } from '../shared/messages';
import type { ApprovalDesk } from './approvals';

import { openEditor } from './attachments';
import { Completions } from './completions';
import type { Connection } from './connection';
import { contentOf, DiffView } from './diffView';
import { type Attachment, Prompts, type SessionRef } from './prompts';
import { EMPTY_MOMENT, emptyView, momentOf, viewOf } from './fetched';
import type { QuestionDesk } from './questions';
import { chatPage, resourceRoots } from './webviewPage';
import { asServerError, ServerError } from './wire';

export const VIEW_ID = 'indusagi.chat';

/** Turns that are fetched at once; older ones come when they are asked for. */
const PAGE_TURNS = 100;

/** How often the page is told of changes: about once a frame. */
const FLUSH_MS = 16;

const LAST_SESSION = 'indusagi.lastSession';

export class ChatView implements vscode.WebviewViewProvider {
  readonly chat = new Chat(Date.now, (text, ...values) => vscode.l10n.t(text, ...values));
  private view: vscode.WebviewView | undefined;
  private ready = false;
  private timer: NodeJS.Timeout | undefined;
  private readonly prompts: Prompts;
  private readonly completions: Completions;
  readonly diffs = new DiffView();
  private workspaceForNew: string | undefined;
  private generation = 0;
  /** The session that is being made for a first prompt; a prompt that comes meanwhile goes there too. */
  private creating: Promise<SessionRef> | undefined;
  private fetching: Promise<void> = Promise.resolve();
  private fetches = 0;
  private held: EventParams[] = [];
  private prefill: { text: string; replace: boolean } | undefined;
  private readonly changed = new vscode.EventEmitter<void>();
  private readonly wentBack = new vscode.EventEmitter<{ session: SessionRef; node: string; before: boolean }>();
  private readonly subscriptions: vscode.Disposable[] = [this.changed, this.wentBack, this.diffs];

  /** The conversation goes on from an earlier turn, so that files could go back, too. */
  readonly onWentBack = this.wentBack.event;

  /** The session that is shown, or whether it runs, has changed. */
  readonly onChanged = this.changed.event;

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly connection: Connection,
    private readonly desk: () => ApprovalDesk,
    private readonly log: vscode.LogOutputChannel,
    private readonly questions: () => QuestionDesk,
  ) {
    this.completions = new Completions(connection);
    this.prompts = new Prompts({
      chat: this.chat,
      connection,
      session: () => this.session,
      create: () => (this.creating ??= this.createSession()),
      changed: () => this.schedule(),
    });
    this.subscriptions.push(
      connection.onEvent((params) => this.onEvent(params)),
      connection.onState((state) => {
        this.chat.setConnection(state);
        this.schedule();
        if (state === 'running') {
          void this.afterStart();
        }
      }),
    );
  }

  // --- the view -------------------------------------------------------------------------------------------------------

  resolveWebviewView(view: vscode.WebviewView): void {
    this.view = view;
    this.ready = false;
    view.webview.options = {
      enableScripts: true,
      localResourceRoots: resourceRoots(this.context.extensionUri),
    };
    view.webview.onDidReceiveMessage((raw: unknown) => {
      if (isPageMessage(raw)) {
        this.handle(raw).catch((reason: unknown) => this.fail(reason));
      } else {
        this.log.warn('A message of the chat page did not have the expected shape; it was dropped.');
      }
    });
    view.onDidDispose(() => {
      if (this.view === view) {
        this.view = undefined;
        this.ready = false;
      }
    });
    view.onDidChangeVisibility(() => {
      if (!view.visible) {
        this.ready = false; // the page is gone; it says `ready` when it is made again
      }
    });
    view.webview.html = chatPage(view.webview, this.context.extensionUri);
  }

  get visible(): boolean {
    return this.view?.visible === true && this.ready;
  }

  async focus(): Promise<void> {
    await vscode.commands.executeCommand(`${VIEW_ID}.focus`);
    this.post({ type: 'focus' });
  }

  /** Puts text into the message box. */
  async fill(text: string, replace: boolean): Promise<void> {
    this.prefill = { text, replace };
    await vscode.commands.executeCommand(`${VIEW_ID}.focus`);
    this.deliverPrefill();
  }

  private deliverPrefill(): void {
    if (this.ready && this.prefill !== undefined) {
      this.post({ type: 'prefill', ...this.prefill });
      this.prefill = undefined;
    }
  }

  private post(message: HostMessage): void {
    if (this.ready) {
      void this.view?.webview.postMessage(message);
    }
  }

  private schedule(): void {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      this.flush();
    }, FLUSH_MS);
  }

  private flush(): void {
    const changes = this.chat.takeChanges();
    if (changes.head || changes.reset) {
      this.changed.fire();
    }
    if (!this.ready) {
      return; // a page that comes back is given everything
    }
    if (changes.reset) {
      this.post({ type: 'reset', head: this.chat.head(), items: this.chat.all() });
    } else if (changes.head || changes.items.length > 0 || changes.appends.length > 0) {
      this.post({
        type: 'update',
        ...(changes.head ? { head: this.chat.head() } : {}),
        items: changes.items,
        appends: changes.appends,
      });
    }
  }

  // --- the session ----------------------------------------------------------------------------------------------------

  get session(): SessionRef | undefined {
    const session = this.chat.current;
    return session === null ? undefined : { id: session.id, workspace: session.workspace };
  }

  /** The title of the session that is shown, if it is this one. */
  titleOf(id: string): string {
    const session = this.chat.current;
    return session?.id === id ? session.title : '';
  }

  /** Scrolls to a turn; false where it is not shown. */
  reveal(node: string): boolean {
    const shown = this.chat.all().some((item) => item.node === node);
    if (shown) {
      this.post({ type: 'reveal', node });
    }
    return shown;
  }

  get running(): boolean {
    return this.chat.running;
  }

  /** An empty page; the session is made with the first prompt. */
  startNew(workspace?: string): void {
    this.generation += 1;
    this.creating = undefined;
    this.workspaceForNew = workspace;
    this.held = [];
    this.chat.clear();
    this.refreshAsked();
    void this.context.workspaceState.update(LAST_SESSION, undefined);
    this.schedule();
  }

  /** Shows a session, at its head or at `node`. */
  async open(session: SessionRef, node?: string): Promise<void> {
    this.generation += 1;
    this.creating = undefined;
    await this.sync(session, node);
    await this.context.workspaceState.update(LAST_SESSION, session);
    if (node !== undefined) {
      this.wentBack.fire({ session, node, before: false });
    }
  }

  private async afterStart(): Promise<void> {
    const session = this.session ?? this.context.workspaceState.get<SessionRef>(LAST_SESSION);
    try {
      if (session !== undefined) {
        await this.sync(session);
      }
      await this.refreshModel();
    } catch (reason) {
      const error = asServerError(reason);
      if (error.kind === 'session_not_found') {
        this.startNew();
      } else {
        this.fail(error);
      }
    }
  }

  async refreshModel(): Promise<void> {
    const workspace = this.session?.workspace;
    const result = await this.connection.request(Methods.modelsList, workspace === undefined ? {} : { workspace });
    const current = result.models.find((model) => model.id === result.current);
    this.chat.setModel(result.current, current?.window ?? null);
    this.schedule();
  }

  private onEvent(params: EventParams): void {
    if (this.fetches > 0) {
      this.held.push(params);
      return;
    }
    this.advance(params);
  }

  private advance(params: EventParams): void {
    const applied = this.chat.apply(params);
    if (applied === 'ignored') {
      return;
    }
    if (params.event.kind === 'approval_resolved' && 'id' in params.event) {
      this.desk().drop(String(params.event.id));
    }
    this.schedule();
    if (applied === 'stale') {
      this.resync();
    }
  }

  private resync(): void {
    const session = this.session;
    if (session !== undefined) {
      this.sync(session).catch((reason: unknown) => this.fail(reason));
    }
  }

  /** Fetches the session and puts it in place of what is shown; one after the other. Events wait meanwhile. */
  private async sync(session: SessionRef, node?: string): Promise<void> {
    const generation = this.generation;
    const work = this.fetching.catch(() => undefined).then(() => this.fetch(session, node, generation));
    this.fetching = work;
    this.fetches += 1;
    try {
      await work;
    } finally {
      this.fetches -= 1;
      if (this.fetches === 0) {
        const held = this.held;
        this.held = [];
        for (const params of held) {
          this.onEvent(params); // one of them may ask to fetch again: the rest is then held once more
        }
      }
      this.schedule();
    }
  }

  private async fetch(session: SessionRef, node: string | undefined, generation: number): Promise<void> {
    if (generation !== this.generation) {
      return; // another session was opened meanwhile
    }
    const names = { sessionId: session.id, workspace: session.workspace };
    for (let attempt = 0; ; attempt += 1) {
      const view = await this.connection.request(Methods.resume, {
        ...names,
        limit: PAGE_TURNS,
        ...(node === undefined ? {} : { node }),
      });
      const moment = await this.connection.request(Methods.snapshot, { ...names, sinceSeq: view.seq });
      if (generation !== this.generation) {
        return;
      }
      const again = movedOn(view, moment) && attempt < 3;
      if (moment.gap && again) {
        continue; // what happened between the two answers is not known any more
      }
      this.chat.load(viewOf(view), momentOf(moment));
      if (again) {
        continue; // what the events told beside the turns (notices, usage) is kept
      }
      this.refreshAsked();
      return;
    }
  }

  refreshAsked(): void {
    const session = this.session;
    this.chat.setApprovals(session === undefined ? [] : this.desk().of(session.id, session.workspace));
    this.chat.setQuestions(session === undefined ? [] : this.questions().of(session.id, session.workspace));
    this.schedule();
  }

  // --- what the page asks for -------------------------------------------------------------------------------------------

  private async handle(message: PageMessage): Promise<void> {
    switch (message.type) {
      case 'ready':
        this.ready = true;
        this.chat.takeChanges();
        this.post({ type: 'reset', head: this.chat.head(), items: this.chat.all() });
        this.deliverPrefill();
        return;
      case 'submit':
        return this.prompts.send(message.text, message.mode);
      case 'stop':
        return this.abort();
      case 'retry':
        return this.prompts.retry();
      case 'earlier':
        return this.earlier();
      case 'fork':
        return this.fork(message.node, message.before);
      case 'approve':
        this.desk().answer(message.approvalId, message.decision);
        return;
      case 'answer':
        this.questions().answer(message.questionId, message.answer);
        return;
      case 'showAction':
        return this.showAction(message.approvalId);
      case 'detach':
        this.prompts.detach(message.id);
        return;
      case 'command':
        await vscode.commands.executeCommand(message.command);
        return;
      case 'copy':
        await vscode.env.clipboard.writeText(message.text);
        return;
      case 'insert':
        return insertIntoEditor(message.text);
      case 'remember':
        await vscode.commands.executeCommand('indusagi.rememberText', message.text, message.node ?? undefined);
        return;
      case 'image':
        this.prompts.attach({
          id: randomUUID(),
          label: message.name === '' ? vscode.l10n.t('picture') : message.name,
          image: { mediaType: message.mediaType, dataBase64: message.dataBase64 },
        });
        return;
      case 'complete': {
        const workspace = this.session?.workspace ?? this.workspaceForNew ?? defaultWorkspace();
        const found = await this.completions.find(message.kind, message.query, workspace);
        this.post({ type: 'suggestions', request: message.request, ...found });
        return;
      }
      case 'pick': {
        const chosen = this.completions.chosen(message.id);
        if (chosen !== undefined) {
          this.prompts.attach(chosen);
        }
        return;
      }
      case 'apply':
        return this.diffs.offer(message.text);
      case 'diff':
        return this.showDiff(message.callId);
      case 'openLink':
        if (isSafeLink(message.href)) {
          await vscode.env.openExternal(vscode.Uri.parse(message.href, true));
        }
        return;
      case 'problem':
        this.log.warn(`Chat page: ${message.text}`);
        return;
    }
  }

  attach(attachment: Attachment): void {
    this.prompts.attach(attachment);
  }

  private async createSession(): Promise<SessionRef> {
    const generation = this.generation;
    const workspace = this.workspaceForNew ?? defaultWorkspace();
    let info: SessionInfo;
    try {
      info = await this.connection.request(Methods.sessionNew, workspace === undefined ? {} : { workspace });
    } finally {
      if (generation === this.generation) {
        this.creating = undefined;
      }
    }
    const session = { id: info.id, workspace: info.workspace };
    if (generation !== this.generation) {
      return session; // another session is shown by now: the prompt goes where it was said, the view stays
    }
    const queued = this.chat.head().queued;
    this.generation += 1;
    this.chat.load(emptyView(info), EMPTY_MOMENT);
    for (const entry of queued) {
      this.chat.submitted(entry.runId, entry.text, entry.mode, entry.images);
    }
    await this.context.workspaceState.update(LAST_SESSION, session);
    return session;
  }

  abort(): Promise<void> {
    return this.prompts.stop();
  }

  /** Goes on from an earlier turn: after it, or before it with its prompt to edit. */
  async fork(node: string, before: boolean, session = this.session): Promise<void> {
    if (session === undefined) {
      return;
    }
    const result = await this.connection.request(Methods.fork, {
      sessionId: session.id,
      workspace: session.workspace,
      node,
      before,
    });
    await this.open({ id: result.sessionId, workspace: session.workspace });
    if (result.prefill === null) {
      await this.focus();
    } else {
      await this.fill(result.prefill, before);
    }
    this.wentBack.fire({ session: { id: result.sessionId, workspace: session.workspace }, node, before });
  }

  private async earlier(): Promise<void> {
    const session = this.session;
    const before = this.chat.earlierCursor;
    if (session === undefined || before === null) {
      return;
    }
    const generation = this.generation;
    const view = await this.connection.request(Methods.resume, {
      sessionId: session.id,
      workspace: session.workspace,
      limit: PAGE_TURNS,
      before,
    });
    if (generation === this.generation && this.chat.earlierCursor === before) {
      this.chat.prepend(view.turns, view.before);
      this.schedule();
    }
  }

  private async showAction(approvalId: string): Promise<void> {
    const question = this.desk().find(approvalId);
    if (question !== undefined) {
      const document = await vscode.workspace.openTextDocument({ content: question.action });
      await vscode.window.showTextDocument(document, { preview: true });
    }
  }

  /** Shows what a tool call changes, or has changed, in the editor's diff editor. */
  private async showDiff(callId: string): Promise<void> {
    const workspace = this.session?.workspace;
    const call = this.chat.all().find((item) => item.kind === 'tool' && item.callId === callId);
    if (workspace === undefined || call?.kind !== 'tool') {
      return;
    }
    const files = parseDiff(this.desk().actionOf(callId) ?? '');
    for (const file of files) {
      await this.diffs.show(
        sidesOf(file, await contentOf(workspace, file.newPath ?? file.oldPath ?? '')),
        files.length === 1,
      );
    }
    if (files.length === 0) {
      const input: unknown = JSON.parse(call.input);
      const path = isRecord(input) && isString(input['path']) ? input['path'] : '';
      const sides = sidesOfEdits(input, path === '' ? null : await contentOf(workspace, path));
      if (sides !== null) {
        await this.diffs.show(sides, true);
      }
    }
  }

  fail(reason: unknown): void {
    const error = reason instanceof ServerError ? reason : asServerError(reason);
    this.log.error(`${error.kind}: ${error.full}`);
    if (error.kind !== 'interrupted') {
      this.chat.say('error', error.message, error.hint);
      this.schedule();
    }
  }

  dispose(): void {
    clearTimeout(this.timer);
    for (const subscription of this.subscriptions) {
      subscription.dispose();
    }
  }
}

/** The folder of the file that is being edited, else the first one. */
export function defaultWorkspace(): string | undefined {
  const document = vscode.window.activeTextEditor?.document;
  const folder = document === undefined ? undefined : vscode.workspace.getWorkspaceFolder(document.uri);
  return (folder ?? vscode.workspace.workspaceFolders?.[0])?.uri.toString();
}

async function insertIntoEditor(text: string): Promise<void> {
  const editor = openEditor();
  if (editor === undefined) {
    await vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ content: text }));
    return;
  }
  await editor.edit((edit) => edit.replace(editor.selection, text));
}
