import { expect, test, vi } from 'vitest';
import type * as editor from 'vscode';
import { chatPage } from '../src/host/webviewPage';
import { PAGE_TEXTS } from '../src/shared/pageTexts';

vi.mock('vscode', () => ({
  Uri: { joinPath: () => ({}) },
  l10n: { t: (text: string) => `<"${text}'&` },
  env: { language: 'de' },
}));

test('the page is given all its texts in the language of the editor, and they stay texts', () => {
  const webview = { asWebviewUri: () => 'x:y', cspSource: 'x:' } as unknown as editor.Webview;
  const page = chatPage(webview, {} as editor.Uri);
  expect(page).toContain('<html lang="de">');
  const attribute = /<body data-texts="([^"<>]*)">/u.exec(page)?.[1] ?? '';
  const json = attribute.replace(/&#(\d+);/gu, (_all, code: string) => String.fromCharCode(Number(code)));
  const translated = Object.entries(PAGE_TEXTS).map(([name, text]) => [name, `<"${text}'&`]);
  expect(JSON.parse(json)).toEqual(Object.fromEntries(translated));
});
