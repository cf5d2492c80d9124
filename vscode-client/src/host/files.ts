// Finding files of the workspace by a part of their path.
import * as vscode from 'vscode';

const LEFT_OUT = '**/{node_modules,.git,.indusagi,.venv,__pycache__}/**';

/** A glob for paths that hold `query`, whatever the case of its letters; signs that a glob would read are any sign. */
export function globFor(query: string): string {
  const part = Array.from(query, (character) => {
    const [lower, upper] = [character.toLowerCase(), character.toUpperCase()];
    return lower !== upper ? `[${lower}${upper}]` : /[*?[\]{},!\\]/u.test(character) ? '?' : character;
  }).join('');
  return part === '' ? '**/*' : `{**/*${part}*,**/*${part}*/**}`;
}

/** The files whose path holds `query`, at most `limit` of them, those first that begin with it; `more`: there are others. */
export async function filesLike(query: string, limit: number): Promise<{ files: vscode.Uri[]; more: boolean }> {
  const found = await vscode.workspace.findFiles(globFor(query), LEFT_OUT, limit + 1);
  const wanted = query.toLowerCase();
  const rank = (uri: vscode.Uri): number => {
    const path = vscode.workspace.asRelativePath(uri).toLowerCase();
    const name = path.slice(path.lastIndexOf('/') + 1);
    return (name.startsWith(wanted) ? 0 : name.includes(wanted) ? 10_000 : 20_000) + path.length;
  };
  const files = found.sort((one, other) => rank(one) - rank(other)).slice(0, limit);
  return { files, more: found.length > limit };
}
