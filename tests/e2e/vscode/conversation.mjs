// The conversation that every editor must be able to have, in the chat view: ask, see the answer stream in, find the
// session in the tree, fork, resume, condense and undo, remember a selection, recall it.
import { check, sleep } from './workbench.mjs';

/** Prompts and what the (scripted or fake) model says to them. */
export const SCRIPT = {
  replies: [
    { match: 'say The folder', text: 'The folder holds **one file**.', pace: 0.02, repeat: true },
    { match: 'say It prints', text: 'It prints `42`:\n\n```python\nprint(answer)\n```\n', repeat: true },
    { match: 'say Another', text: 'Another way to put it.', repeat: true },
    { match: 'say Long', text: `At length: ${'the same thing in other words. '.repeat(60)}`, chunk: 200, repeat: true },
    { text: 'Goal\n- Understand the folder.\nDone\n- Looked at the file.', repeat: true },
  ],
  tools: true,
  window: 200_000,
};

export async function converse(window, { say }) {
  const { page, chat } = window;
  await window.openPanel();
  say('panel is open');
  await window.prompt('say The folder holds **one file**.');
  await window.answer('The folder holds one file.').waitFor({ timeout: 30_000 });
  await window.settled();
  check((await chat.locator('.item.assistant strong').count()) === 1, 'the answer is not shown as Markdown');
  say('the streamed answer is shown');
  await window.prompt('say It prints `42`:\n\n```python\nprint(answer)\n```\n'.trim());
  await chat.locator('.item.assistant .code', { hasText: 'print(answer)' }).waitFor({ timeout: 20_000 });
  await window.settled();
  await window.shot('answers');

  await window.treeItem('say The folder').waitFor({ timeout: 20_000 });
  await window.shot('session-in-tree');
  say('the session is in the tree');

  // Fork before the second prompt: it is handed back, edited and sent.
  const second = chat.locator('.item.user', { hasText: 'say It prints' }).first();
  await second.hover();
  await second.getByRole('button', { name: 'Edit and fork' }).click({ timeout: 20_000 });
  await chat.locator('.item.user', { hasText: 'say It prints' }).waitFor({ state: 'detached', timeout: 20_000 });
  check((await window.message.inputValue()).startsWith('say It prints'), 'the forked prompt was not handed back');
  await window.prompt('say Another way to put it.');
  await window.answer('Another way to put it.').waitFor({ timeout: 20_000 });
  await window.settled();
  check((await window.answer('It prints').count()) === 0, 'the old branch is still shown after the fork');
  await window.shot('forked');
  say('forked before the second prompt');

  // Both ends are in the tree; a click on the older one resumes there.
  await window.treeItem('say The folder').locator('.monaco-tl-twistie').click();
  const branch = page.locator('.pane-body [role="treeitem"][aria-level="2"]');
  await branch.nth(1).waitFor({ timeout: 20_000 });
  check((await branch.count()) === 2, `expected two branches, saw ${await branch.count()}`);
  await window.shot('branches');
  await branch.nth(1).click();
  await window.answer('It prints').waitFor({ timeout: 20_000 });
  say('resumed at the other branch');

  await window.command('Indusagi: New Session');
  await chat.locator('.empty').waitFor({ timeout: 20_000 });
  await window.command('Indusagi: Resume…');
  await window.row('say The folder').click({ timeout: 20_000 });
  await window.answer('It prints').waitFor({ timeout: 20_000 });
  await window.shot('resumed');
  say('resumed from the list');

  for (const round of [1, 2, 3, 4, 5, 6, 7]) {
    await window.prompt(`say Long words. (${round}) ${'At length: and on and on it goes. '.repeat(20)}`);
    await window.answer('At length').nth(round - 1).waitFor({ timeout: 20_000 });
    await window.settled();
  }
  const before = await chat.locator('.item').count();
  await window.command('Indusagi: Condense');
  await chat.locator('.item.summary').waitFor({ timeout: 30_000 });
  check((await chat.locator('.item.user').count()) < before, 'nothing left the view');
  await window.shot('condensed');
  say('condensed');
  await window.command('Indusagi: Undo Condensation');
  await chat.locator('.item.summary').waitFor({ state: 'detached', timeout: 20_000 });
  await window.answer('The folder holds one file.').waitFor({ timeout: 20_000 });
  say('and undone');

  // Again, with a look first: the draft is edited, applied, and taken back.
  await window.command('Indusagi: Condense with Preview…');
  const apply = page.locator('.codelens-decoration a', { hasText: 'Apply (' });
  await apply.waitFor({ timeout: 30_000 });
  await page.locator('.monaco-editor .view-lines').first().click();
  await page.keyboard.press('Control+End');
  await page.keyboard.type(' edited by hand');
  // The line above the text is out of sight when the draft is longer than the window.
  await page.keyboard.press('Control+Home');
  await page.mouse.wheel(0, -20_000);
  await window.shot('condense-preview');
  await apply.click();
  const summary = chat.locator('.item.summary');
  await summary.waitFor({ timeout: 30_000 });
  check((await summary.innerText()) !== '', 'the summary is empty');
  await summary.locator('summary').click();
  await summary.getByText('edited by hand').waitFor({ timeout: 10_000 });
  await window.command('Indusagi: Undo Condensation');
  await summary.waitFor({ state: 'detached', timeout: 20_000 });
  say('condensed with an edited draft, and undone');

  await window.command('Indusagi: Rename Session…');
  await window.quickInput.fill('A better name');
  await page.keyboard.press('Enter');
  await window.treeItem('A better name').waitFor({ timeout: 20_000 });
  await chat.locator('#head .title', { hasText: 'A better name' }).waitFor({ timeout: 20_000 });
  say('renamed');

  await remember(window);
  say('remembered the selection');
  await window.command('Indusagi: Recall…');
  await window.quickInput.fill('answer');
  await window.row('answer = 42').waitFor({ timeout: 20_000 });
  await window.shot('recall');
  await page.keyboard.press('Enter');
  await sleep(300);
  for (let tries = 0; !(await window.message.inputValue()).includes('answer = 42'); tries += 1) {
    check(tries < 50, 'what was recalled is not in the message box');
    await sleep(100);
  }
  await window.shot('recalled');
  say('recalled it');
}

async function remember(window) {
  const { page } = window;
  await page.locator('.monaco-workbench').click({ position: { x: 700, y: 300 } });
  await page.keyboard.press('Control+P');
  await window.quickInput.fill('a.py');
  await window.row('a.py').waitFor({ timeout: 15_000 });
  await page.keyboard.press('Enter');
  await page.locator('.monaco-editor .view-line', { hasText: 'answer' }).first().click();
  await page.keyboard.press('Control+A');
  await page.keyboard.press('F1');
  await window.quickInput.fill('>Indusagi: Remember Selection');
  await window.row('Remember Selection').waitFor({ timeout: 15_000 });
  await page.keyboard.press('Enter');
  await window.toast('Remembered').waitFor({ timeout: 15_000 });
}
