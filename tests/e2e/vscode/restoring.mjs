// A question of the agent is answered in its card; what the agent then changed goes back with the conversation.
import fs from 'node:fs';
import path from 'node:path';
import { check } from './workbench.mjs';

const CHANGE = 'change the answer';

/** A file that is in no editor: what is open there is changed there, and is the user's to save. */
export const OTHER = 'answer = 42\n';

/** What the scripted model does: it asks, writes, and says so. */
export const REPLIES = [
  {
    match: CHANGE,
    calls: [{ name: 'ask_user', input: { question: 'Which answer should it be?', options: ['41', '43'] } }],
  },
  { match: CHANGE, calls: [{ name: 'write_file', input: { path: 'other.py', content: 'answer = 43\n' } }] },
  { match: CHANGE, text: 'It is changed.' },
];

export async function restore(window, { say, workspace }) {
  const { page, chat } = window;
  const file = path.join(workspace, 'other.py');
  await window.command('Indusagi: New Session');
  await chat.locator('.empty').waitFor({ timeout: 20_000 });
  await window.prompt(CHANGE);

  const question = chat.locator('.question');
  await question.waitFor({ timeout: 30_000 });
  const asked = await question.innerText();
  check(asked.includes('Which answer should it be?') && asked.includes('43'), `the question is not shown: ${asked}`);
  await question.locator('textarea').fill('43, please');
  await window.shot('question');
  await question.getByRole('button', { name: 'Answer' }).first().click();
  await question.waitFor({ state: 'detached', timeout: 20_000 });
  const card = chat.locator('.approval');
  await card.waitFor({ timeout: 30_000 });
  await card.getByRole('button', { name: 'Allow once' }).click();
  await window.answer('It is changed.').waitFor({ timeout: 30_000 });
  await window.settled();
  check((await chat.locator('.item.tool').first().textContent()).includes('43, please'), 'the answer did not arrive');
  check(fs.readFileSync(file, 'utf8') === 'answer = 43\n', 'the file was not written');
  say('the question is answered, and the file is written');

  const prompt = chat.locator('.item.user', { hasText: CHANGE }).first();
  await prompt.hover();
  await prompt.getByRole('button', { name: 'Edit and fork' }).click({ timeout: 20_000 });
  const offer = window.toast('Bring them back?');
  await offer.waitFor({ timeout: 20_000 });
  await offer.getByRole('button', { name: 'Choose…' }).click();
  const picker = page.locator('.quick-input-widget');
  const row = picker.locator('.quick-input-list .monaco-list-row', { hasText: 'other.py' });
  await row.waitFor({ timeout: 20_000 });
  await row.hover();
  await row.locator('.action-label').first().click();
  await page.locator('.monaco-diff-editor').waitFor({ timeout: 20_000 });
  await window.shot('restore-diff');
  check(fs.readFileSync(file, 'utf8') === 'answer = 43\n', 'the file went back before it was chosen');
  await picker.getByRole('button', { name: 'OK' }).click();
  await window.toast('brought back').waitFor({ timeout: 20_000 });
  check(fs.readFileSync(file, 'utf8') === OTHER, 'the file did not go back');
  say('the file went back with the conversation');
}
