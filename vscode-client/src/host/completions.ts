// What is offered while one types in the message box: files after `@`, what was remembered after `#`.
import * as vscode from 'vscode';
import { Methods } from '../protocol';
import { oneLine } from '../shared/format';
import type { Suggestion } from '../shared/messages';
import { diagnosticsAttachment, fileAttachment, selectionAttachment } from './attachments';
import type { Connection } from './connection';
import { filesLike } from './files';
import type { Attachment } from './prompts';

const MOST = 20;

export class Completions {
  /** What was offered last, by the id that the page names; nothing else can be chosen. */
  private readonly offered = new Map<string, () => Attachment | undefined>();

  constructor(private readonly connection: Connection) {}

  async find(
    kind: 'file' | 'memory',
    query: string,
    workspace: string | undefined,
  ): Promise<{ items: Suggestion[]; more: boolean }> {
    this.offered.clear();
    return kind === 'file' ? this.files(query) : { items: await this.memories(query, workspace), more: false };
  }

  /** What is attached when this suggestion is chosen; a memory goes into the text alone. */
  chosen(id: string): Attachment | undefined {
    return this.offered.get(id)?.();
  }

  private async files(query: string): Promise<{ items: Suggestion[]; more: boolean }> {
    const items: Suggestion[] = [];
    const special = [
      { name: 'selection', detail: vscode.l10n.t('The selection, or the open file'), make: selectionAttachment },
      { name: 'problems', detail: vscode.l10n.t('The problems of the open file'), make: diagnosticsAttachment },
    ];
    for (const { name, detail, make } of special) {
      if (name.startsWith(query.toLowerCase()) && make() !== undefined) {
        this.offered.set(name, make);
        items.push({ id: name, label: `@${name}`, detail, insert: `@${name}` });
      }
    }
    const { files, more } = await filesLike(query, MOST);
    for (const uri of files) {
      const path = vscode.workspace.asRelativePath(uri);
      this.offered.set(uri.toString(), () => fileAttachment(uri));
      items.push({
        id: uri.toString(),
        label: path.slice(path.lastIndexOf('/') + 1),
        detail: path,
        insert: `@${path}`,
      });
    }
    return { items, more };
  }

  private async memories(query: string, workspace: string | undefined): Promise<Suggestion[]> {
    const where = workspace === undefined ? {} : { workspace };
    const entries =
      query === ''
        ? (await this.connection.request(Methods.memoryList, { ...where, limit: MOST })).entries
        : (await this.connection.request(Methods.memoryRecall, { ...where, text: query, limit: MOST })).hits.map(
            (hit) => hit.entry,
          );
    return entries.map((entry) => ({
      id: `memory:${entry.id}`,
      label: oneLine(entry.content, 100),
      detail: [entry.scope, ...entry.tags].join(' · '),
      insert: entry.content,
    }));
  }
}
