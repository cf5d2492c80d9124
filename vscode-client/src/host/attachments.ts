// What of the editor can go with a prompt: a file, the selection, the problems of a file.
import * as vscode from 'vscode';
import type { Range } from '../protocol';
import type { Attachment } from './prompts';

/** Problems that are sent at most: the first ones of a file say enough. */
const MOST_PROBLEMS = 50;

export function fileAttachment(uri: vscode.Uri): Attachment {
  const name = vscode.workspace.asRelativePath(uri);
  return { id: uri.toString(), label: name, item: { kind: 'file', uri: uri.toString() } };
}

/** The selection; without one, the open file. */
export function selectionAttachment(): Attachment | undefined {
  const editor = openEditor();
  if (editor === undefined) {
    return undefined;
  }
  const { document, selection } = editor;
  if (selection.isEmpty) {
    return fileAttachment(document.uri);
  }
  const lines = `${String(selection.start.line + 1)}-${String(selection.end.line + 1)}`;
  return {
    id: `${document.uri.toString()}#${lines}`,
    label: `${vscode.workspace.asRelativePath(document.uri)}:${lines}`,
    item: {
      kind: 'selection',
      uri: document.uri.toString(),
      range: plainRange(selection),
      text: document.getText(selection),
    },
  };
}

/** The problems that the editor shows in the open file. */
export function diagnosticsAttachment(): Attachment | undefined {
  const document = openEditor()?.document;
  const problems = document === undefined ? [] : vscode.languages.getDiagnostics(document.uri).slice(0, MOST_PROBLEMS);
  const [first] = problems;
  if (document === undefined || first === undefined) {
    return undefined;
  }
  const lines = problems.map(({ range, message, source }) => {
    return `${String(range.start.line + 1)}:${String(range.start.character + 1)} ${source ?? ''} ${message}`;
  });
  return {
    id: `${document.uri.toString()}#problems`,
    label: vscode.l10n.t('{0}: {1} problems', vscode.workspace.asRelativePath(document.uri), problems.length),
    item: {
      kind: 'diagnostic',
      uri: document.uri.toString(),
      range: plainRange(first.range),
      text: lines.join('\n'),
    },
  };
}

/** The editor that has the focus, else one that is in sight: typing in the panel takes the focus away from it. */
export function openEditor(): vscode.TextEditor | undefined {
  return vscode.window.activeTextEditor ?? vscode.window.visibleTextEditors[0];
}

function plainRange({ start, end }: vscode.Range): Range {
  return {
    start: { line: start.line, character: start.character },
    end: { line: end.line, character: end.character },
  };
}
