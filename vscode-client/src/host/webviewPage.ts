// The HTML of our pages: a body, one script and one style sheet of our own, and nothing else.
import { randomBytes } from 'node:crypto';
import * as vscode from 'vscode';
import { PAGE_TEXTS, type PageText } from '../shared/pageTexts';

/** The page `name`: its script is `dist/NAME.js`, its style `media/NAME.css`. `body` is HTML of ours. */
export function webviewPage(
  webview: vscode.Webview,
  extensionUri: vscode.Uri,
  name: 'chat' | 'graph',
  body: string,
): string {
  const nonce = randomBytes(18).toString('base64');
  const script = webview.asWebviewUri(vscode.Uri.joinPath(extensionUri, 'dist', `${name}.js`)).toString();
  const style = webview.asWebviewUri(vscode.Uri.joinPath(extensionUri, 'media', `${name}.css`)).toString();
  const policy = [
    "default-src 'none'",
    `script-src 'nonce-${nonce}'`,
    `style-src ${webview.cspSource}`,
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
  return `<!DOCTYPE html>
<html lang="${vscode.env.language}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Indusagi</title>
<link rel="stylesheet" href="${style}">
</head>
<body data-texts="${attribute(JSON.stringify(texts()))}">
${body}
<script nonce="${nonce}" src="${script}"></script>
</body>
</html>`;
}

/** The HTML of the chat page. */
export function chatPage(webview: vscode.Webview, extensionUri: vscode.Uri): string {
  const label = attribute(texts().conversation);
  const log = `<div id="log" tabindex="0" role="log" aria-live="off" aria-label="${label}"></div>`;
  const body = `<header id="head"></header><main>${log}</main><footer id="foot"></footer>`;
  return webviewPage(webview, extensionUri, 'chat', body);
}

/** The texts of the page in the language of the editor. */
function texts(): Record<PageText, string> {
  const entries = Object.entries(PAGE_TEXTS).map(([name, text]) => [name, vscode.l10n.t(text)]);
  return Object.fromEntries(entries) as Record<PageText, string>;
}

function attribute(text: string): string {
  return text.replace(/[&<>"']/gu, (character) => `&#${String(character.charCodeAt(0))};`);
}

/** Where a page may load from: our own bundles and styles, nothing else. */
export function resourceRoots(extensionUri: vscode.Uri): vscode.Uri[] {
  return ['dist', 'media'].map((folder) => vscode.Uri.joinPath(extensionUri, folder));
}
