// The ends of a session's branches, out of its graph.
import type { TreeResult } from '../protocol';

export interface Branch {
  leaf: string;
  /** The last text of the branch. */
  preview: string;
  label: string | null;
  turns: number;
  at: number;
  /** Whether the session goes on here. */
  head: boolean;
  /** Whether a condensed line was made from it. */
  condensed: boolean;
}

/** One entry per leaf, the live one first, then the newest. */
export function branchesOf(tree: TreeResult): Branch[] {
  const nodes = new Map(tree.nodes.map((node) => [node.id, node]));
  const sources = new Set(tree.condensations.map((link) => link.source));
  const leaves = new Set(tree.leaves);
  if (tree.head !== null) {
    leaves.add(tree.head);
  }
  const branches: Branch[] = [];
  for (const leaf of leaves) {
    const last = nodes.get(leaf);
    if (last === undefined) {
      continue;
    }
    let turns = 0;
    let preview = '';
    const seen = new Set<string>();
    for (let node = nodes.get(leaf); node !== undefined && !seen.has(node.id);) {
      seen.add(node.id);
      turns += 1;
      if (preview === '') {
        preview = node.preview;
      }
      node = node.parent === null ? undefined : nodes.get(node.parent);
    }
    branches.push({
      leaf,
      preview,
      label: last.label,
      turns,
      at: last.createdAt,
      head: leaf === tree.head,
      condensed: sources.has(leaf),
    });
  }
  return branches.sort((one, other) => Number(other.head) - Number(one.head) || other.at - one.at);
}
