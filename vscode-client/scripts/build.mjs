// Bundles the extension (one file for the extension host) and its pages (one file each for the browser) into dist/.
//
//   node scripts/build.mjs [--dev]      --dev keeps names and adds source maps
import { rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const dev = process.argv.includes('--dev');
const common = {
  absWorkingDir: root,
  bundle: true,
  minify: !dev,
  sourcemap: dev,
  legalComments: 'linked',
  logLevel: 'warning',
  target: 'es2022',
};

rmSync(join(root, 'dist'), { recursive: true, force: true });
await Promise.all([
  build({
    ...common,
    entryPoints: ['src/extension.ts'],
    outfile: 'dist/extension.js',
    platform: 'node',
    format: 'cjs',
    external: ['vscode'],
  }),
  build({
    ...common,
    entryPoints: { chat: 'src/webview/main.ts', graph: 'src/webview/graph.ts' },
    outdir: 'dist',
    platform: 'browser',
    format: 'iife',
  }),
]);
