// Every check of the client there is: types, lint, format, unit tests, and the size of what is shipped.
import { spawnSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const LIMITS = { 'dist/extension.js': 600_000, 'dist/chat.js': 900_000, 'dist/graph.js': 900_000 };
const steps = [
  ['types', 'typescript/bin/tsc', '-p', '.'],
  ['lint', 'eslint/bin/eslint.js', '.'],
  ['format', 'prettier/bin/prettier.cjs', '--check', '--log-level', 'warn', '.'],
  ['texts', '../scripts/l10n.mjs', '--check'],
  ['tests', 'vitest/vitest.mjs', 'run'],
];

let failed = false;
for (const [name, script, ...args] of steps) {
  const done = spawnSync(process.execPath, [join(root, 'node_modules', script), ...args], {
    cwd: root,
    stdio: 'inherit',
  });
  failed ||= done.status !== 0;
  console.log(`${done.status === 0 ? 'ok' : 'FAILED'}: ${name}`);
}

const built = spawnSync(process.execPath, [join(root, 'scripts', 'build.mjs')], { cwd: root, stdio: 'inherit' });
failed ||= built.status !== 0;
for (const [file, limit] of Object.entries(LIMITS)) {
  const size = statSync(join(root, file)).size;
  failed ||= size > limit;
  console.log(`${size <= limit ? 'ok' : 'FAILED'}: ${file} has ${String(size)} of at most ${String(limit)} bytes`);
}
process.exit(failed ? 1 : 0);
