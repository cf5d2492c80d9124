// The Memory view: what is remembered, by scope; while one searches, the hits with their scores, the best first.
import * as vscode from 'vscode';
import type { MemoryEntryView } from '../protocol';
import { Methods } from '../protocol';
import { ago, oneLine, unmask } from '../shared/format';
import { defaultWorkspace } from './chatView';
import type { Connection } from './connection';

/** Entries of one scope that are shown at once; the search finds the others. */
const MOST = 500;
const MOST_HITS = 50;

export type Scope = MemoryEntryView['scope'];
export type MemoryRow =
  | { kind: 'workspace'; uri: string; name: string }
  | { kind: 'scope'; scope: Scope; workspace: string | undefined; entries: MemoryEntryView[] }
  | { kind: 'entry'; entry: MemoryEntryView; workspace: string | undefined; score: number | null };

export const SCOPES = {
  agent: () => vscode.l10n.t('This agent'),
  shared: () => vscode.l10n.t('This folder'),
  global: () => vscode.l10n.t('Everywhere'),
} as const;

export class MemoryTree implements vscode.TreeDataProvider<MemoryRow>, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<undefined>();
  private timer: NodeJS.Timeout | undefined;
  readonly onDidChangeTreeData = this.changed.event;

  /** What is searched for; empty shows all. */
  query = '';

  constructor(private readonly connection: Connection) {}

  /** Draws the tree anew, at most a few times a second. */
  refresh(): void {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      this.changed.fire(undefined);
    }, 200);
  }

  async getChildren(row?: MemoryRow): Promise<MemoryRow[]> {
    if (this.connection.state !== 'running' || row?.kind === 'entry') {
      return [];
    }
    if (row?.kind === 'scope') {
      return row.entries.map((entry) => ({ kind: 'entry', entry, workspace: row.workspace, score: null }));
    }
    const folders = vscode.workspace.workspaceFolders ?? [];
    if (row === undefined && folders.length > 1) {
      return folders.map((folder) => ({ kind: 'workspace', uri: folder.uri.toString(), name: folder.name }));
    }
    const workspace = row?.uri ?? defaultWorkspace();
    const where = workspace === undefined ? {} : { workspace };
    if (this.query !== '') {
      const { hits } = await this.connection.request(Methods.memoryRecall, {
        ...where,
        text: this.query,
        limit: MOST_HITS,
      });
      return hits.map(({ entry, score }) => ({ kind: 'entry', entry, workspace, score }));
    }
    const { entries } = await this.connection.request(Methods.memoryList, { ...where, limit: MOST });
    return (Object.keys(SCOPES) as Scope[])
      .map((scope) => ({
        kind: 'scope' as const,
        scope,
        workspace,
        entries: entries.filter((entry) => entry.scope === scope),
      }))
      .filter((group) => group.entries.length > 0);
  }

  getTreeItem(row: MemoryRow): vscode.TreeItem {
    switch (row.kind) {
      case 'workspace': {
        const item = new vscode.TreeItem(row.name, vscode.TreeItemCollapsibleState.Expanded);
        item.iconPath = vscode.ThemeIcon.Folder;
        item.id = `memory:${row.uri}`;
        return item;
      }
      case 'scope': {
        const item = new vscode.TreeItem(SCOPES[row.scope](), vscode.TreeItemCollapsibleState.Expanded);
        item.id = `memory:${row.workspace ?? ''}:${row.scope}`;
        item.description = String(row.entries.length);
        return item;
      }
      case 'entry':
        return entryItem(row);
    }
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.changed.dispose();
  }
}

function entryItem(row: Extract<MemoryRow, { kind: 'entry' }>): vscode.TreeItem {
  const { entry, score, workspace } = row;
  const item = new vscode.TreeItem(oneLine(unmask(entry.content), 100) || '…');
  item.id = `memory:${workspace ?? ''}:${entry.id}`;
  item.contextValue = entry.source === null ? 'memory' : 'memory.source';
  item.iconPath = new vscode.ThemeIcon('note');
  item.description = [
    ...(score === null ? [] : [score.toFixed(2), SCOPES[entry.scope]()]),
    ...entry.tags.map(unmask),
    ago(entry.updatedAt, Date.now()),
  ].join(' · ');
  item.tooltip = unmask(entry.content).slice(0, 4000);
  item.command = { command: 'indusagi.editMemory', title: vscode.l10n.t('Edit'), arguments: [row] };
  return item;
}
