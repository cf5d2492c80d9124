// Opens the real thing for a person: VS Code on localhost with the extension installed, on a folder of theirs or on a
// small sample. Ends with Ctrl-C.
//
//   node open.mjs CACHE SERVER_COMMAND [WORKSPACE] [PORT]
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const HERE = path.dirname(fileURLToPath(import.meta.url));
const CLIENT = path.join(HERE, '..', '..', '..', 'vscode-client');
const [cache, command, folder, port = '8127'] = process.argv.slice(2);
if (cache === undefined || command === undefined) {
  console.error('usage: node open.mjs CACHE SERVER_COMMAND [WORKSPACE] [PORT]');
  process.exit(2);
}
const node = (script, ...args) => execFileSync(process.execPath, [script, ...args], { encoding: 'utf8' });

console.log('Getting VS Code and packing the extension (about a minute the first time) …');
node(path.join(CLIENT, 'scripts', 'install.mjs'));
const vsix = path.resolve(cache, 'indusagi-open.vsix');
fs.mkdirSync(path.resolve(cache), { recursive: true });
node(path.join(CLIENT, 'scripts', 'package.mjs'), vsix);
const found = JSON.parse(node(path.join(HERE, 'setup.mjs'), cache, '--no-browser').trim().split('\n').at(-1));
process.env.INDUSAGI_E2E = JSON.stringify(found);
const { startServer } = await import('./workbench.mjs');

let workspace = folder === undefined || folder === '' ? undefined : path.resolve(folder);
if (workspace === undefined) {
  workspace = path.resolve(cache, 'sample');
  fs.mkdirSync(workspace, { recursive: true });
  const sample = {
    'README.md': '# Sample\n\nA tiny program that greets. Ask the agent what it does.\n',
    'greet.py': 'def greet(name: str) -> str:\n    return f"Hello, {name}!"\n\n\nprint(greet("world"))\n',
  };
  for (const [name, text] of Object.entries(sample)) {
    if (!fs.existsSync(path.join(workspace, name))) {
      fs.writeFileSync(path.join(workspace, name), text);
    }
  }
}

const server = await startServer({
  state: path.resolve(cache, 'vscode-open'),
  vsix,
  workspace,
  trusted: true,
  ownHome: false,
  port: Number(port),
  settings: { 'indusagi.path': [path.resolve(command)] },
});
console.log(`\nOpen  ${server.address}/?folder=${encodeURI(workspace)}\n`);
console.log('Click the Indusagi icon at the left edge, and ask something. Ctrl-C ends it.');
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => void server.stop().then(() => process.exit(0)));
}
