// Makes the installable file: bundles, adds the licence, and packs what .vscodeignore leaves.
//
//   node scripts/package.mjs [OUT.vsix]
import { execFileSync } from 'node:child_process';
import { copyFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const target = resolve(process.argv[2] ?? join(root, 'indusagi.vsix'));
const run = (file, ...args) => execFileSync(process.execPath, [file, ...args], { cwd: root, stdio: 'inherit' });

run(join(root, 'scripts', 'build.mjs'));
copyFileSync(join(root, '..', 'LICENSE'), join(root, 'LICENSE'));
run(join(root, 'node_modules', '@vscode', 'vsce', 'vsce'), 'package', '--no-dependencies', '--out', target);
