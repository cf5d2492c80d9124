// Collects every text of the sources that can be translated into l10n/bundle.l10n.json, which translations are made
// from: what is handed to a function called `t`, and the texts of the page.
//
//   node scripts/l10n.mjs [--check]      --check only says whether the file is fresh
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const target = join(root, 'l10n', 'bundle.l10n.json');
const texts = new Set();

function collect(node, within) {
  const table = within || (ts.isVariableDeclaration(node) && node.name.getText() === 'PAGE_TEXTS');
  if (ts.isCallExpression(node)) {
    const called = ts.isPropertyAccessExpression(node.expression) ? node.expression.name : node.expression;
    const [first] = node.arguments;
    if (ts.isIdentifier(called) && called.text === 't' && first !== undefined && ts.isStringLiteralLike(first)) {
      texts.add(first.text);
    }
  }
  if (table && ts.isPropertyAssignment(node) && ts.isStringLiteralLike(node.initializer)) {
    texts.add(node.initializer.text);
  }
  ts.forEachChild(node, (child) => collect(child, table));
}

const sources = readdirSync(join(root, 'src'), { recursive: true }).filter((name) => name.endsWith('.ts'));
for (const file of sources) {
  const source = readFileSync(join(root, 'src', file), 'utf8');
  collect(ts.createSourceFile(file, source, ts.ScriptTarget.ES2022, true), false);
}
const bundle = Object.fromEntries([...texts].sort().map((text) => [text, text]));
const fresh = `${JSON.stringify(bundle, null, 2)}\n`;
if (!process.argv.includes('--check')) {
  writeFileSync(target, fresh);
} else if (readFileSync(target, 'utf8') !== fresh) {
  console.error('l10n/bundle.l10n.json is not fresh: run node scripts/l10n.mjs');
  process.exit(1);
}
