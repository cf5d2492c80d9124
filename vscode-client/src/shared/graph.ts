// A session's graph as it is drawn: the turns at which something happens, and how many lie between them.
import type { TreeNode, TreeResult } from '../protocol';
import { type Guarded, isBoolean, isNumber, isString, listOf, nullable, oneOf, record, tagged, text } from './guards';

/** A graph of up to this many turns is drawn whole. */
const WHOLE = 40;

const isGraphNode = record({
  id: isString,
  role: isString,
  preview: isString,
  label: nullable(isString),
  head: isBoolean,
  leaf: isBoolean,
  summary: isBoolean,
});
export type GraphNode = Guarded<typeof isGraphNode>;

/** `turns` are those between the two that are not drawn. A `condensed` edge leads from a line to the summary of it. */
const isGraphEdge = record({ from: isString, to: isString, turns: isNumber, kind: oneOf('line', 'condensed') });
export type GraphEdge = Guarded<typeof isGraphEdge>;

export const isOutline = record({ title: isString, nodes: listOf(isGraphNode), edges: listOf(isGraphEdge) });
export type Outline = Guarded<typeof isOutline>;

export const isGraphPageMessage = tagged('type', {
  ready: record({}),
  open: record({ node: text(1024) }),
  problem: record({ text: text(4096) }),
});
export type GraphPageMessage = Guarded<typeof isGraphPageMessage>;
export const isGraphHostMessage = tagged('type', { graph: record({ outline: isOutline }) });

/** The outline of a graph: beginnings, forks, ends, the head, labelled turns, and both ends of each condensation. */
export function outlineOf(tree: TreeResult, title: string): Outline {
  const nodes = new Map(tree.nodes.map((node) => [node.id, node]));
  const children = new Map<string | null, number>();
  for (const { parent } of tree.nodes) {
    const known = parent !== null && nodes.has(parent) ? parent : null;
    children.set(known, (children.get(known) ?? 0) + 1);
  }
  const leaves = new Set(tree.leaves);
  const summaries = new Set(tree.condensations.map((link) => link.summary));
  const ends = new Set(tree.condensations.flatMap(({ summary, source }) => [summary, source]));
  const shown = (node: TreeNode): boolean =>
    tree.nodes.length <= WHOLE ||
    node.parent === null ||
    !nodes.has(node.parent) ||
    (children.get(node.id) ?? 0) !== 1 ||
    node.id === tree.head ||
    node.label !== null ||
    ends.has(node.id);

  const outline: Outline = { title, nodes: [], edges: [] };
  /** For a turn that is not drawn: the one above it that is, and how many lie between. */
  const above = new Map<string, { id: string; turns: number }>();
  for (const node of tree.nodes) {
    const parent = node.parent === null ? undefined : nodes.get(node.parent);
    const from = parent === undefined ? undefined : (above.get(parent.id) ?? { id: parent.id, turns: 0 });
    if (!shown(node)) {
      if (from !== undefined) {
        above.set(node.id, { id: from.id, turns: from.turns + 1 });
      }
      continue;
    }
    outline.nodes.push({
      id: node.id,
      role: node.role,
      preview: node.preview,
      label: node.label,
      head: node.id === tree.head,
      leaf: leaves.has(node.id),
      summary: summaries.has(node.id),
    });
    if (from !== undefined) {
      outline.edges.push({ from: from.id, to: node.id, turns: from.turns, kind: 'line' });
    }
  }
  const drawn = new Set(outline.nodes.map((node) => node.id));
  for (const { source, summary } of tree.condensations) {
    if (drawn.has(source) && drawn.has(summary)) {
      outline.edges.push({ from: source, to: summary, turns: 0, kind: 'condensed' });
    }
  }
  return outline;
}
