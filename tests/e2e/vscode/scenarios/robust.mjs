// What must not hurt: approvals from the panel and from a notification, a panel hidden in mid-run, a gap in the events, a
// reload, a server that dies in mid-run, and three restarts at once.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { check, fakeServer, scenario, sleep } from '../workbench.mjs';

await scenario(
  'robust',
  {
    make({ root }) {
      return { ...fakeServer(), env: { FAKE_STATE: path.join(root, 'sessions.json'), FAKE_SLOW_SHUTDOWN: '5000' } };
    },
  },
  async (window, { say }) => {
    const { page, chat } = window;
    await window.openPanel();

    // Approvals: a card with the exact action; denial; a long action is shown with both ends and its true size.
    await window.prompt('approve');
    const card = chat.locator('.approval');
    await card.waitFor({ timeout: 30_000 });
    check((await card.innerText()).includes('rm -r build'), 'the card does not show the action');
    check((await window.toast('Allow run_command').count()) === 0, 'a notification came although the panel is shown');
    await window.shot('approval');
    await card.getByRole('button', { name: 'Allow once' }).click();
    await window.answer('That was it.').waitFor({ timeout: 20_000 });
    await chat.locator('.item.tool[data-stage="done"]').waitFor();
    check((await chat.locator('.item.tool').innerText()).includes('run_command'), 'the tool card is missing');
    say('allowed once');
    await window.settled();
    await window.prompt('approve long');
    await card.waitFor({ timeout: 20_000 });
    const asked = await card.innerText();
    check(asked.includes('start') && asked.includes(' end') && asked.includes('left out'), 'both ends are not shown');
    check(/16,01\d bytes/u.test(asked), `the true size is not shown: ${asked.slice(-200)}`);
    await window.shot('long-approval');
    await card.getByRole('button', { name: 'Deny' }).click();
    await chat.locator('.item.tool[data-stage="failed"]').waitFor({ timeout: 20_000 });
    await window.settled();
    say('denied a long action');

    // A hidden panel: the question comes as a notification; an unsent draft is still there afterwards.
    await window.prompt('approve later');
    await window.message.fill('an unsent draft');
    await page.keyboard.press('Control+Shift+E');
    await window.message.waitFor({ state: 'detached', timeout: 20_000 });
    const question = window.toast('Allow run_command');
    await question.waitFor({ timeout: 20_000 });
    await window.shot('approval-notification');
    await question.getByRole('button', { name: 'Deny' }).click();
    await window.openPanel();
    await chat.locator('.item.tool[data-stage="failed"]').nth(1).waitFor({ timeout: 20_000 });
    await window.settled();
    check((await window.message.inputValue()) === 'an unsent draft', 'the unsent draft is lost');
    say('denied by the notification while the panel was hidden');

    // A gap in the events: what was not sent is fetched, and nothing is there twice.
    await window.command('Indusagi: New Session');
    await chat.locator('.empty').waitFor({ timeout: 20_000 });
    await window.prompt('gap');
    await window.answer('These came after the gap.').waitFor({ timeout: 20_000 });
    await window.settled();
    await window.answer('These words were never sent.').waitFor({ timeout: 20_000 });
    check((await chat.locator('.item.assistant').count()) === 2, 'the gap left duplicates');
    check((await chat.locator('.item.user').count()) === 1, 'the prompt is there twice');
    say('a gap is filled');

    // Hidden and shown again in mid-run: no word is missing, and none is there twice.
    await window.prompt('slow');
    await window.answer('one two three').waitFor({ timeout: 20_000 });
    await page.keyboard.press('Control+Shift+E');
    await window.message.waitFor({ state: 'detached', timeout: 20_000 });
    await sleep(1500);
    await window.openPanel();
    await window.answer('one two three').waitFor({ timeout: 20_000 });
    const shown = await window.answer('one two three').innerText();
    check((shown.match(/one two three four five/gu) ?? []).length >= 1, 'words are missing after hiding');
    check(!/one two three four five six seven eight nine ten one two three four five six seven eight nine ten one one/u.test(shown), 'doubled');
    say('hidden and shown again in mid-run');
    await chat.getByRole('button', { name: 'Stop' }).click();
    await chat.locator('.item.notice', { hasText: 'Stopped.' }).waitFor({ timeout: 20_000 });
    await window.settled();
    say('stopped');

    // A reload: the extension host starts anew, and so does the server; the session comes back.
    await page.reload();
    await page.locator('.monaco-workbench').waitFor({ timeout: 60_000 });
    await window.openPanel();
    await window.answer('These came after the gap.').waitFor({ timeout: 60_000 });
    check((await chat.locator('.item.user').count()) === 2, 'the reloaded session is not whole');
    await window.shot('reloaded');
    say('reloaded');

    // The server dies in mid-run: the panel says so, keeps what is on disk, and goes on with the next server.
    await window.prompt('crash');
    await chat.locator('.item.notice', { hasText: 'interrupted' }).waitFor({ timeout: 30_000 });
    await window.shot('crashed');
    await window.prompt('say back again');
    await window.answer('back again').waitFor({ timeout: 30_000 });
    await window.settled();
    say('survived a crash');

    // Three restarts at once, with a server that takes five seconds to shut down: one server is left.
    const servers = () =>
      execFileSync('ps', ['-eo', 'pid,args']).toString().split('\n').filter((line) => line.includes('fake-server.mjs')).length;
    check(servers() === 1, `expected one server, saw ${servers()}`);
    for (let round = 0; round < 3; round += 1) {
      await window.command('Indusagi: Restart Server');
    }
    await window.prompt('say after the restarts');
    await window.answer('after the restarts').waitFor({ timeout: 60_000 });
    await sleep(1000);
    check(servers() === 1, `expected one server after the restarts, saw ${servers()}`);
    say('three restarts, one server');
  },
);
