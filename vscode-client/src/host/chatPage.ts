// The HTML of the chat page: a frame with two places, one script and one style sheet of our own, and nothing else.
import { randomBytes } from 'node:crypto';
import * as vscode from 'vscode';

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
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Indusagi</title>
<link rel="stylesheet" href="${style}">
</head>
<body>
<header id="head"></header>
<main><div id="log" tabindex="0" role="log" aria-live="off" aria-label="Conversation"></div></main>
<footer id="foot"></footer>
<script nonce="${nonce}" src="${script}"></script>
</body>
</html>`;
}
