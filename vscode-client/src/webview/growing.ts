// Plain text that grows at its end. It is kept in pieces that end with a line: the browser lays out the last one anew,
// and not all that came before.
import { element } from './dom';

/** A piece that is this long (in characters) is followed by another one after its line. */
const PIECE = 2000;

export class GrowingText {
  private last: Text | null = null;

  constructor(private readonly parent: HTMLElement) {}

  replace(text: string): void {
    this.parent.replaceChildren();
    this.last = null;
    this.append(text);
  }

  append(text: string): void {
    let rest = text;
    while (rest !== '') {
      if (this.last === null) {
        this.last = document.createTextNode('');
        this.parent.append(element('span', { class: 'piece' }, this.last));
      }
      const room = Math.max(0, PIECE - this.last.length);
      const end = rest.indexOf('\n', room);
      const part = end === -1 ? rest : rest.slice(0, end + 1);
      this.last.appendData(part);
      rest = rest.slice(part.length);
      if (end !== -1) {
        this.last = null;
      }
    }
  }
}
