// Installs the client's toolchain from its lock file, unless that is done already.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const wanted = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')).packages;
const record = join(root, 'node_modules', '.package-lock.json');
const present = existsSync(record) ? JSON.parse(readFileSync(record, 'utf8')).packages : {};

// What is optional is for other platforms, and may be left out.
const missing = Object.entries(wanted).filter(([name, entry]) => {
  return name !== '' && entry.optional !== true && present[name]?.version !== entry.version;
});
if (missing.length > 0) {
  execFileSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], { cwd: root, stdio: 'inherit' });
}
