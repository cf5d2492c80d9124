import { expect, test } from 'vitest';
import type { TreeNode, TreeResult } from '../src/protocol';
import { isOutline, outlineOf } from '../src/shared/graph';

const node = (id: string, parent: string | null, label: string | null = null): TreeNode => ({
  id,
  parent,
  role: 'user',
  preview: id,
  label,
  tokens: 1,
  createdAt: 0,
});

function line(prefix: string, count: number, parent: string | null): TreeNode[] {
  return Array.from({ length: count }, (_, index) =>
    node(`${prefix}${index}`, index === 0 ? parent : `${prefix}${index - 1}`),
  );
}

test('a small graph is drawn whole', () => {
  const nodes = line('a', 4, null);
  const outline = outlineOf({ nodes, condensations: [], leaves: ['a3'], head: 'a3' }, 'T');
  expect(outline.nodes.map(({ id }) => id)).toEqual(['a0', 'a1', 'a2', 'a3']);
  expect(outline.edges.map(({ turns }) => turns)).toEqual([0, 0, 0]);
  expect(isOutline(outline)).toBe(true);
});

test('of a long one only where something happens, with the number of turns between', () => {
  const tree: TreeResult = {
    nodes: [
      ...line('a', 100, null),
      ...line('b', 50, 'a39'),
      ...line('s', 20, null),
      node('lost', 'not-there'),
      node('named', 'lost', 'pin'),
      node('end', 'named'),
    ],
    condensations: [{ summary: 's0', source: 'a99', cut: 'a90', trigger: 'manual', before: 9, after: 1 }],
    leaves: ['a99', 'b49', 's19', 'end'],
    head: 's19',
  };
  const outline = outlineOf(tree, 'T');
  expect(outline.nodes.map(({ id }) => id)).toEqual(['a0', 'a39', 'a99', 'b49', 's0', 's19', 'lost', 'named', 'end']);
  expect(outline.edges).toEqual([
    { from: 'a0', to: 'a39', turns: 38, kind: 'line' },
    { from: 'a39', to: 'a99', turns: 59, kind: 'line' },
    { from: 'a39', to: 'b49', turns: 49, kind: 'line' },
    { from: 's0', to: 's19', turns: 18, kind: 'line' },
    { from: 'lost', to: 'named', turns: 0, kind: 'line' },
    { from: 'named', to: 'end', turns: 0, kind: 'line' },
    { from: 'a99', to: 's0', turns: 0, kind: 'condensed' },
  ]);
  expect(outline.nodes.find(({ id }) => id === 's19')).toMatchObject({ head: true, leaf: true });
});
