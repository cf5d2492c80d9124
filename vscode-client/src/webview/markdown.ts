// Markdown to DOM nodes. Raw HTML in it stays text; what markdown-it makes goes through DOMPurify and is handed over
// as a fragment, so that no HTML text is ever assigned to an element. Images are shown as their description: nothing
// that an answer says may make the page fetch something.
import createPurifier from 'dompurify';
import hljs from 'highlight.js/lib/core';
import bash from 'highlight.js/lib/languages/bash';
import c from 'highlight.js/lib/languages/c';
import cpp from 'highlight.js/lib/languages/cpp';
import csharp from 'highlight.js/lib/languages/csharp';
import css from 'highlight.js/lib/languages/css';
import diff from 'highlight.js/lib/languages/diff';
import go from 'highlight.js/lib/languages/go';
import ini from 'highlight.js/lib/languages/ini';
import java from 'highlight.js/lib/languages/java';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import lua from 'highlight.js/lib/languages/lua';
import markdown from 'highlight.js/lib/languages/markdown';
import python from 'highlight.js/lib/languages/python';
import ruby from 'highlight.js/lib/languages/ruby';
import rust from 'highlight.js/lib/languages/rust';
import sql from 'highlight.js/lib/languages/sql';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';
import MarkdownIt from 'markdown-it';
import { isSafeLink } from '../shared/messages';

/** Longer code is shown without colours: finding them would hold up the page. */
const HIGHLIGHT_LIMIT = 50_000;

const LANGUAGES = {
  bash,
  c,
  cpp,
  csharp,
  css,
  diff,
  go,
  ini,
  java,
  javascript,
  json,
  lua,
  markdown,
  python,
  ruby,
  rust,
  sql,
  typescript,
  xml,
  yaml,
};

export interface Renderer {
  /** Sanitised nodes for a whole text. */
  render(source: string): DocumentFragment;
}

export function createRenderer(window: Window & typeof globalThis): Renderer {
  for (const [name, language] of Object.entries(LANGUAGES)) {
    hljs.registerLanguage(name, language);
  }
  const parser = new MarkdownIt({
    html: false,
    linkify: true,
    typographer: false,
    highlight(code, language) {
      if (language === '' || hljs.getLanguage(language) === undefined || code.length > HIGHLIGHT_LIMIT) {
        return '';
      }
      return hljs.highlight(code, { language, ignoreIllegals: true }).value;
    },
  });
  parser.validateLink = isSafeLink;
  parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false });
  const escape = (text: string): string => parser.utils.escapeHtml(text);
  parser.renderer.rules['image'] = (tokens, index) => {
    const token = tokens[index];
    return `<span class="image">[image: ${escape(token?.content ?? '')}]</span>`;
  };

  const purifier = createPurifier(window);
  purifier.addHook('afterSanitizeAttributes', (node) => {
    if (node.nodeName === 'A') {
      const href = node.getAttribute('href') ?? '';
      if (!isSafeLink(href)) {
        node.removeAttribute('href');
      } else {
        node.setAttribute('rel', 'noreferrer noopener');
        node.setAttribute('title', href);
      }
    }
  });
  return {
    render(source) {
      return purifier.sanitize(parser.render(source), {
        RETURN_DOM_FRAGMENT: true,
        ALLOWED_TAGS: [
          'a',
          'blockquote',
          'br',
          'code',
          'em',
          'h1',
          'h2',
          'h3',
          'h4',
          'h5',
          'h6',
          'hr',
          'li',
          'ol',
          'p',
          'pre',
          's',
          'span',
          'strong',
          'table',
          'tbody',
          'td',
          'th',
          'thead',
          'tr',
          'ul',
        ],
        ALLOWED_ATTR: ['class', 'href', 'start', 'rel', 'title'],
        ALLOW_DATA_ATTR: false,
        ALLOW_ARIA_ATTR: false,
        ALLOW_UNKNOWN_PROTOCOLS: false,
        SANITIZE_NAMED_PROPS: true,
      });
    },
  };
}

/**
 * Where a growing text can be cut so that what stands before the cut will not change its look any more: after a blank
 * line that is outside every fence, where the next line neither belongs to a list, a quote or a table nor is indented.
 */
export function settledLength(source: string): number {
  let fence: string | null = null;
  let position = 0;
  let settled = 0;
  let blank = false;
  let open = false; // inside a block that a later line may go on with (list, quote)
  while (position < source.length) {
    const end = source.indexOf('\n', position);
    if (end === -1) {
      break; // the last line may still grow
    }
    const line = source.slice(position, end);
    const mark = /^ {0,3}(`{3,}|~{3,})/u.exec(line)?.[1];
    if (fence !== null) {
      if (mark !== undefined && mark.startsWith(fence) && line.trim() === mark) {
        fence = null;
        if (!open) {
          settled = end + 1;
        }
      }
    } else if (line.trim() === '') {
      blank = true;
    } else {
      const continues = /^(?:\s|[-*+>|]|\d{1,9}[.)])/u.test(line);
      if (blank && !continues) {
        settled = position;
        open = false;
      }
      open = open || continues;
      blank = false;
      if (mark !== undefined) {
        fence = mark;
      }
    }
    position = end + 1;
  }
  return settled;
}

/** Where the code begins of a text that is one fence which has not been closed; null for any other text. */
export function openFence(source: string): number | null {
  const head = /^ {0,3}(`{3,}(?!.*`)|~{3,}).*\n/u.exec(source);
  if (head?.[1] === undefined) {
    return null;
  }
  const fence = head[1];
  const closed = source
    .slice(head[0].length)
    .split('\n')
    .some((line) => {
      const mark = /^ {0,3}(`{3,}|~{3,})[ \t]*$/u.exec(line)?.[1];
      return mark?.startsWith(fence) === true;
    });
  return closed ? null : head[0].length;
}

/** A list that is longer than this, in characters, is drawn in pieces while it grows. */
const LONG_LIST = 1000;

/** Where a growing list can be cut between two of its items, so that only its end is drawn anew; 0 for nowhere. */
export function itemsLength(source: string): number {
  if (source.length <= LONG_LIST || openFence(source) !== null) {
    return 0;
  }
  let fence: string | null = null;
  let position = 0;
  let cut = 0;
  for (let end = source.indexOf('\n'); end !== -1; end = source.indexOf('\n', position)) {
    const line = source.slice(position, end);
    const mark = /^\s*(`{3,}|~{3,})/u.exec(line)?.[1];
    if (mark !== undefined) {
      fence = fence === null ? mark : mark.startsWith(fence) ? null : fence;
    } else if (fence === null && /^(?:[-*+]|\d{1,9}[.)]) /u.test(line)) {
      cut = position;
    }
    position = end + 1;
  }
  return cut;
}
