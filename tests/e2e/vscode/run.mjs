// Runs scenarios, each in a process of its own:   node run.mjs TOOLS_JSON NAME…
// TOOLS_JSON: {"vscode", "node", "driver", "chromium"} of setup.mjs, with "vsix", "artifacts" and "server" (a command).
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const HERE = path.dirname(fileURLToPath(import.meta.url));
const [toolsJson, ...names] = process.argv.slice(2);
let failed = 0;
for (const name of names) {
  console.log(`--- ${name}`);
  const done = spawnSync(process.execPath, [path.join(HERE, 'scenarios', `${name}.mjs`)], {
    stdio: 'inherit',
    env: { ...process.env, INDUSAGI_E2E: toolsJson },
  });
  failed += done.status === 0 ? 0 : 1;
}
process.exit(failed === 0 ? 0 : 1);
