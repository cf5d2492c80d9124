// Numbers and texts for people.

export function tokens(count: number): string {
  if (count < 1000) {
    return String(count);
  }
  const thousands = count / 1000;
  return thousands < 10 ? `${thousands.toFixed(1)}k` : `${String(Math.round(thousands))}k`;
}

export function cost(dollars: number | null): string {
  if (dollars === null || dollars === 0) {
    return '';
  }
  return dollars < 0.01 ? '<$0.01' : `$${dollars.toFixed(2)}`;
}

export function ago(then: number, now: number): string {
  const seconds = Math.max(0, Math.round((now - then) / 1000));
  if (seconds < 60) {
    return 'now';
  }
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) {
    return `${String(minutes)} min`;
  }
  const hours = Math.round(minutes / 60);
  return hours < 48 ? `${String(hours)} h` : `${String(Math.round(hours / 24))} d`;
}

/** Shortens to one line of at most `limit` characters. */
export function oneLine(text: string, limit: number): string {
  const line = text.replace(/\s+/gu, ' ').trim();
  const characters = Array.from(line);
  return characters.length <= limit ? line : `${characters.slice(0, limit - 1).join('')}…`;
}

// Characters that can make a text look like another one: controls (but tab and line end), direction marks and
// overrides, zero-width and tag characters. The joiner between two emoji is left in peace.
const DECEPTIVE =
  // eslint-disable-next-line no-control-regex -- finding control characters is what this is for
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;
const EMOJI_BEFORE = /\p{Extended_Pictographic}(?:\ufe0f|\p{Emoji_Modifier})?$/u;
const EMOJI_AFTER = /^\p{Extended_Pictographic}/u;

/** Makes visible what could hide in a text that the user reads, or is asked to allow. */
export function unmask(text: string): string {
  return text.replace(/\r\n/gu, '\n').replace(DECEPTIVE, (character, offset: number, whole: string) => {
    const joins =
      character === '\u200d' &&
      EMOJI_BEFORE.test(whole.slice(Math.max(0, offset - 4), offset)) &&
      EMOJI_AFTER.test(whole.slice(offset + 1, offset + 3));
    const code = character.codePointAt(0) ?? 0;
    return joins ? character : `⟨U+${code.toString(16).toUpperCase().padStart(4, '0')}⟩`;
  });
}

/** The beginning and the end of a long text, with the number of characters left out between them. */
export function headAndTail(text: string, limit: number): { head: string; left: number; tail: string } {
  if (text.length <= limit) {
    return { head: text, left: 0, tail: '' };
  }
  const half = Math.floor(limit / 2);
  return { head: text.slice(0, half), left: text.length - 2 * half, tail: text.slice(-half) };
}
