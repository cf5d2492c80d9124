// A real VS Code workbench in a real browser, with the extension installed: started, driven, photographed, ended.
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const HERE = path.dirname(fileURLToPath(import.meta.url));
export const FAKE_SERVER = path.join(HERE, 'fake-server.mjs');

/** Where everything lies; given by the caller (`run.mjs`) in one variable. */
export const tools = JSON.parse(process.env.INDUSAGI_E2E ?? '{}');

const BROWSER_ARGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  // Nothing outside this machine can be reached; the editor's own resource names are answered by its service worker.
  '--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1',
];

const QUIET = {
  'telemetry.telemetryLevel': 'off',
  'update.mode': 'none',
  'extensions.autoUpdate': false,
  'extensions.autoCheckUpdates': false,
  'workbench.startupEditor': 'none',
  'workbench.tips.enabled': false,
  'workbench.enableExperiments': false,
  'workbench.secondarySideBar.defaultVisibility': 'hidden',
  'chat.disableAIFeatures': true,
  'chat.commandCenter.enabled': false,
  'git.enabled': false,
  'indusagi.trace.server': 'off',
};

export const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

export function driver() {
  const require = createRequire(pathToFileURL(path.join(tools.driver, 'package.json')));
  return { chromium: require('playwright-core').chromium, axe: require.resolve('axe-core/axe.min.js') };
}

function freePort() {
  return new Promise((resolve, reject) => {
    const probe = net.createServer();
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

/** Starts VS Code's server with the extension; `stop` ends it with everything it started. */
export async function startServer({ state, vsix, workspace, settings = {}, env = {}, trusted = true, ownHome = true, port }) {
  for (const scope of ['User', 'Machine']) {
    fs.mkdirSync(path.join(state, 'data', scope), { recursive: true });
    const all = { ...QUIET, ...(trusted ? { 'security.workspace.trust.enabled': false } : {}), ...settings };
    fs.writeFileSync(path.join(state, 'data', scope, 'settings.json'), JSON.stringify(all, null, 2));
  }
  const home = path.join(state, 'home');
  fs.mkdirSync(home, { recursive: true });
  const homes = {
    HOME: home,
    XDG_CONFIG_HOME: path.join(home, '.config'),
    XDG_STATE_HOME: path.join(home, '.state'),
    XDG_CACHE_HOME: path.join(home, '.cache'),
    XDG_DATA_HOME: path.join(home, '.data'),
  };
  const environment = {
    ...process.env,
    EXTENSIONS_GALLERY: '{"serviceUrl":""}',
    ...(ownHome ? homes : {}), // a test must not see, or touch, the user's own configuration
    ...env,
  };
  const main = path.join(tools.vscode, 'out', 'server-main.js');
  const common = [
    main, '--accept-server-license-terms', '--server-data-dir', state, '--extensions-dir', path.join(state, 'ext'),
    '--telemetry-level', 'off',
  ];
  const installed = spawnSync(tools.node, [...common, '--install-extension', vsix], { env: environment, encoding: 'utf8' });
  if (installed.status !== 0) {
    throw new Error(`the extension could not be installed:\n${installed.stdout}${installed.stderr}`);
  }
  const chosen = port ?? (await freePort());
  const log = fs.openSync(path.join(state, 'server.log'), 'a');
  const child = spawn(
    tools.node,
    [
      ...common, '--host', '127.0.0.1', '--port', String(chosen), '--without-connection-token', '--default-folder',
      workspace, ...(trusted ? ['--disable-workspace-trust'] : []), '--log', 'info',
    ],
    { cwd: tools.vscode, env: environment, stdio: ['ignore', log, log], detached: true },
  );
  const address = `http://127.0.0.1:${chosen}`;
  for (let tries = 0; ; tries += 1) {
    try {
      await fetch(address);
      break;
    } catch (error) {
      if (tries > 100 || child.exitCode !== null) {
        throw new Error('the workbench server did not come up', { cause: error });
      }
      await sleep(200);
    }
  }
  return {
    address,
    async stop() {
      if (child.exitCode === null) {
        const ended = new Promise((resolve) => child.once('exit', resolve));
        process.kill(-child.pid, 'SIGTERM');
        const patience = setTimeout(() => process.kill(-child.pid, 'SIGKILL'), 4000);
        await ended;
        clearTimeout(patience);
      }
    },
  };
}

/** One browser window on the workbench. */
export class Window {
  constructor(page, artifacts) {
    this.page = page;
    this.artifacts = artifacts;
    this.shots = 0;
    /** Requests that would have left the machine, and errors that the pages raised. */
    this.foreign = new Set();
    this.errors = [];
    page.on('request', (request) => {
      const url = request.url();
      const ours = /^(?:blob|data|about|vscode-file|vscode-webview):/u.test(url);
      if (!ours && !['127.0.0.1', 'localhost'].includes(new URL(url).hostname)) {
        this.foreign.add(url);
      }
    });
    page.on('pageerror', (error) => this.errors.push(String(error)));
    /** The chat page: a frame in a frame, in the side bar; other pages of ours are in editor tabs. */
    this.chat = page.frameLocator('iframe.webview.ready:left-of(.part.editor)').frameLocator('iframe#active-frame');
  }

  async open(address, query = '') {
    await this.page.goto(`${address}/?${query}`);
    await this.page.locator('.monaco-workbench').waitFor({ timeout: 60_000 });
  }

  async openPanel() {
    const icon = this.page.locator('.activitybar .action-label[aria-label^="Indusagi"]');
    await icon.waitFor({ timeout: 60_000 });
    const shown = this.page.locator('.pane-header[aria-label^="Sessions"], .pane-header[aria-label^="Chat"]').first();
    const appears = (timeout) => shown.waitFor({ timeout }).then(() => true, () => false);
    // A click on the icon of a panel that is shown hides it; and after a reload the workbench may show it by itself,
    // between our look and our click.
    for (let tries = 0; !(await appears(tries === 0 ? 500 : 3000)); tries += 1) {
      check(tries < 8, 'the panel does not open');
      await icon.click();
    }
    await this.message.waitFor({ timeout: 60_000 });
  }

  get message() {
    return this.chat.getByLabel('Message', { exact: true });
  }

  /** Waits for the server, types a prompt and sends it. */
  async prompt(text) {
    await this.message.fill(text);
    await this.chat.locator('button.primary:not([disabled])').waitFor({ timeout: 30_000 });
    await this.message.press('Enter');
  }

  answer(text) {
    return this.chat.locator('.item.assistant', { hasText: text });
  }

  async settled() {
    await this.chat.locator('button', { hasText: /^Stop$/u }).waitFor({ state: 'hidden', timeout: 30_000 });
  }

  /** Runs a command by its title in the palette. */
  async command(title) {
    await this.page.locator('.monaco-workbench').click({ position: { x: 700, y: 300 } });
    await this.page.keyboard.press('F1');
    const input = this.page.locator('.quick-input-widget input').first();
    await input.waitFor({ timeout: 10_000 });
    await input.fill(`>${title}`);
    await this.row(title).waitFor({ timeout: 15_000 });
    await this.page.keyboard.press('Enter');
  }

  row(text) {
    return this.page.locator('.quick-input-list .monaco-list-row', { hasText: text }).first();
  }

  get quickInput() {
    return this.page.locator('.quick-input-widget input').first();
  }

  toast(text) {
    return this.page.locator('.notification-toast', { hasText: text }).first();
  }

  treeItem(text) {
    return this.page.locator('.pane-body [role="treeitem"]', { hasText: text }).first();
  }

  async shot(name) {
    this.shots += 1;
    const file = path.join(this.artifacts, `${String(this.shots).padStart(2, '0')}-${name}.png`);
    await this.page.screenshot({ path: file });
    return file;
  }
}

/**
 * Runs one scenario: `play(window, kit)`. Steps are told on stdout; on a failure there is a last picture, and the logs
 * of the server and the extension are kept beside it.
 */
export async function scenario(name, options, play) {
  const started = Date.now();
  const say = (text) => console.log(`${((Date.now() - started) / 1000).toFixed(1).padStart(6)} s  ${text}`);
  const artifacts = path.join(tools.artifacts, name);
  fs.rmSync(artifacts, { recursive: true, force: true });
  fs.mkdirSync(artifacts, { recursive: true });
  const root = fs.mkdtempSync(path.join(os.tmpdir(), 'indusagi-e2e-'));
  const state = path.join(root, 'state');
  const workspace = path.join(root, 'work');
  fs.mkdirSync(workspace, { recursive: true });
  for (const [file, content] of Object.entries(options.files ?? { 'a.py': 'answer = 42\nprint(answer)\n' })) {
    fs.mkdirSync(path.dirname(path.join(workspace, file)), { recursive: true });
    fs.writeFileSync(path.join(workspace, file), content);
  }

  let server;
  let browser;
  let window;
  const kit = { root, state, workspace, say, artifacts };
  try {
    const made = typeof options.make === 'function' ? options.make(kit) : {};
    server = await startServer({ state, workspace, vsix: tools.vsix, ...options, ...made });
    kit.server = server;
    say('workbench server is up');
    browser = await driver().chromium.launch({ executablePath: tools.chromium, headless: true, args: BROWSER_ARGS });
    kit.newWindow = async (query) => {
      const context = await browser.newContext({ viewport: options.viewport ?? { width: 1280, height: 900 } });
      const opened = new Window(await context.newPage(), artifacts);
      await opened.open(server.address, query ?? `folder=${workspace}`);
      return opened;
    };
    window = await kit.newWindow(options.query?.(kit));
    say('workbench is shown');
    await play(window, kit);
    const reached = [...window.foreign].filter((url) => !/vscode-resource\.vscode-cdn\.net|vscode-cdn\.net/u.test(url));
    if (reached.length > 0) {
      throw new Error(`requests left the machine: ${reached.join(', ')}`);
    }
    say('ok');
  } catch (error) {
    process.exitCode = 1;
    console.log(`FAILED ${name}: ${error.stack}`);
    await window?.shot('failed').catch(() => undefined);
    keepLogs(state, artifacts);
  } finally {
    if (browser !== undefined) {
      for (const context of browser.contexts()) {
        for (const page of context.pages()) {
          // Leaving the page ends the extension host at once; closing the browser alone would leave it for hours.
          await page.goto('about:blank').catch(() => undefined);
        }
      }
      await sleep(700);
      await browser.close();
    }
    await server?.stop();
    fs.rmSync(root, { recursive: true, force: true });
  }
}

function keepLogs(state, artifacts) {
  const logs = path.join(state, 'data', 'logs');
  for (const entry of fs.existsSync(logs) ? fs.readdirSync(logs, { recursive: true }) : []) {
    if (/Indusagi|exthost.*remoteexthost\.log|remoteagent/iu.test(entry) && fs.statSync(path.join(logs, entry)).isFile()) {
      fs.copyFileSync(path.join(logs, entry), path.join(artifacts, entry.replaceAll(/[\\/]/gu, '_')));
    }
  }
}

export function fakeServer(extra = {}) {
  return { settings: { 'indusagi.path': [process.execPath, FAKE_SERVER], ...extra } };
}

/** The real server, started by the command that the caller named. */
export function realServer({ settings = {}, env = {} } = {}) {
  return { settings: { 'indusagi.path': tools.server, ...settings }, env };
}

export function check(condition, message) {
  if (!condition) {
    throw new Error(message);
  }
}
