// The status bar item: what the server says of itself, or why it is not there.
import * as vscode from 'vscode';
import type { StatusParams } from '../shared/events';
import { oneLine, unmask } from '../shared/format';
import type { Connection } from './connection';

export class StatusItem {
  private readonly item = vscode.window.createStatusBarItem('indusagi.status', vscode.StatusBarAlignment.Left, 0);
  private readonly subscriptions: vscode.Disposable[];
  private last: StatusParams | undefined;

  constructor(
    private readonly connection: Connection,
    private readonly waiting: () => number,
  ) {
    this.item.name = 'Indusagi';
    this.item.command = 'indusagi.statusMenu';
    this.subscriptions = [
      this.item,
      connection.onState(() => {
        this.last = undefined;
        this.draw();
      }),
      connection.onStatus((status) => {
        this.last = status;
        this.draw();
      }),
    ];
    this.draw();
    this.item.show();
  }

  draw(): void {
    const state = this.connection.state;
    const status = this.last;
    let icon = 'comment-discussion';
    let background: string | undefined;
    let detail = status === undefined ? '' : unmask(status.message);
    if (this.waiting() > 0) {
      icon = 'question';
      background = 'statusBarItem.warningBackground';
      detail = vscode.l10n.t('waiting for your word');
    } else if (state === 'starting') {
      icon = 'sync~spin';
      detail = vscode.l10n.t('starting');
    } else if (state === 'failed' || state === 'stopped') {
      icon = 'error';
      background = state === 'failed' ? 'statusBarItem.errorBackground' : undefined;
      detail = this.connection.failure || vscode.l10n.t('not running');
    } else if (status?.busy === true) {
      icon = 'sync~spin';
    } else if (status?.kind === 'Error') {
      icon = 'error';
      background = 'statusBarItem.errorBackground';
    } else if (status?.kind === 'Warning') {
      icon = 'warning';
      background = 'statusBarItem.warningBackground';
    }
    this.item.text = `$(${icon}) Indusagi`;
    this.item.tooltip = detail === '' ? 'Indusagi' : `Indusagi: ${oneLine(detail, 300)}`;
    this.item.accessibilityInformation = { label: this.item.tooltip };
    this.item.backgroundColor = background === undefined ? undefined : new vscode.ThemeColor(background);
  }

  dispose(): void {
    for (const subscription of this.subscriptions) {
      subscription.dispose();
    }
  }
}
