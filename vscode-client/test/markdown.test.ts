// @vitest-environment jsdom
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { isSafeLink } from '../src/shared/messages';
import { createRenderer, type Renderer, settledLength } from '../src/webview/markdown';
import { HOSTILE } from './hostile';

let renderer: Renderer;
beforeAll(() => {
  renderer = createRenderer(window);
});

function html(source: string): string {
  const host = document.createElement('div');
  host.append(renderer.render(source));
  return host.innerHTML; // eslint-disable-line no-restricted-properties -- read, not assigned
}

const TAGS = new Set(
  'A BLOCKQUOTE BR CODE EM H1 H2 H3 H4 H5 H6 HR LI OL P PRE S SPAN STRONG TABLE TBODY TD TH THEAD TR UL'.split(' '),
);
const ATTRIBUTES = new Set(['class', 'href', 'start', 'rel', 'title']);

describe('hostile texts', () => {
  test('are enough', () => {
    expect(new Set(HOSTILE).size).toBeGreaterThanOrEqual(150);
  });

  test.each(HOSTILE.map((source, index) => [index, source] as const))(
    'number %i leaves nothing that acts',
    (_index, source) => {
      const alert = vi.spyOn(window, 'alert').mockImplementation(() => undefined);
      const host = document.createElement('div');
      document.body.append(host);
      host.append(renderer.render(source));
      for (const node of host.querySelectorAll('*')) {
        expect(TAGS, node.outerHTML).toContain(node.tagName); // eslint-disable-line no-restricted-properties -- read
        for (const attribute of node.attributes) {
          expect(ATTRIBUTES).toContain(attribute.name);
        }
        const href = node.getAttribute('href');
        if (href !== null) {
          expect(isSafeLink(href), href).toBe(true);
        }
      }
      expect(alert).not.toHaveBeenCalled();
      host.remove();
    },
  );
});

describe('good Markdown', () => {
  test('is shown as such', () => {
    expect(html('**b** *i* `c` ~~s~~')).toBe('<p><strong>b</strong> <em>i</em> <code>c</code> <s>s</s></p>\n');
    expect(html('- a\n- b')).toContain('<li>a</li>');
    expect(html('3. a')).toContain('start="3"');
    expect(html('| a | b |\n|---|---|\n| 1 | 2 |')).toContain('<td>1</td>');
  });

  test('has links to the web that tell where they go', () => {
    expect(html('[x](https://example.com/a)')).toContain(
      'href="https://example.com/a" rel="noreferrer noopener" title="https://example.com/a"',
    );
    expect(html('https://example.com')).toContain('<a href="https://example.com"');
  });

  test('shows an image as its description', () => {
    expect(html('![a cat](https://example.com/cat.png)')).toBe('<p><span class="image">[image: a cat]</span></p>\n');
  });

  test('colours code of a known language, and keeps its text', () => {
    const made = html('```python\nprint("<b>")\n```');
    expect(made).toContain('hljs-');
    const host = document.createElement('div');
    host.append(renderer.render('```python\nprint("<b>")\n```'));
    expect(host.textContent.trim()).toBe('print("<b>")');
    expect(html('```nonsense\nx\n```')).not.toContain('hljs-');
  });
});

describe('what will not change any more', () => {
  test.each([
    ['one line', 'a', 0],
    ['a paragraph that may go on', 'a\nb\n', 0],
    ['a finished paragraph', 'a\n\nb\n', 3],
    ['an open fence', '```\na\n\nb\n', 0],
    ['a closed fence', '```\na\n\nb\n```\n', 13],
    ['a longer fence inside', '````\n```\n\n```\n````\n', 19],
    ['a list that may go on', '- a\n\n- b\n', 0],
    ['a list and its continuation', '- a\n\n  b\n', 0],
    ['a list that is over', '- a\n\nb\n', 5],
  ])('%s', (_name, source, length) => {
    expect(settledLength(source)).toBe(length);
  });

  test('pieces look like the whole', () => {
    const source = [
      '# Title',
      '',
      'First *paragraph*',
      'of two lines.',
      '',
      '- a',
      '- b',
      '',
      '  more of b',
      '',
      '```python',
      'x = 1',
      '',
      'y = 2',
      '```',
      '',
      '1. one',
      '',
      '   ```',
      '   inside',
      '   ```',
      '',
      'After.',
      '',
      '> quote',
      '',
      'End.',
      '',
    ].join('\n');
    let done = 0;
    const parts: string[] = [];
    for (let length = 1; length <= source.length; length += 1) {
      const settled = settledLength(source.slice(done, length));
      if (settled > 0) {
        parts.push(html(source.slice(done, done + settled)));
        done += settled;
      }
    }
    parts.push(html(source.slice(done)));
    const plain = (text: string): string => text.replace(/\s+/gu, ' ').trim();
    expect(plain(parts.join(''))).toBe(plain(html(source)));
  });
});
