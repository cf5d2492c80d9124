// Restricted mode: the agent reads and answers, the settings of the workspace choose no program, and trust restarts.
import fs from 'node:fs';
import path from 'node:path';
import { check, realServer, scenario } from '../workbench.mjs';

await scenario(
  'restricted',
  {
    trusted: false,
    files: {
      'a.py': 'answer = 42\n',
      // A workspace that names a program of its own: it must not be started.
      '.vscode/settings.json': JSON.stringify({ 'indusagi.path': ['/bin/touch', '/tmp/indusagi-canary'] }),
    },
    make({ root }) {
      fs.rmSync('/tmp/indusagi-canary', { force: true });
      const script = path.join(root, 'script.json');
      fs.writeFileSync(script, JSON.stringify({ replies: [{ text: 'Read only.', repeat: true }], tools: true }));
      return realServer({
        env: { INDUSAGI_SCRIPTED_MODEL: script },
        settings: { 'security.workspace.trust.startupPrompt': 'never', 'security.workspace.trust.banner': 'never' },
      });
    },
  },
  async (window, { say }) => {
    const { page, chat } = window;
    await page.locator('.statusbar', { hasText: 'Restricted Mode' }).waitFor({ timeout: 30_000 });
    await window.openPanel();
    await window.prompt('What is here?');
    await window.answer('Read only.').waitFor({ timeout: 60_000 });
    await window.settled();
    await window.shot('restricted');
    check(!fs.existsSync('/tmp/indusagi-canary'), 'the workspace started a program');
    await window.command('Indusagi: Debug Information');
    await page.locator('.monaco-editor .view-line', { hasText: '"trusted"' }).first().waitFor({ timeout: 20_000 });
    const lines = (await page.locator('.monaco-editor .view-lines').innerText()).replaceAll('\u00a0', ' ');
    check(/"trusted": false/u.test(lines), 'the report does not say that the folder is not trusted');
    say('answers in restricted mode');
    check((await chat.locator('.item.assistant').count()) === 1, 'the answer went away');
  },
);
