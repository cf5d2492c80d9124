// Differences, shown in the editor's own diff editor: what a tool changes or has changed, and code of an answer that
// is about to be applied.
import * as vscode from 'vscode';
import type { Sides } from '../shared/diffs';
import { openEditor } from './attachments';

const SCHEME = 'indusagi-diff';
const MOST_KEPT = 200;

export class DiffView implements vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly texts = new Map<string, string>();
  private counter = 0;
  private readonly registered = vscode.workspace.registerTextDocumentContentProvider(SCHEME, this);

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.texts.get(uri.toString()) ?? '';
  }

  /** Shows two texts beside each other; both are read-only. `preview`: the next one takes its tab. */
  async show(sides: Sides, preview: boolean): Promise<void> {
    const title = sides.whole ? sides.path : vscode.l10n.t('{0} (the changed parts)', sides.path);
    await vscode.commands.executeCommand(
      'vscode.diff',
      this.document(sides.path, sides.before),
      this.document(sides.path, sides.after),
      title,
      { preview },
    );
  }

  /** Shows a text beside a document that could take it; it takes it when the user says so. */
  async offer(code: string): Promise<void> {
    const editor = openEditor();
    if (editor === undefined) {
      await vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ content: code }));
      return;
    }
    const { document, selection } = editor;
    const range = selection.isEmpty
      ? new vscode.Range(0, 0, document.lineCount, 0) // all of it
      : new vscode.Range(selection.start, selection.end);
    const place = document.validateRange(range);
    const text = document.getText();
    const [start, end] = [document.offsetAt(place.start), document.offsetAt(place.end)];
    const after = text.slice(0, start) + code + text.slice(end);
    const version = document.version;
    const name = vscode.workspace.asRelativePath(document.uri);
    const proposed = this.document(name, after);
    await vscode.commands.executeCommand('vscode.diff', document.uri, proposed, vscode.l10n.t('{0}: proposed', name), {
      preview: true,
    });
    const apply = vscode.l10n.t('Apply');
    const choice = await vscode.window.showInformationMessage(
      selection.isEmpty
        ? vscode.l10n.t('Put this in place of all of {0}?', name)
        : vscode.l10n.t('Put this in place of the selection in {0}?', name),
      apply,
      vscode.l10n.t('Discard'),
    );
    if (choice === undefined) {
      return; // the diff stays open to be read
    }
    if (choice === apply) {
      if (document.version !== version) {
        void vscode.window.showWarningMessage(vscode.l10n.t('{0} has changed meanwhile: nothing was applied.', name));
        return;
      }
      const edit = new vscode.WorkspaceEdit();
      edit.replace(document.uri, place, code);
      await vscode.workspace.applyEdit(edit);
    }
    await close(proposed);
  }

  private document(path: string, text: string): vscode.Uri {
    this.counter += 1;
    // The name stays at the end of the path, so that the editor knows the language.
    const uri = vscode.Uri.from({ scheme: SCHEME, path: `/${String(this.counter)}/${path}` });
    this.texts.set(uri.toString(), text);
    const [oldest] = this.texts.keys();
    if (this.texts.size > MOST_KEPT && oldest !== undefined) {
      this.texts.delete(oldest);
    }
    return uri;
  }

  dispose(): void {
    this.registered.dispose();
  }
}

async function close(modified: vscode.Uri): Promise<void> {
  const tabs = vscode.window.tabGroups.all
    .flatMap((group) => group.tabs)
    .filter(
      ({ input }) => input instanceof vscode.TabInputTextDiff && input.modified.toString() === modified.toString(),
    );
  await vscode.window.tabGroups.close(tabs);
}

/** What a file of the workspace holds now, unsaved text first; null where there is none. */
export async function contentOf(workspace: string, path: string): Promise<string | null> {
  const root = vscode.Uri.parse(workspace, true);
  const uri = vscode.Uri.joinPath(root, path);
  if (!uri.path.startsWith(`${root.path.replace(/\/$/u, '')}/`)) {
    return null; // a path out of the folder is the server's to judge, not ours to open
  }
  try {
    return (await vscode.workspace.openTextDocument(uri)).getText();
  } catch {
    return null;
  }
}
