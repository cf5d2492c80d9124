// What the panel offers beyond the conversation, with the real server: suggestions while one types, a pasted picture, an
// edit with its diff, the graph (with axe), two branches compared, the memory view, the walkthrough; with INDUSAGI_LONG=1 a
// second window on the same session.
import fs from 'node:fs';
import path from 'node:path';
import { check, driver, realServer, scenario } from '../workbench.mjs';

const SCRIPT = {
  replies: [
    { match: 'change it', calls: [{ name: 'edit_file', input: { path: 'a.py', edits: [{ old_text: '42', new_text: '43' }] } }] },
    { match: 'say One', text: 'First way.\n\n```python\nanswer = 44\n```\n', repeat: true },
    { match: 'say Two', text: 'Second way.', repeat: true },
    { text: 'So be it.', repeat: true },
  ],
  tools: true,
  window: 200_000,
};
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
await scenario(
  'features',
  {
    files: { 'a.py': 'answer = 42\nprint(answer)\n', 'docs/[odd] Name.md': '# Odd\n' },
    make({ root }) {
      const script = path.join(root, 'script.json');
      fs.writeFileSync(script, JSON.stringify(SCRIPT));
      return realServer({ env: { INDUSAGI_SCRIPTED_MODEL: script } });
    },
  },
  async (window, { say, workspace, newWindow }) => {
    const { page, chat } = window;
    await window.openPanel();
    await chat.locator('button.primary:not([disabled])').waitFor({ timeout: 60_000 });

    // A file by a part of its name, whatever its case; a picture from the clipboard.
    await window.message.fill('say One about @ODD');
    await chat.getByRole('option', { name: /odd/iu }).waitFor({ timeout: 20_000 });
    await window.shot('suggestions');
    await window.message.press('Enter');
    check((await window.message.inputValue()) === 'say One about @docs/[odd] Name.md ', 'the file is not in the text');
    await window.message.evaluate((input, data) => {
      const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
      const transfer = new DataTransfer();
      transfer.items.add(new File([bytes], 'shot.png', { type: 'image/png' }));
      input.dispatchEvent(new ClipboardEvent('paste', { clipboardData: transfer, bubbles: true, cancelable: true }));
    }, PIXEL);
    await chat.locator('.chip', { hasText: 'shot.png' }).waitFor({ timeout: 10_000 });
    await chat.locator('.chip', { hasText: 'Name.md' }).waitFor();
    await window.shot('attachments');
    await window.message.press('Enter');
    await window.answer('First way.').waitFor({ timeout: 30_000 });
    await window.settled();
    check((await chat.locator('.item.user .images').count()) === 1, 'the picture is not shown with the prompt');
    say('a file and a picture went with a prompt');

    // An edit: the card shows what would change, the diff editor shows it in the file; allowed, it is made.
    await window.prompt('change it');
    const card = chat.locator('.approval');
    await card.waitFor({ timeout: 30_000 });
    await card.getByRole('button', { name: 'Show diff' }).click();
    const diff = page.locator('.diff-editor, .monaco-diff-editor').first();
    await diff.locator('.view-line', { hasText: 'answer = 43' }).waitFor({ timeout: 20_000 });
    await diff.locator('.view-line', { hasText: 'answer = 42' }).first().waitFor();
    await window.shot('edit-diff');
    await card.getByRole('button', { name: 'Allow once' }).click();
    await window.answer('So be it.').waitFor({ timeout: 20_000 });
    await window.settled();
    check(fs.readFileSync(path.join(workspace, 'a.py'), 'utf8').startsWith('answer = 43'), 'the edit was not made');
    say('an edit was shown in the diff editor, and made');

    // An unsent draft is put aside while an earlier prompt is edited, and comes back.
    await window.message.fill('my unsent draft');
    const first = chat.locator('.item.user', { hasText: 'say One' }).first();
    await first.hover();
    await first.getByRole('button', { name: 'Edit and fork' }).click();
    await chat.locator('.aside', { hasText: 'my unsent draft' }).waitFor({ timeout: 20_000 });
    await window.prompt('say Two');
    await window.answer('Second way.').waitFor({ timeout: 20_000 });
    await window.settled();
    check((await window.message.inputValue()) === 'my unsent draft', 'the draft did not come back');
    await window.message.fill('');
    say('an unsent draft was kept');

    // The graph: two branches; a click resumes; it zooms; two branches are compared side by side.
    await window.message.fill('/graph');
    await window.message.press('Enter');
    const drawn = await frameWith(page, '#canvas svg');
    check((await drawn.locator('g.node').count()) >= 6, 'the graph lacks turns');
    check((await drawn.locator('g.node.leaf').count()) === 2, 'the graph does not show two ends');
    const width = () => drawn.locator('#canvas svg').evaluate((picture) => picture.getBoundingClientRect().width);
    const before = await width();
    await drawn.getByRole('button', { name: 'Zoom in' }).click();
    check((await width()) > before * 1.2, 'the graph does not zoom');
    await window.shot('graph');
    await axe(drawn, 'graph');
    await drawn.locator('g.node.leaf:not(.head)').click();
    await window.row('Compare with the live branch').click({ timeout: 10_000 });
    // Where they first differ: an editor draws only the lines that are in view.
    await page.locator('.monaco-diff-editor .view-line', { hasText: 'say Two' }).first().waitFor({ timeout: 20_000 });
    await window.shot('compare');
    await page.locator('.tab', { hasText: 'Session graph' }).click();
    await (await frameWith(page, '#canvas svg')).locator('g.node.leaf:not(.head)').press('Enter');
    await window.row('Resume here').click({ timeout: 10_000 });
    await window.answer('First way.').waitFor({ timeout: 20_000 });
    say('the graph was drawn, zoomed, and acted on');

    // A second window on the same session: what is said here is seen there.
    if (process.env.INDUSAGI_LONG === '1') {
      const other = await newWindow();
      await other.openPanel();
      await other.chat.locator('button.primary:not([disabled])').waitFor({ timeout: 60_000 });
      await other.command('Indusagi: Resume…');
      await other.row('say One').click({ timeout: 20_000 });
      await other.answer('So be it.').waitFor({ timeout: 30_000 });
      await window.prompt('say Two once more');
      await window.answer('Second way.').waitFor({ timeout: 20_000 });
      await other.answer('Second way.').waitFor({ timeout: 30_000 });
      await other.shot('second-window');
      await other.page.goto('about:blank');
      await other.page.close();
      say('two windows showed one session');
    }

    // Memory: added, found with its score, forgotten, and taken back.
    await page.locator('.pane-header[aria-label^="Memory"]').click();
    await window.command('Indusagi: Remember a Text…');
    await window.quickInput.fill('The release is cut on Fridays.');
    await page.keyboard.press('Enter');
    await window.row('This folder').click({ timeout: 10_000 });
    const entry = window.treeItem('The release is cut on Fridays.');
    await entry.waitFor({ timeout: 20_000 });
    await window.shot('memory');
    await entry.hover();
    await entry.getByRole('button', { name: 'Forget' }).click();
    await entry.waitFor({ state: 'detached', timeout: 20_000 });
    await window.toast('Forgotten').getByRole('button', { name: 'Undo' }).click();
    await entry.waitFor({ timeout: 20_000 });
    say('remembered, forgotten, and taken back');

    await window.command('Indusagi: Open Walkthrough');
    await page.locator('.getting-started-step', { hasText: 'Give it a model' }).first().waitFor({ timeout: 20_000 });
    await window.shot('walkthrough');
    say('the walkthrough opens');
  },
);

/** The frame of a page of ours, by what is in it. */
async function frameWith(page, selector) {
  for (let tries = 0; ; tries += 1) {
    for (const frame of page.frames()) {
      if ((await frame.locator(selector).count().catch(() => 0)) > 0) {
        return frame;
      }
    }
    check(tries < 200, `no page shows ${selector}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function axe(frame, name) {
  await frame.evaluate(fs.readFileSync(driver().axe, 'utf8'));
  const { violations } = await frame.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  const told = violations.map((entry) => `${entry.id}: ${entry.nodes.map((node) => node.html).join(' ')}`);
  check(violations.length === 0, `axe (${name}): ${told.join('\n')}`);
}
