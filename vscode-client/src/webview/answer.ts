// What the model says: an answer, and its thinking. Both grow by thousands of pieces; what is drawn for each piece must
// not depend on how much there is already.
import type { Item, ItemOf } from '../shared/items';
import { unmask } from '../shared/format';
import { button, element } from './dom';
import { GrowingText } from './growing';
import type { Actions, ItemView } from './items';
import { itemsLength, openFence, type Renderer, settledLength } from './markdown';
import { text } from './strings';

/** From this many characters on, the end of an answer that cannot be put away costs something to draw. */
const LONG_TAIL = 2000;

/** Blocks that are put away together. */
const CHUNK_BLOCKS = 20;

/** Drawing the end of an answer anew may take this long in every frame; beyond it, one part in `SHARE` of the time. */
const CHEAP_MS = 4;
const SHARE = 12;

export class AnswerView implements ItemView {
  readonly root: HTMLElement;
  private readonly done = element('div', { class: 'done' });
  private readonly tail = element('div', { class: 'tail' });
  private readonly bar = element('div', { class: 'bar' });
  private text = '';
  private settled = 0;
  private live = false;
  private node: string | null = null;
  private dirty = false;
  private chunk: HTMLElement | null = null;
  private fence: GrowingText | null = null;
  /** Until when the end of the text is left as it was drawn last. */
  private rest = 0;

  constructor(
    item: ItemOf<'assistant'>,
    private readonly renderer: Renderer,
    private readonly actions: Actions,
  ) {
    this.root = element(
      'article',
      { class: 'item assistant' },
      element('h2', { class: 'who' }, text('agent')),
      element('div', { class: 'markdown' }, this.done, this.tail),
      this.bar,
    );
    this.update(item);
  }

  update(item: Item): void {
    if (item.kind !== 'assistant') {
      return;
    }
    if (item.text !== this.text || item.live !== this.live) {
      // An answer that is complete is drawn once more as a whole: a late link definition may concern its beginning.
      this.text = item.text;
      this.live = item.live;
      this.settled = 0;
      this.done.replaceChildren();
      this.chunk = null;
      this.draw();
    }
    if (item.node !== this.node) {
      this.node = item.node;
      this.drawBar();
    }
    this.root.classList.toggle('live', item.live);
  }

  append(text: string): void {
    this.text += text;
    // Inside of code, all but a line that could end it is simply more code.
    if (this.fence !== null && !/[`~]/u.test(text)) {
      this.fence.append(unmask(text));
    } else {
      this.dirty = true;
    }
  }

  paint(): boolean {
    if (!this.dirty) {
      return true;
    }
    const start = performance.now();
    if (start < this.rest) {
      return false;
    }
    this.draw();
    if (this.text.length - this.settled > LONG_TAIL) {
      this.root.getBoundingClientRect(); // the browser's own work on it counts as well
    }
    // What is long and cannot be put away yet (a table) is drawn as often as leaves most of the time to others.
    const took = performance.now() - start;
    this.rest = took < CHEAP_MS ? 0 : start + took * SHARE;
    return true;
  }

  private draw(): void {
    this.dirty = false;
    this.fence = null;
    if (!this.live) {
      this.tail.replaceChildren();
      this.chunk = null;
      this.done.replaceChildren(this.rendered(this.text));
      return;
    }
    const open = this.text.slice(this.settled);
    const length = settledLength(open) || itemsLength(open);
    if (length > 0) {
      this.settle(this.rendered(this.text.slice(this.settled, this.settled + length)));
      this.settled += length;
    }
    const rest = this.text.slice(this.settled);
    const start = openFence(rest);
    if (start === null) {
      this.tail.replaceChildren(this.rendered(rest));
      return;
    }
    // Code that is still being written only grows: it is coloured once, when its end has come.
    const code = element('code');
    this.fence = new GrowingText(code);
    this.fence.append(unmask(rest.slice(start)));
    this.tail.replaceChildren(element('div', { class: 'code' }, element('pre', { tabindex: '0' }, code)));
  }

  /** Puts away what will not change any more, in pieces: the browser need not lay out those that are out of sight. */
  private settle(fragment: DocumentFragment): void {
    if (this.chunk === null || this.chunk.childElementCount >= CHUNK_BLOCKS) {
      this.chunk = element('div', { class: 'chunk' });
      this.done.append(this.chunk);
    }
    this.chunk.append(fragment);
  }

  private rendered(source: string): DocumentFragment {
    const fragment = this.renderer.render(unmask(source));
    for (const code of fragment.querySelectorAll('pre > code')) {
      const pre = code.parentElement;
      const block = element('div', { class: 'code' });
      const content = (): string => code.textContent;
      pre?.replaceWith(block);
      block.append(
        element(
          'div',
          { class: 'bar' },
          button(text('copy'), () => this.actions.copy(content())),
          button(text('insert'), () => this.actions.insert(content())),
          button(text('apply'), () => this.actions.apply(content())),
        ),
      );
      if (pre !== null) {
        pre.tabIndex = 0; // wide code scrolls; the keyboard must reach it
        block.append(pre);
      }
    }
    for (const link of fragment.querySelectorAll('a[href]')) {
      link.setAttribute('data-link', '');
    }
    return fragment;
  }

  private drawBar(): void {
    const node = this.node;
    this.bar.replaceChildren(button(text('copy'), () => this.actions.copy(this.text)));
    if (node !== null) {
      this.bar.append(
        button(text('fork'), () => this.actions.fork(node, false)),
        button(text('remember'), () => this.actions.remember(this.text, node)),
      );
    }
  }
}

export class ThinkingView implements ItemView {
  readonly root: HTMLDetailsElement;
  private readonly body = element('div', { class: 'said' });
  private readonly grown = new GrowingText(this.body);
  private text = '';

  constructor(item: ItemOf<'thinking'>) {
    this.root = element('details', { class: 'item thinking' }, element('summary', {}, text('thinking')), this.body);
    this.update(item);
  }

  update(item: Item): void {
    if (item.kind === 'thinking') {
      if (item.text !== this.text) {
        this.text = item.text;
        this.grown.replace(unmask(item.text));
      }
      this.root.classList.toggle('live', item.live);
    }
  }

  append(text: string): void {
    this.text += text;
    this.grown.append(unmask(text));
  }

  paint(): boolean {
    return true; // text is drawn as it is added
  }
}
