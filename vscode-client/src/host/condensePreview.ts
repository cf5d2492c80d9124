// Condensing with a look first: the draft opens as a document that can be edited; above it stands what would happen,
// and the choice to apply it, to see what goes, or to let it be.
import * as vscode from 'vscode';
import type { CondensePreview } from '../protocol';
import { Methods } from '../protocol';
import { oneLine, tokens, unmask } from '../shared/format';
import { afterCondense, type Parts } from './commands';
import type { SessionRef } from './prompts';

interface Draft {
  session: SessionRef;
  preview: CondensePreview;
}

export class CondenseDrafts implements vscode.CodeLensProvider {
  private readonly drafts = new Map<string, Draft>();
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidChangeCodeLenses = this.changed.event;

  register(parts: Parts): vscode.Disposable[] {
    const run = (name: string, work: (uri: vscode.Uri) => Promise<void>): vscode.Disposable =>
      vscode.commands.registerCommand(name, async (uri?: vscode.Uri) => {
        const target = uri ?? vscode.window.activeTextEditor?.document.uri;
        try {
          if (target !== undefined) {
            await work(target);
          }
        } catch (reason) {
          parts.chat.fail(reason);
          void vscode.window.showErrorMessage(reason instanceof Error ? reason.message : String(reason));
        }
      });
    return [
      this.changed,
      vscode.languages.registerCodeLensProvider({ scheme: 'untitled', language: 'markdown' }, this),
      vscode.workspace.onDidCloseTextDocument((document) => this.drafts.delete(document.uri.toString())),
      run('indusagi.condenseApply', (uri) => this.apply(parts, uri)),
      run('indusagi.condenseCancel', (uri) => this.close(uri)),
      run('indusagi.condenseShow', (uri) => this.show(parts, uri)),
    ];
  }

  provideCodeLenses(document: vscode.TextDocument): vscode.CodeLens[] {
    const draft = this.drafts.get(document.uri.toString());
    if (draft === undefined) {
      return [];
    }
    const { dropped, kept, before, after } = draft.preview;
    const top = new vscode.Range(0, 0, 0, 0);
    const sizes = `${tokens(before)} → ${tokens(after)}`;
    const lens = (title: string, command: string): vscode.CodeLens =>
      new vscode.CodeLens(top, { title, command, arguments: [document.uri] });
    return [
      lens(vscode.l10n.t('Apply ({0} tokens)', sizes), 'indusagi.condenseApply'),
      lens(vscode.l10n.t('{0} turns go, {1} stay', dropped.length, kept.length), 'indusagi.condenseShow'),
      lens(vscode.l10n.t('Cancel'), 'indusagi.condenseCancel'),
    ];
  }

  async open(parts: Parts): Promise<void> {
    const session = parts.chat.session;
    if (session === undefined) {
      return;
    }
    const result = await vscode.window.withProgress(
      { location: vscode.ProgressLocation.Notification, title: vscode.l10n.t('Drafting'), cancellable: true },
      (_progress, token) =>
        parts.connection.request(
          Methods.condense,
          { sessionId: session.id, workspace: session.workspace, preview: true },
          token,
        ),
    );
    if (result.preview === null) {
      await afterCondense(parts, session, result);
      return;
    }
    const document = await vscode.workspace.openTextDocument({ language: 'markdown', content: result.preview.draft });
    this.drafts.set(document.uri.toString(), { session, preview: result.preview });
    this.changed.fire();
    await vscode.window.showTextDocument(document, { preview: false });
  }

  private async apply(parts: Parts, uri: vscode.Uri): Promise<void> {
    const draft = this.drafts.get(uri.toString());
    const document = vscode.workspace.textDocuments.find((entry) => entry.uri.toString() === uri.toString());
    if (draft === undefined || document === undefined) {
      return;
    }
    const result = await parts.connection.request(Methods.condense, {
      sessionId: draft.session.id,
      workspace: draft.session.workspace,
      token: draft.preview.token,
      text: document.getText(),
    });
    await this.close(uri);
    await afterCondense(parts, draft.session, result);
  }

  private async show(parts: Parts, uri: vscode.Uri): Promise<void> {
    const draft = this.drafts.get(uri.toString());
    if (draft === undefined) {
      return;
    }
    const { nodes } = await parts.connection.request(Methods.sessionTree, {
      sessionId: draft.session.id,
      workspace: draft.session.workspace,
    });
    const byId = new Map(nodes.map((node) => [node.id, node]));
    const rows = (title: string, ids: readonly string[]): vscode.QuickPickItem[] => [
      { label: title, kind: vscode.QuickPickItemKind.Separator },
      ...ids.map((id) => ({
        label: oneLine(unmask(byId.get(id)?.preview ?? ''), 100) || '…',
        description: `${byId.get(id)?.role ?? ''} · ${tokens(byId.get(id)?.tokens ?? 0)}`,
      })),
    ];
    await vscode.window.showQuickPick(
      [...rows(vscode.l10n.t('Goes'), draft.preview.dropped), ...rows(vscode.l10n.t('Stays'), draft.preview.kept)],
      { title: vscode.l10n.t('What condensing does'), matchOnDescription: true },
    );
  }

  private async close(uri: vscode.Uri): Promise<void> {
    this.drafts.delete(uri.toString());
    this.changed.fire();
    const document = vscode.workspace.textDocuments.find((entry) => entry.uri.toString() === uri.toString());
    if (document !== undefined) {
      await vscode.window.showTextDocument(document);
      await vscode.commands.executeCommand('workbench.action.revertAndCloseActiveEditor');
    }
  }
}
