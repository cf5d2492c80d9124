// The Sessions view: folders (when there are several), sessions, and under each the ends of its branches.
import * as vscode from 'vscode';
import type { SessionInfo, TreeResult } from '../protocol';
import { Methods } from '../protocol';
import { branchesOf, type Branch } from '../shared/branches';
import { ago, cost, oneLine, tokens, unmask } from '../shared/format';
import type { Connection } from './connection';

/** Sessions that are shown at once; the search finds the others. */
const LIMIT = 200;

export type Entry =
  | { kind: 'folder'; uri: string; name: string }
  | { kind: 'session'; info: SessionInfo }
  | { kind: 'branch'; info: SessionInfo; branch: Branch };

export class SessionTree implements vscode.TreeDataProvider<Entry>, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<Entry | undefined>();
  private timer: NodeJS.Timeout | undefined;
  readonly onDidChangeTreeData = this.changed.event;

  /** What the titles must hold; empty for all. */
  query = '';
  /** The session that the chat shows. */
  current: string | undefined;

  constructor(private readonly connection: Connection) {}

  /** Draws the tree anew, at most a few times a second. */
  refresh(): void {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      this.changed.fire(undefined);
    }, 200);
  }

  async getChildren(entry?: Entry): Promise<Entry[]> {
    if (this.connection.state !== 'running') {
      return [];
    }
    if (entry === undefined) {
      const folders = vscode.workspace.workspaceFolders ?? [];
      if (folders.length > 1) {
        return folders.map((folder) => ({ kind: 'folder', uri: folder.uri.toString(), name: folder.name }));
      }
      return this.sessions(folders[0]?.uri.toString());
    }
    if (entry.kind === 'folder') {
      return this.sessions(entry.uri);
    }
    if (entry.kind === 'session') {
      const tree: TreeResult = await this.connection.request(Methods.sessionTree, {
        sessionId: entry.info.id,
        workspace: entry.info.workspace,
      });
      return branchesOf(tree).map((branch) => ({ kind: 'branch', info: entry.info, branch }));
    }
    return [];
  }

  private async sessions(workspace: string | undefined): Promise<Entry[]> {
    const { sessions } = await this.connection.request(Methods.sessionList, {
      limit: LIMIT,
      ...(workspace === undefined ? {} : { workspace }),
      ...(this.query === '' ? {} : { query: this.query }),
    });
    return sessions.map((info) => ({ kind: 'session', info }));
  }

  getTreeItem(entry: Entry): vscode.TreeItem {
    switch (entry.kind) {
      case 'folder': {
        const item = new vscode.TreeItem(entry.name, vscode.TreeItemCollapsibleState.Expanded);
        item.iconPath = vscode.ThemeIcon.Folder;
        item.id = `folder:${entry.uri}`;
        return item;
      }
      case 'session':
        return this.sessionItem(entry);
      case 'branch':
        return branchItem(entry);
    }
  }

  private sessionItem(entry: Extract<Entry, { kind: 'session' }>): vscode.TreeItem {
    const { info } = entry;
    const item = new vscode.TreeItem(titleOf(info), vscode.TreeItemCollapsibleState.Collapsed);
    item.id = `session:${info.workspace}:${info.id}`;
    item.contextValue = info.state === 'foreign' ? 'session.foreign' : 'session';
    item.iconPath = new vscode.ThemeIcon(ICONS[info.state]);
    const state = STATES[info.state]();
    const parts = [
      ago(info.updatedAt, Date.now()),
      vscode.l10n.t('{0} turns', info.turns),
      ...(state === '' ? [] : [state]),
      ...(info.id === this.current ? [vscode.l10n.t('open')] : []),
    ];
    item.description = parts.join(' · ');
    item.tooltip = [
      titleOf(info),
      new Date(info.updatedAt).toLocaleString(),
      [vscode.l10n.t('{0} tokens', tokens(info.tokens)), cost(info.cost)].filter((part) => part !== '').join(' · '),
      info.id,
    ].join('\n');
    item.command = { command: 'indusagi.resume', title: vscode.l10n.t('Resume'), arguments: [entry] };
    return item;
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.changed.dispose();
  }
}

function branchItem(entry: Extract<Entry, { kind: 'branch' }>): vscode.TreeItem {
  const { info, branch } = entry;
  const label = branch.label ?? (oneLine(unmask(branch.preview), 80) || vscode.l10n.t('(no text)'));
  const item = new vscode.TreeItem(label, vscode.TreeItemCollapsibleState.None);
  item.id = `branch:${info.workspace}:${info.id}:${branch.leaf}`;
  item.contextValue = 'branch';
  item.iconPath = new vscode.ThemeIcon(branch.head ? 'git-commit' : branch.condensed ? 'fold' : 'git-branch');
  const parts = [vscode.l10n.t('{0} turns', branch.turns), ago(branch.at, Date.now())];
  if (branch.head) {
    parts.unshift(vscode.l10n.t('live'));
  }
  item.description = parts.join(' · ');
  item.command = { command: 'indusagi.resume', title: vscode.l10n.t('Resume here'), arguments: [entry] };
  return item;
}

export function titleOf(info: SessionInfo): string {
  return oneLine(unmask(info.title), 80) || vscode.l10n.t('New conversation');
}

const ICONS = {
  idle: 'comment-discussion',
  running: 'sync~spin',
  interrupted: 'debug-pause',
  foreign: 'shield',
} as const;

const STATES = {
  idle: () => '',
  running: () => vscode.l10n.t('running'),
  interrupted: () => vscode.l10n.t('interrupted'),
  foreign: () => vscode.l10n.t('written by somebody else'),
} as const;
