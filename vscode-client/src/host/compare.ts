// Two branches of a session side by side: their texts in the editor's diff editor, and what each has done by itself.
import * as vscode from 'vscode';
import { Methods } from '../protocol';
import { branchesOf } from '../shared/branches';
import { ago, oneLine, tokens, unmask } from '../shared/format';
import type { Parts } from './commands';
import type { SessionRef } from './prompts';

/** Lets the user choose two branches and shows them; `left` is chosen already where a row of the tree was. */
export async function compare(parts: Parts, session: SessionRef | undefined, left?: string): Promise<void> {
  if (session === undefined) {
    return;
  }
  const names = { sessionId: session.id, workspace: session.workspace };
  const branches = branchesOf(await parts.connection.request(Methods.sessionTree, names));
  if (branches.length < 2) {
    void vscode.window.showInformationMessage(vscode.l10n.t('This session has only one branch.'));
    return;
  }
  const pick = async (placeHolder: string, without?: string): Promise<string | undefined> => {
    const rows = branches
      .filter((branch) => branch.leaf !== without)
      .map((branch) => ({
        label: branch.label ?? (oneLine(unmask(branch.preview), 80) || '…'),
        description: [
          ...(branch.head ? [vscode.l10n.t('live')] : []),
          vscode.l10n.t('{0} turns', branch.turns),
          ago(branch.at, Date.now()),
        ].join(' · '),
        leaf: branch.leaf,
      }));
    return rows.length === 1 ? rows[0]?.leaf : (await vscode.window.showQuickPick(rows, { placeHolder }))?.leaf;
  };
  const first = left ?? (await pick(vscode.l10n.t('Compare which branch…')));
  const second = first === undefined ? undefined : await pick(vscode.l10n.t('…with which?'), first);
  if (first !== undefined && second !== undefined) {
    await compareBranches(parts, session, first, second);
  }
}

export async function compareBranches(parts: Parts, session: SessionRef, left: string, right: string): Promise<void> {
  const names = { sessionId: session.id, workspace: session.workspace };
  const text = async (leaf: string): Promise<string> =>
    (await parts.connection.request(Methods.sessionExport, { ...names, leaf, format: 'markdown', compared: true }))
      .text;
  const [before, after, told] = await Promise.all([
    text(left),
    text(right),
    parts.connection.request(Methods.sessionCompare, { ...names, left, right }),
  ]);
  await parts.chat.diffs.show({ path: vscode.l10n.t('branches.md'), before, after, whole: true }, false);
  const side = (name: string, { nodes, filesModified, usage }: (typeof told)['left']): string =>
    vscode.l10n.t(
      '{0}: {1} turns of its own, {2} files changed, {3} tokens',
      name,
      nodes.length,
      filesModified.length,
      tokens(usage.input + usage.output),
    );
  void vscode.window.showInformationMessage(
    [
      vscode.l10n.t('{0} turns in common.', told.shared),
      side(vscode.l10n.t('Left'), told.left),
      side(vscode.l10n.t('Right'), told.right),
    ].join(' · '),
  );
}
