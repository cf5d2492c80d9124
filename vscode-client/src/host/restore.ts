// Files go back with the conversation: what would change is shown in the editor's own diff, done when the user says so.
import * as vscode from 'vscode';
import type { FileRestoreView, FilesRestoreParams, FilesRestoreResult } from '../protocol';
import { Methods } from '../protocol';
import { unmask } from '../shared/format';
import type { SessionRef } from './prompts';
import type { Connection } from './connection';
import { asServerError } from './wire';

export const SCHEME = 'indusagi-restore';

/** Where files are to go back to: a node, or the state before a restore. */
export type Goal = Pick<FilesRestoreParams, 'node' | 'before' | 'undo'>;

interface FileItem extends vscode.QuickPickItem {
  file: FileRestoreView;
}

export class Restores implements vscode.TextDocumentContentProvider {
  constructor(
    private readonly connection: Connection,
    private readonly log: vscode.LogOutputChannel,
  ) {}

  register(): vscode.Disposable {
    return vscode.workspace.registerTextDocumentContentProvider(SCHEME, this);
  }

  /** Tells that files could go back, if any could; nothing changes before the user has chosen. */
  async offer(session: SessionRef, goal: Goal): Promise<void> {
    try {
      const plan = await this.plan(session, goal);
      if (plan.files.length === 0) {
        return;
      }
      const choose = vscode.l10n.t('Choose…');
      const told = vscode.l10n.t(
        'The agent has changed {0} files since that turn. Bring them back?',
        plan.files.length,
      );
      if ((await vscode.window.showInformationMessage(told, choose)) === choose) {
        await this.choose(session, goal);
      }
    } catch (reason) {
      this.log.warn(`Restoring files could not be offered: ${asServerError(reason).full}`);
    }
  }

  /** Lets the user choose among the files, look at each, and carries it out. */
  async choose(session: SessionRef, goal: Goal): Promise<void> {
    const plan = await this.plan(session, goal);
    if (plan.files.length === 0) {
      void vscode.window.showInformationMessage(vscode.l10n.t('The files are as they were then.'));
      return;
    }
    const chosen = await this.pick(session, goal, plan.files);
    if (chosen === undefined) {
      return;
    }
    const choices = Object.fromEntries(
      plan.files.map(({ path }) => [path, chosen.has(path) ? ('restore' as const) : ('keep' as const)]),
    );
    await this.carryOut(session, { ...goal, token: plan.token, choices });
  }

  async provideTextDocumentContent(uri: vscode.Uri): Promise<string> {
    const query = new URLSearchParams(uri.query);
    const asked = query.get('session');
    if (asked === null) {
      return '';
    }
    const [node, undo] = [query.get('node'), query.get('undo')];
    const { text } = await this.connection.request(Methods.filesContent, {
      sessionId: asked,
      workspace: query.get('workspace'),
      path: query.get('path') ?? '',
      ...(node === null ? {} : { node, before: query.get('before') === 'true' }),
      ...(undo === null ? {} : { undo }),
    });
    return text ?? '';
  }

  private plan(session: SessionRef, goal: Goal): Promise<FilesRestoreResult> {
    return this.restore(session, { ...goal, preview: true });
  }

  private restore(session: SessionRef, wanted: Omit<FilesRestoreParams, 'sessionId'>): Promise<FilesRestoreResult> {
    return this.connection.request(Methods.filesRestore, {
      sessionId: session.id,
      workspace: session.workspace,
      ...wanted,
    });
  }

  private async carryOut(session: SessionRef, wanted: Omit<FilesRestoreParams, 'sessionId'>): Promise<void> {
    const done = await this.restore(session, wanted);
    if (done.restore === null) {
      void vscode.window.showInformationMessage(vscode.l10n.t('No file was changed.'));
      return;
    }
    const undo = vscode.l10n.t('Undo');
    const told = vscode.l10n.t('{0} files were brought back.', done.restored.length);
    if ((await vscode.window.showInformationMessage(told, undo)) === undo) {
      await this.choose(session, { undo: done.restore });
    }
  }

  private pick(
    session: SessionRef,
    goal: Goal,
    files: readonly FileRestoreView[],
  ): Promise<ReadonlySet<string> | undefined> {
    const look = { iconPath: new vscode.ThemeIcon('diff'), tooltip: vscode.l10n.t('Show the difference') };
    const actions = {
      restore: vscode.l10n.t('gets its old content'),
      remove: vscode.l10n.t('is removed'),
      recreate: vscode.l10n.t('is made again'),
    };
    const picker = vscode.window.createQuickPick<FileItem>();
    picker.title = vscode.l10n.t('Which files go back?');
    picker.placeholder = vscode.l10n.t('What somebody may have changed since is not chosen by itself.');
    picker.canSelectMany = true;
    picker.ignoreFocusOut = true; // a diff that is looked at must not close it
    picker.items = files.map((file) => ({
      label: unmask(file.path),
      description: actions[file.action],
      detail: file.problem === '' ? file.reason : vscode.l10n.t('Impossible: {0}', file.problem),
      buttons: [look],
      file,
    }));
    picker.selectedItems = picker.items.filter(({ file }) => file.conflicts.length === 0 && file.problem === '');
    return new Promise((resolve) => {
      picker.onDidTriggerItemButton(({ item }) => void this.show(session, goal, item.file));
      picker.onDidAccept(() => {
        resolve(new Set(picker.selectedItems.filter(({ file }) => file.problem === '').map(({ file }) => file.path)));
        picker.hide();
      });
      picker.onDidHide(() => {
        resolve(undefined); // where something was accepted, this comes too late to count
        picker.dispose();
      });
      picker.show();
    });
  }

  /** The editor's diff: on the left what is there, on the right what would be. */
  private async show(session: SessionRef, goal: Goal, file: FileRestoreView): Promise<void> {
    const there = vscode.Uri.joinPath(vscode.Uri.parse(session.workspace, true), file.path);
    const nothing = vscode.Uri.from({ scheme: SCHEME, path: there.path });
    const query = new URLSearchParams({
      session: session.id,
      workspace: session.workspace,
      path: file.path,
      ...(goal.undo == null ? { node: goal.node ?? '', before: String(goal.before === true) } : { undo: goal.undo }),
    });
    await vscode.commands.executeCommand(
      'vscode.diff',
      file.action === 'recreate' ? nothing : there,
      file.action === 'remove' ? nothing : nothing.with({ query: query.toString() }),
      vscode.l10n.t('{0}: now ↔ restored', unmask(file.path)),
      { preview: true, preserveFocus: true },
    );
  }
}
