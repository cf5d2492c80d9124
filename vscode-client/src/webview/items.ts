// Draws one item of the conversation each. An item's element stays while its key stays.
import type { Item, ItemOf } from '../shared/items';
import { unmask } from '../shared/format';
import { button, element } from './dom';
import { AnswerView, ThinkingView } from './answer';
import type { Renderer } from './markdown';
import { text } from './strings';

export interface Actions {
  copy(text: string): void;
  insert(text: string): void;
  apply(text: string): void;
  diff(callId: string): void;
  remember(text: string, node: string | null): void;
  fork(node: string, before: boolean): void;
  retry(): void;
}

export interface ItemView {
  readonly root: HTMLElement;
  update(item: Item): void;
  append(text: string): void;
  /** Draws what was appended since; called once per frame. False: not all of it yet, call again in the next one. */
  paint(): boolean;
}

export function createView(item: Item, renderer: Renderer, actions: Actions): ItemView {
  switch (item.kind) {
    case 'assistant':
      return new AnswerView(item, renderer, actions);
    case 'thinking':
      return new ThinkingView(item);
    case 'tool':
      return new ToolView(item, actions);
    case 'user':
      return new PlainView((now) => (now.kind === 'user' ? promptParts(now, actions) : []), item, 'user');
    case 'summary':
      return new PlainView((now) => (now.kind === 'summary' ? summaryParts(now, renderer) : []), item, 'summary');
    case 'notice':
      return new PlainView((now) => (now.kind === 'notice' ? noticeParts(now, actions) : []), item, 'notice');
    case 'gap':
      return new PlainView(() => [element('p', {}, text('gap'))], item, 'gap');
  }
}

/** An item that is drawn whole, when it changes at all. */
class PlainView implements ItemView {
  readonly root: HTMLElement;
  private drawn = '';

  constructor(
    private readonly parts: (item: Item) => readonly Node[],
    item: Item,
    className: string,
  ) {
    this.root = element('article', { class: `item ${className}` });
    this.update(item);
  }

  update(item: Item): void {
    const now = JSON.stringify(item);
    if (now !== this.drawn) {
      this.drawn = now;
      this.root.replaceChildren(...this.parts(item));
    }
  }

  append(): void {
    // Nothing streams into these.
  }

  paint(): boolean {
    return true; // drawn at once
  }
}

function promptParts(item: ItemOf<'user'>, actions: Actions): Node[] {
  const node = item.node;
  const bar = element('div', { class: 'bar' });
  if (node !== null) {
    bar.append(
      button(text('edit'), () => actions.fork(node, true)),
      button(text('remember'), () => actions.remember(item.text, node)),
    );
  }
  return [
    element('h2', { class: 'who' }, text('you')),
    element('div', { class: 'said' }, unmask(item.text)),
    ...(item.attached ?? []).map((name) => element('span', { class: 'chip' }, unmask(name))),
    ...(item.images > 0
      ? [element('p', { class: 'images' }, item.images === 1 ? text('image') : text('images', item.images))]
      : []),
    bar,
  ];
}

function summaryParts(item: ItemOf<'summary'>, renderer: Renderer): Node[] {
  const body = element('div', { class: 'markdown' });
  body.append(renderer.render(unmask(item.text)));
  return [element('details', {}, element('summary', {}, text('summary')), body)];
}

function noticeParts(item: ItemOf<'notice'>, actions: Actions): Node[] {
  const parts: Node[] = [element('p', { class: item.level }, unmask(item.text))];
  if (item.hint !== '') {
    parts.push(element('p', { class: 'hint' }, unmask(item.hint)));
  }
  if (item.retry) {
    parts.push(button(text('retry'), () => actions.retry()));
  }
  return parts;
}

/** The tools whose work is a difference between two texts. */
const EDITING = new Set(['edit_file', 'write_file', 'apply_patch']);

class ToolView implements ItemView {
  readonly root: HTMLDetailsElement;
  private readonly name = element('span', { class: 'name' });
  private readonly stage = element('span', { class: 'stage' });
  private readonly input = element('pre', { tabindex: '0' });
  private readonly output = element('pre', { tabindex: '0' });
  private readonly brief = element('span', { class: 'brief' });

  constructor(item: ItemOf<'tool'>, actions: Actions) {
    this.root = element(
      'details',
      { class: 'item tool' },
      element('summary', {}, this.name, this.brief, this.stage),
      EDITING.has(item.name) ? button(text('diff'), () => actions.diff(item.callId)) : null,
      element('h3', {}, text('input')),
      this.input,
      element('h3', {}, text('output')),
      this.output,
    );
    this.update(item);
  }

  update(item: Item): void {
    if (item.kind !== 'tool') {
      return;
    }
    this.name.textContent = unmask(item.name);
    this.brief.textContent = unmask(briefly(item.input));
    this.stage.textContent = text(item.stage);
    this.root.dataset['stage'] = item.stage;
    setText(this.input, unmask(item.input));
    setText(this.output, unmask(item.output));
  }

  append(text: string): void {
    this.output.append(unmask(text));
  }

  paint(): boolean {
    return true; // drawn at once
  }
}

function setText(target: HTMLElement, text: string): void {
  if (target.textContent !== text) {
    target.textContent = text;
  }
}

/** The first textual argument of a call: most often the path or the pattern, which is what one wants to see. */
function briefly(input: string): string {
  try {
    const value: unknown = JSON.parse(input);
    if (typeof value === 'object' && value !== null) {
      const first: unknown = Object.values(value).find((entry) => typeof entry === 'string');
      return typeof first === 'string' ? first.slice(0, 120) : '';
    }
  } catch {
    // Not complete yet, or plain text: shown in full below.
  }
  return '';
}
