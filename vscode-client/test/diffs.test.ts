import { describe, expect, test, vi } from 'vitest';
import { globFor } from '../src/host/files';
import { applyDiff, parseDiff, sidesOf, sidesOfEdits } from '../src/shared/diffs';

vi.mock('vscode', () => ({}));

const DIFF = `Careful: something.
--- a/src/x.py
+++ b/src/x.py
@@ -1,3 +1,4 @@
 one
-two
+TWO
+and a half
 three
@@ -9,2 +10,1 @@
 nine
--- ten
`;
const OLD = 'one\ntwo\nthree\n4\n5\n6\n7\n8\nnine\n-- ten\n';
const NEW = 'one\nTWO\nand a half\nthree\n4\n5\n6\n7\n8\nnine\n';

describe('a unified diff', () => {
  test('is read by the counts of its hunks, whatever its lines look like', () => {
    const [file] = parseDiff(DIFF);
    expect(file).toMatchObject({ oldPath: 'src/x.py', newPath: 'src/x.py' });
    expect(file?.hunks.map((hunk) => hunk.lines.length)).toEqual([5, 2]);
  });

  test.each([
    ['\n', OLD, NEW],
    ['\r\n', OLD.replaceAll('\n', '\r\n'), NEW.replaceAll('\n', '\r\n')],
  ])('goes forth and back (lines end with %j)', (_end, before, after) => {
    const hunks = parseDiff(DIFF)[0]?.hunks ?? [];
    expect(applyDiff(before, hunks, true)).toBe(after);
    expect(applyDiff(after, hunks, false)).toBe(before);
    expect(applyDiff('something else\n', hunks, true)).toBeNull();
  });

  test('shows both sides before and after it was made, and its own lines where the file has moved on', () => {
    const [file] = parseDiff(DIFF);
    if (file === undefined) {
      throw new Error('no file');
    }
    const whole = { path: 'src/x.py', before: OLD, after: NEW, whole: true };
    expect(sidesOf(file, OLD)).toEqual(whole);
    expect(sidesOf(file, NEW)).toEqual(whole);
    expect(sidesOf(file, 'rewritten\n')).toMatchObject({ whole: false, before: 'one\ntwo\nthree\n…\nnine\n-- ten' });
  });

  test('knows new files, removed ones, and last lines without an end', () => {
    const [made, gone, open] = parseDiff(
      '--- /dev/null\n+++ b/n\n@@ -0,0 +1,2 @@\n+a\n+b\n--- a/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n' +
        '--- a/o\n+++ b/o\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n',
    );
    expect(made && sidesOf(made, null)).toEqual({ path: 'n', before: '', after: 'a\nb\n', whole: true });
    expect(made && sidesOf(made, 'a\nb\n')).toEqual({ path: 'n', before: '', after: 'a\nb\n', whole: true });
    expect(gone && sidesOf(gone, 'a\n')).toEqual({ path: 'g', before: 'a\n', after: '', whole: true });
    expect(open && sidesOf(open, 'a')).toEqual({ path: 'o', before: 'a', after: 'b\n', whole: true });
    expect(open && sidesOf(open, 'b\n')).toEqual({ path: 'o', before: 'a', after: 'b\n', whole: true });
  });
});

test('edits that were made are taken back in thought, and shown alone where they cannot be found', () => {
  const input = { path: 'a', edits: [{ old_text: 'x = 1', new_text: 'x = 2' }] };
  expect(sidesOfEdits(input, 'x = 2\n')).toEqual({ path: 'a', before: 'x = 1\n', after: 'x = 2\n', whole: true });
  expect(sidesOfEdits(input, 'y\n')).toEqual({ path: 'a', before: 'x = 1', after: 'x = 2', whole: false });
  expect(sidesOfEdits({ path: 'a', content: 'new' }, 'old')).toMatchObject({ before: 'old', after: 'new' });
  expect(sidesOfEdits({ command: 'ls' }, '')).toBeNull();
});

test('a glob finds a part of a path in any case, and reads no sign of the query as its own', () => {
  expect(globFor('')).toBe('**/*');
  expect(globFor('a.P')).toBe('{**/*[aA].[pP]*,**/*[aA].[pP]*/**}');
  expect(globFor('[*]{,}')).toBe('{**/*??????*,**/*??????*/**}');
});
