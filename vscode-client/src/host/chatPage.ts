// The HTML of the chat page: a frame with two places, one script and one style sheet of our own, and nothing else.
import { randomBytes } from 'node:crypto';
import * as vscode from 'vscode';
import { PAGE_TEXTS, type PageText } from '../shared/pageTexts';

export function chatPage(webview: vscode.Webview, extensionUri: vscode.Uri): string {
  const nonce = randomBytes(18).toString('base64');
  const script = webview.asWebviewUri(vscode.Uri.joinPath(extensionUri, 'dist', 'chat.js')).toString();
  const style = webview.asWebviewUri(vscode.Uri.joinPath(extensionUri, 'media', 'chat.css')).toString();
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
<header id="head"></header>
<main><div id="log" tabindex="0" role="log" aria-live="off" aria-label="${attribute(texts().conversation)}"></div></main>
<footer id="foot"></footer>
<script nonce="${nonce}" src="${script}"></script>
</body>
</html>`;
}

/** The texts of the page in the language of the editor. */
function texts(): Record<PageText, string> {
  const entries = Object.entries(PAGE_TEXTS).map(([name, text]) => [name, vscode.l10n.t(text)]);
  return Object.fromEntries(entries) as Record<PageText, string>;
}

function attribute(text: string): string {
  return text.replace(/[&<>"']/gu, (character) => `&#${String(character.charCodeAt(0))};`);
}
