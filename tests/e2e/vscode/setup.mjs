// Fetches what the workbench tests need into a cache folder: VS Code's own server, taken out of npm's `code-server`
// package (no compiler, no wrapper, no postinstall), and playwright-core with axe-core from this folder's lock file.
//
//   node setup.mjs CACHE [--no-browser]
//
// prints the paths as one line of JSON: {"vscode": …, "node": …, "driver": …, "chromium": …}
//
// Idempotent: what is there already is not fetched again. Chromium comes from Debian, since no npm package carries it.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const VERSION = '4.100.3'; // VS Code 1.100.3, the newest that runs on Node 20
const RIPGREP = `@vscode/ripgrep-linux-${process.arch}@1.18.0`;
const HERE = path.dirname(fileURLToPath(import.meta.url));
const NPM = ['--no-audit', '--no-fund', '--loglevel=error'];

function run(command, args, cwd) {
  try {
    execFileSync(command, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'], maxBuffer: 64 << 20 });
  } catch (error) {
    const said = `${error.stdout ?? ''}${error.stderr ?? ''}`.trim().split('\n').slice(-12).join('\n');
    throw new Error(`${command} ${args.join(' ')} (in ${cwd}) failed:\n${said || error.message}`);
  }
}

/** Builds `target` in a folder beside it and moves it into place, so that an interrupted set-up leaves no half. */
function once(target, build) {
  if (fs.existsSync(target)) {
    return;
  }
  const draft = `${target}.draft-${process.pid}`;
  fs.rmSync(draft, { recursive: true, force: true });
  fs.mkdirSync(draft, { recursive: true });
  build(draft);
  fs.renameSync(draft, target);
}

function fetchWorkbench(draft) {
  run('npm', ['pack', `code-server@${VERSION}`, '--silent', '--pack-destination', draft], draft);
  const archive = path.join(draft, `code-server-${VERSION}.tgz`);
  run('tar', ['xzf', archive, '--strip-components=3', 'package/lib/vscode'], draft);
  fs.rmSync(archive);
  // `npm ci` refuses this package's shrinkwrap; `npm install` takes it.
  run('npm', ['install', '--omit=dev', '--ignore-scripts', ...NPM], draft);
  fs.symlinkSync('node_modules', path.join(draft, 'node_modules.asar'));

  const modules = path.join(draft, 'node_modules');
  fs.copyFileSync(path.join(HERE, 'shims', 'spdlog.cjs'), path.join(modules, '@vscode', 'spdlog', 'index.js'));
  for (const name of ['native-watchdog', path.join('@vscode', 'native-watchdog')]) {
    if (fs.existsSync(path.join(modules, name))) {
      fs.copyFileSync(path.join(HERE, 'shims', 'watchdog.cjs'), path.join(modules, name, 'index.js'));
    }
  }

  // The module's own postinstall asks GitHub for the binary; the same binary is in a package of its own.
  const tools = path.join(draft, 'tools');
  fs.mkdirSync(tools);
  fs.writeFileSync(path.join(tools, 'package.json'), '{"private": true}');
  run('npm', ['install', ...NPM, RIPGREP], tools);
  const bin = path.join(modules, '@vscode', 'ripgrep', 'bin');
  fs.mkdirSync(bin, { recursive: true });
  const name = RIPGREP.slice(0, RIPGREP.lastIndexOf('@'));
  fs.copyFileSync(path.join(tools, 'node_modules', name, 'bin', 'rg'), path.join(bin, 'rg'));
  fs.chmodSync(path.join(bin, 'rg'), 0o755);
}

function fetchDriver(draft) {
  for (const name of ['package.json', 'package-lock.json']) {
    fs.copyFileSync(path.join(HERE, name), path.join(draft, name));
  }
  run('npm', ['ci', '--ignore-scripts', ...NPM], draft);
}

function findChromium() {
  for (const candidate of [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser']) {
    if (candidate && fs.existsSync(candidate)) {
      return candidate;
    }
  }
  const get = ['-qq', '--no-install-recommends', '-y'];
  if (process.getuid?.() === 0 && fs.existsSync('/usr/bin/apt-get')) {
    run('apt-get', ['update', '-qq'], '/');
    run('env', ['DEBIAN_FRONTEND=noninteractive', 'apt-get', 'install', ...get, 'chromium', 'fonts-dejavu-core'], '/');
    return '/usr/bin/chromium';
  }
  throw new Error('The workbench tests need Chromium: `apt-get install chromium`, or set CHROMIUM to its path.');
}

try {
  const cache = path.resolve(process.argv[2] ?? '.cache');
  fs.mkdirSync(cache, { recursive: true });
  const vscode = path.join(cache, `vscode-${VERSION}`);
  const lock = fs.readFileSync(path.join(HERE, 'package-lock.json'));
  const driver = path.join(cache, `browser-driver-${createHash('sha256').update(lock).digest('hex').slice(0, 12)}`);
  once(vscode, fetchWorkbench);
  once(driver, fetchDriver);
  console.log(JSON.stringify({ vscode, driver, chromium: process.argv.includes('--no-browser') ? null : findChromium(), node: process.execPath }));
} catch (error) {
  console.error(error.message);
  process.exit(1);
}
