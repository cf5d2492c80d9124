// The message box: the draft, what is suggested while one types, pictures that are pasted, and what the keys do.
import { unmask } from '../shared/format';
import type { PageText } from '../shared/pageTexts';
import { isImageType, MAX_IMAGE_BYTES, type PageMessage, type Suggestion } from '../shared/messages';
import { completed, SLASHES, type Typed, typedAt } from '../shared/slash';
import { button, element } from './dom';
import { text } from './strings';

/** Asking for files and memories at every key would be too often. */
const ASK_AFTER_MS = 120;

/** What outlives the page: the draft, and one that was put aside for a prompt that was handed back. */
export interface Draft {
  draft: string;
  aside: string;
}

export interface ComposerHost {
  send(message: PageMessage): void;
  load(): Partial<Draft> | undefined;
  save(draft: Draft): void;
  announce(said: string): void;
  /** Whether a prompt can be sent now. */
  ready(): boolean;
  running(): boolean;
  submitted(): void;
}

export class Composer {
  readonly input = element('textarea', {
    'aria-label': text('message'),
    'aria-autocomplete': 'list',
    'aria-controls': 'suggestions',
    rows: '3',
    placeholder: text('placeholder'),
  });
  readonly list = element('ul', { id: 'suggestions', role: 'listbox', 'aria-label': text('suggestions') });
  readonly aside = element('div', { class: 'aside', role: 'status' });
  private kept = '';
  private typed: Typed | null = null;
  private shown: Suggestion[] = [];
  private chosen = 0;
  private request = 0;
  private timer = 0;

  constructor(private readonly host: ComposerHost) {
    const saved = host.load();
    this.input.value = saved?.draft ?? '';
    this.kept = saved?.aside ?? '';
    this.list.hidden = true;
    this.drawAside();
    this.input.addEventListener('input', () => {
      this.save();
      this.suggest();
    });
    this.input.addEventListener('click', () => this.suggest());
    this.input.addEventListener('blur', () => this.close());
    this.input.addEventListener('keydown', (event) => this.onKey(event));
    this.input.addEventListener('paste', (event) => this.onPaste(event));
  }

  submit(mode: 'queue' | 'steer'): void {
    const said = this.input.value.trim();
    const slash = SLASHES.find(({ name }) => said === `/${name}`);
    if (slash !== undefined) {
      this.host.send({ type: 'command', command: slash.command });
    } else if (said === '' || !this.host.ready()) {
      return;
    } else {
      this.host.send({ type: 'submit', text: said, mode });
    }
    this.input.value = this.kept;
    this.kept = '';
    this.drawAside();
    this.save();
    this.close();
    this.host.submitted();
  }

  /** Puts text into the box. What stood there is put aside where the text takes its place, and comes back later. */
  prefill(said: string, replace: boolean): void {
    const draft = this.input.value;
    if (replace && draft.trim() !== '' && draft !== said) {
      this.kept = this.kept === '' ? draft : `${this.kept}\n${draft}`;
      this.drawAside();
    }
    this.input.value = replace || draft === '' ? said : `${draft}\n${said}`;
    this.save();
    this.input.focus();
  }

  private drawAside(): void {
    this.aside.hidden = this.kept === '';
    this.aside.replaceChildren(
      ...(this.kept === ''
        ? []
        : [
            element('p', { class: 'hint' }, text('aside', unmask(this.kept.slice(0, 80)))),
            button(text('putBack'), () => {
              const draft = this.input.value;
              this.input.value = this.kept;
              this.kept = draft;
              this.drawAside();
              this.save();
              this.input.focus();
            }),
          ]),
    );
  }

  private save(): void {
    this.host.save({ draft: this.input.value, aside: this.kept });
  }

  private onKey(event: KeyboardEvent): void {
    if (event.isComposing) {
      return; // while an input method composes, all keys belong to it
    }
    if (!this.list.hidden && this.onListKey(event)) {
      event.preventDefault();
      return;
    }
    if (event.key === 'Enter' && !event.shiftKey) {
      event.preventDefault();
      this.submit(event.ctrlKey || event.metaKey ? 'steer' : 'queue');
    } else if (event.key === 'Escape' && this.host.running()) {
      event.preventDefault();
      this.host.send({ type: 'stop' });
    }
  }

  private onListKey(event: KeyboardEvent): boolean {
    switch (event.key) {
      case 'ArrowDown':
      case 'ArrowUp': {
        const step = event.key === 'ArrowDown' ? 1 : this.shown.length - 1;
        this.choose((this.chosen + step) % this.shown.length);
        return true;
      }
      case 'Enter':
      case 'Tab':
        this.pick(this.chosen);
        return true;
      case 'Escape':
        this.close();
        return true;
      default:
        return false;
    }
  }

  // --- suggestions ------------------------------------------------------------------------------------------------------

  private suggest(): void {
    clearTimeout(this.timer);
    this.request += 1;
    const typed = typedAt(this.input.value, this.input.selectionStart);
    this.typed = typed;
    if (typed === null) {
      this.close();
      return;
    }
    if (typed.kind === 'command') {
      const found = SLASHES.filter(({ name }) => name.startsWith(typed.query));
      this.show(
        found.map(({ name, says }) => ({ id: name, label: `/${name}`, detail: text(says), insert: `/${name}` })),
        false,
      );
      return;
    }
    const { kind, query } = typed;
    const request = this.request;
    this.timer = window.setTimeout(
      () => this.host.send({ type: 'complete', request, kind, query: query.slice(0, 200) }),
      ASK_AFTER_MS,
    );
  }

  /** What the extension found; an answer to an older question is late and is dropped. */
  suggestions(request: number, items: Suggestion[], more: boolean): void {
    if (request === this.request && this.typed !== null) {
      this.show(items, more);
    }
  }

  private show(items: Suggestion[], more: boolean): void {
    if (items.length === 0) {
      this.close();
      return;
    }
    this.shown = items;
    this.list.replaceChildren(
      ...items.map((item, index) => {
        const row = element(
          'li',
          { id: `suggestion-${String(index)}`, role: 'option' },
          element('span', { class: 'name' }, unmask(item.label)),
          element('span', { class: 'brief' }, unmask(item.detail)),
        );
        // The box keeps the focus: a press is the choice.
        row.addEventListener('mousedown', (event) => {
          event.preventDefault();
          this.pick(index);
        });
        return row;
      }),
    );
    this.list.hidden = false;
    this.choose(0);
    this.host.announce(more ? text('moreFiles') : text('suggested', items.length));
  }

  private choose(index: number): void {
    this.chosen = index;
    for (const [place, row] of [...this.list.children].entries()) {
      row.setAttribute('aria-selected', String(place === index));
      if (place === index) {
        this.input.setAttribute('aria-activedescendant', row.id);
        row.scrollIntoView({ block: 'nearest' });
      }
    }
  }

  private pick(index: number): void {
    const item = this.shown[index];
    const typed = this.typed;
    this.close();
    if (item === undefined || typed === null) {
      return;
    }
    if (typed.kind === 'command') {
      this.input.value = item.insert;
      this.submit('queue');
      return;
    }
    const done = completed(this.input.value, this.input.selectionStart, typed, item.insert);
    this.input.value = done.text;
    this.input.setSelectionRange(done.caret, done.caret);
    this.save();
    this.host.send({ type: 'pick', id: item.id });
  }

  private close(): void {
    clearTimeout(this.timer);
    this.request += 1;
    this.typed = null;
    this.shown = [];
    this.list.hidden = true;
    this.list.replaceChildren();
    this.input.removeAttribute('aria-activedescendant');
  }

  // --- pictures ---------------------------------------------------------------------------------------------------------

  private onPaste(event: ClipboardEvent): void {
    const files = [...(event.clipboardData?.files ?? [])].filter((file) => file.type.startsWith('image/'));
    if (files.length === 0) {
      return;
    }
    event.preventDefault();
    for (const file of files) {
      const mediaType = file.type;
      if (!isImageType(mediaType) || file.size > MAX_IMAGE_BYTES) {
        this.host.announce(text('noImage'));
        continue;
      }
      const reader = new FileReader();
      reader.addEventListener('load', () => {
        const url = typeof reader.result === 'string' ? reader.result : '';
        this.host.send({
          type: 'image',
          name: file.name.slice(0, 200),
          mediaType,
          dataBase64: url.slice(url.indexOf(',') + 1),
        });
      });
      reader.readAsDataURL(file);
    }
  }
}

/** A text of the page by the name of a state, or the state itself where a newer server knows more of them. */
export function named(state: string, names: Readonly<Record<string, PageText>>): string {
  const name = Object.hasOwn(names, state) ? names[state] : undefined;
  return name === undefined ? state : text(name);
}
