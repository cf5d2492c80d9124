// The problems that the editor shows, for the agent.
import * as vscode from 'vscode';
import type { DiagnosticsResult, FileDiagnostics } from '../protocol';
import type { DiagnosticsParams } from '../shared/events';

/** More problems than this nobody reads, an agent neither. */
const MOST = 1000;

/** Those of one file, or of all files below the folder, the most severe of each file first. */
export function shownProblems({ workspace, uri }: DiagnosticsParams): DiagnosticsResult {
  const folder = vscode.Uri.parse(workspace, true).path.replace(/\/*$/u, '/');
  const wanted = uri == null ? undefined : vscode.Uri.parse(uri, true);
  const all: readonly (readonly [vscode.Uri, readonly vscode.Diagnostic[]])[] =
    wanted === undefined ? vscode.languages.getDiagnostics() : [[wanted, vscode.languages.getDiagnostics(wanted)]];
  const files: FileDiagnostics[] = [];
  let room = MOST;
  for (const [file, problems] of all) {
    if (room > 0 && problems.length > 0 && file.scheme === 'file' && file.path.startsWith(folder)) {
      const shown = [...problems].sort((one, other) => one.severity - other.severity).slice(0, room);
      room -= shown.length;
      files.push({ uri: file.toString(), diagnostics: shown.map(wire) });
    }
  }
  return { files };
}

function wire(problem: vscode.Diagnostic): NonNullable<FileDiagnostics['diagnostics']>[number] {
  const { range, message, severity, source, code } = problem;
  const name = typeof code === 'object' ? code.value : code;
  return {
    range: {
      start: { line: range.start.line, character: range.start.character },
      end: { line: range.end.line, character: range.end.character },
    },
    message,
    severity: severity + 1, // the protocol counts from 1
    ...(source === undefined ? {} : { source }),
    ...(name === undefined ? {} : { code: name }),
  };
}
