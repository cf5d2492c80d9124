// @vitest-environment jsdom
import { beforeEach, expect, test, vi } from 'vitest';
import type { PageMessage } from '../src/shared/messages';
import { completed, SLASHES, typedAt } from '../src/shared/slash';
import { isPageCommand } from '../src/shared/messages';
import { Composer, type Draft } from '../src/webview/composer';

let sent: PageMessage[];
let saved: Draft | undefined;
let composer: Composer;

function make(): Composer {
  return new Composer({
    send: (message) => sent.push(message),
    load: () => saved,
    save: (draft) => (saved = draft),
    announce: () => undefined,
    ready: () => true,
    running: () => false,
    submitted: () => undefined,
  });
}

beforeEach(() => {
  vi.useFakeTimers();
  Element.prototype.scrollIntoView = () => undefined;
  sent = [];
  saved = undefined;
  composer = make();
  document.body.replaceChildren(composer.aside, composer.list, composer.input);
});

function type(text: string): void {
  composer.input.value = text;
  composer.input.setSelectionRange(text.length, text.length);
  composer.input.dispatchEvent(new Event('input'));
}

function press(key: string, more: KeyboardEventInit = {}): void {
  composer.input.dispatchEvent(new KeyboardEvent('keydown', { key, cancelable: true, ...more }));
}

test('a prompt that is handed back leaves the unsent draft in reach, also for a page that is made anew', () => {
  type('my unsent words');
  composer.prefill('the old prompt', true);
  expect(composer.input.value).toBe('the old prompt');
  composer = make();
  expect(composer.aside.textContent).toContain('my unsent words');
  press('Enter');
  expect(sent).toEqual([{ type: 'submit', text: 'the old prompt', mode: 'queue' }]);
  expect(composer.input.value).toBe('my unsent words');
  expect(composer.aside.hidden).toBe(true);
});

test('two prompts that are handed back lose no word of what was there', () => {
  type('one');
  composer.prefill('two', true);
  composer.prefill('three', true);
  expect(saved).toEqual({ draft: 'three', aside: 'one\ntwo' });
});

test('what is typed at the caret', () => {
  expect(typedAt('look at @src/a', 14)).toEqual({ kind: 'file', query: 'src/a', start: 8 });
  expect(typedAt('#deploy', 7)).toEqual({ kind: 'memory', query: 'deploy', start: 0 });
  expect(typedAt('/con', 4)).toEqual({ kind: 'command', query: 'con', start: 0 });
  for (const text of ['me@example.org', 'see a#b', 'and /con', '/a b', '@a b']) {
    expect(typedAt(text, text.length)).toBeNull();
  }
  expect(completed('see @a now', 6, { kind: 'file', query: 'a', start: 4 }, '@a.py')).toEqual({
    text: 'see @a.py now',
    caret: 9,
  });
});

test('a file is offered, chosen by the keyboard, and put into the text', () => {
  type('see @a');
  vi.runAllTimers();
  const asked = sent.at(-1);
  expect(asked).toMatchObject({ type: 'complete', kind: 'file', query: 'a' });
  const request = asked?.type === 'complete' ? asked.request : -1;
  const items = ['a.py', 'b/a.ts'].map((path) => ({ id: `file:${path}`, label: path, detail: '', insert: `@${path}` }));
  composer.suggestions(request - 1, items, false);
  expect(composer.list.hidden).toBe(true); // an answer to an older question
  composer.suggestions(request, items, false);
  expect(composer.input.getAttribute('aria-activedescendant')).toBe('suggestion-0');
  press('ArrowDown');
  press('Enter');
  expect(composer.input.value).toBe('see @b/a.ts ');
  expect(sent.at(-1)).toEqual({ type: 'pick', id: 'file:b/a.ts' });
  expect(composer.list.hidden).toBe(true);
});

test('a slash offers commands; what is chosen is run and never sent as a prompt', () => {
  type('/cond');
  expect(composer.list.children).toHaveLength(1);
  press('Enter');
  expect(sent).toEqual([{ type: 'command', command: 'indusagi.condense' }]);
  expect(composer.input.value).toBe('');
  type('/no-such-command');
  press('Enter');
  expect(sent.at(-1)).toMatchObject({ type: 'submit', text: '/no-such-command' });
  expect(SLASHES.filter(({ command }) => !isPageCommand(command))).toEqual([]);
});

test('escape closes the list and stops nothing; keys of an input method are left alone', () => {
  type('/');
  press('Enter', { isComposing: true });
  expect(sent).toEqual([]);
  press('Escape');
  expect(composer.list.hidden).toBe(true);
  expect(sent).toEqual([]);
});

test('a text of the page is the translated one where there is one', async () => {
  vi.resetModules();
  document.body.dataset['texts'] = JSON.stringify({ approval: '{0} erlauben?' });
  const { text } = await import('../src/webview/strings');
  expect([text('approval', 'x'), text('deny')]).toEqual(['x erlauben?', 'Deny']);
});
