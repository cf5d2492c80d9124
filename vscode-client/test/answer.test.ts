// @vitest-environment jsdom
import { beforeEach, expect, test, vi } from 'vitest';
import type { ItemOf } from '../src/shared/items';
import { AnswerView, ThinkingView } from '../src/webview/answer';
import { createRenderer, itemsLength, openFence, type Renderer } from '../src/webview/markdown';

const actions = {} as ConstructorParameters<typeof AnswerView>[2];
const item = (text: string, live: boolean): ItemOf<'assistant'> => ({
  kind: 'assistant',
  key: 'k',
  node: null,
  text,
  live,
});

const KINDS = {
  paragraphs: (count: number) => (count % 40 === 39 ? 'end.\n\n' : `word${count % 10} `),
  list: (count: number) => (count % 10 === 9 ? 'end.\n' : count % 10 === 0 ? '- item ' : `word${count % 10} `),
  code: (count: number) => (count === 0 ? '```python\n' : count % 10 === 9 ? 'end\n' : `word${count % 10} `),
};

// The clock stands still: what is drawn does not depend on how fast the machine is.
beforeEach(() => {
  vi.useFakeTimers();
});

test.each(Object.entries(KINDS))('what is drawn for a piece of %s does not grow with what is there', (_name, piece) => {
  let read = 0;
  const counting: Renderer = {
    render: (source) => {
      read += source.length;
      const fragment = document.createDocumentFragment();
      fragment.append(source);
      return fragment;
    },
  };
  const view = new AnswerView(item('', true), counting, actions);
  let text = '';
  for (let count = 0; count < 8000; count += 1) {
    const delta = piece(count);
    text += delta;
    view.append(delta);
    if (count % 32 === 31) {
      expect(view.paint()).toBe(true);
    }
  }
  expect(read).toBeLessThan(text.length * 12);
  const shown = view.root.querySelector('.markdown')?.textContent ?? '';
  expect(shown).toBe(text.startsWith('```') ? text.slice(text.indexOf('\n') + 1) : text);
});

test('an answer that has ended looks as if it had been drawn at once', () => {
  const renderer = createRenderer(window);
  const view = new AnswerView(item('', true), renderer, actions);
  const text = Object.values(KINDS)
    .map((piece) => Array.from({ length: 300 }, (_, count) => piece(count)).join(''))
    .join('\n\n');
  for (let at = 0; at < text.length; at += 97) {
    view.append(text.slice(at, at + 97));
    view.paint();
  }
  view.update(item(text, false));
  const whole = new AnswerView(item(text, false), renderer, actions);
  const drawn = ({ root }: AnswerView): (string | undefined)[] => [
    root.querySelector('.done')?.textContent,
    root.querySelector('.tail')?.textContent,
  ];
  expect(drawn(view)).toEqual(drawn(whole));
});

test('what is costly to draw is drawn less often, and in the end all the same', () => {
  const slow: Renderer = {
    render: () => {
      vi.advanceTimersByTime(20);
      return document.createDocumentFragment();
    },
  };
  const view = new AnswerView(item('', true), slow, actions);
  view.append('| a | b |');
  expect(view.paint()).toBe(true);
  view.append(' more');
  expect(view.paint()).toBe(false);
  vi.advanceTimersByTime(1000);
  expect(view.paint()).toBe(true);
});

test('code that is closed while it grows is coloured', () => {
  const view = new AnswerView(item('', true), createRenderer(window), actions);
  for (const delta of ['Look:\n\n', '```python\n', 'import os\n', '``', '`\n', '\nDone.', ' Yes']) {
    view.append(delta);
    view.paint();
  }
  expect(view.root.querySelector('.hljs-keyword')?.textContent).toBe('import');
  expect(view.root.querySelector('.tail')?.textContent.trim()).toBe('Done. Yes');
});

test('an open fence is known by its own end alone', () => {
  expect(openFence('```py\ncode')).toBe(6);
  expect(openFence('````\n```\ncode')).toBe(5);
  expect(openFence('```py\ncode\n```\n')).toBeNull();
  expect(openFence('``` a ``` b\n')).toBeNull();
  expect(openFence('text\n```\n')).toBeNull();
});

test('a list is cut between its own items, never inside of code or of a list within', () => {
  const long = 'word '.repeat(250);
  expect(itemsLength('- a\n- b\n')).toBe(0);
  expect(itemsLength(`- ${long}\n- b\n  - c\n`)).toBe(long.length + 3);
  expect(itemsLength(`- ${long}\n  \`\`\`\n- no item\n`)).toBe(0);
});

test('thinking is kept in pieces, and no word of it is lost', () => {
  const view = new ThinkingView({ kind: 'thinking', key: 'k', node: null, text: '', live: true });
  let text = '';
  for (let count = 0; count < 5000; count += 1) {
    const delta = count % 10 === 9 ? 'end\n' : `word${count} `;
    text += delta;
    view.append(delta);
  }
  expect(view.root.querySelector('.said')?.textContent).toBe(text);
  expect(view.root.querySelectorAll('.piece').length).toBeGreaterThan(10);
});
