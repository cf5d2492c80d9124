// The one connection to the server: start, stop, restart, and what it says.
import { type ChildProcess, spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { once } from 'node:events';
import * as vscode from 'vscode';
import {
  type ClientCapabilities,
  type FeatureState,
  LanguageClient,
  type LanguageClientOptions,
  RevealOutputChannelOn,
  State,
  type StaticFeature,
} from 'vscode-languageclient/node';
import { Methods, Notifications, PROTOCOL_VERSION, Requests } from '../protocol';
import {
  type ApproveParams,
  type Decision,
  type EventParams,
  isApproveParams,
  isDiagnosticsParams,
  isEventParams,
  isQuestionParams,
  isStatusParams,
  type QuestionParams,
  type StatusParams,
} from '../shared/events';
import { isRecord } from '../shared/guards';
import { shownProblems } from './diagnostics';
import { type CommandLine, locateServer, ServerMissing } from './locate';
import { OneAtATime, orElse } from './serial';
import { launchSettings, serverSettings } from './settings';
import { asServerError, type Method, type Params, type Result, ServerError } from './wire';

export type ConnectionState = 'starting' | 'running' | 'stopped' | 'failed';

/** How long a server may take to end before it is killed. */
const STOP_TIMEOUT_MS = 3000;

export interface Channels {
  extension: vscode.LogOutputChannel;
  server: vscode.LogOutputChannel;
  trace: vscode.LogOutputChannel;
}

export class Connection implements vscode.Disposable {
  private client: LanguageClient | undefined;
  private child: ChildProcess | undefined;
  private readonly restarts = new OneAtATime(() => this.cycle());
  private readonly stateEmitter = new vscode.EventEmitter<ConnectionState>();
  private readonly eventEmitter = new vscode.EventEmitter<EventParams>();
  private readonly statusEmitter = new vscode.EventEmitter<StatusParams>();
  private readonly sessionsEmitter = new vscode.EventEmitter<void>();
  private readonly memoryEmitter = new vscode.EventEmitter<void>();
  private current: ConnectionState = 'starting';
  private wanted = true;

  readonly onState = this.stateEmitter.event;
  readonly onEvent = this.eventEmitter.event;
  readonly onStatus = this.statusEmitter.event;
  readonly onSessionsChanged = this.sessionsEmitter.event;
  readonly onMemoryChanged = this.memoryEmitter.event;

  /** Why the server could not be started, for the log and the panel. */
  failure = '';
  commandLine: CommandLine | undefined;

  constructor(
    private readonly channels: Channels,
    private readonly approve: (question: ApproveParams, token: vscode.CancellationToken) => Promise<Decision>,
    private readonly answer: (question: QuestionParams, token: vscode.CancellationToken) => Promise<string | null>,
    /** What the server's environment gets beside the editor's own. */
    private readonly environment: () => Promise<Record<string, string>>,
  ) {}

  get state(): ConnectionState {
    return this.current;
  }

  get serverInfo(): { name: string; version?: string } | undefined {
    return this.client?.initializeResult?.serverInfo;
  }

  /** Ends the server if there is one, and starts it. Any number of calls at once end in one server. */
  restart(): Promise<void> {
    this.wanted = true;
    return this.restarts.run();
  }

  async stop(): Promise<void> {
    this.wanted = false;
    await this.restarts.idle();
    await this.halt();
    this.setState('stopped');
  }

  async request<M extends Method>(method: M, params: Params<M>, token?: vscode.CancellationToken): Promise<Result<M>> {
    const client = this.client;
    if (client?.state !== State.Running) {
      throw new ServerError('interrupted', vscode.l10n.t('The server is not running.'), vscode.l10n.t('Restart it.'));
    }
    try {
      return await (token === undefined
        ? client.sendRequest<Result<M>>(method, params)
        : client.sendRequest<Result<M>>(method, params, token));
    } catch (reason) {
      throw asServerError(reason);
    }
  }

  /** Tells the server of settings that it can take while it runs. */
  async configure(): Promise<void> {
    await this.client?.sendNotification('workspace/didChangeConfiguration', {
      settings: { indusagi: serverSettings() },
    });
  }

  /** Tells the server that the folders are trusted; what runs goes on. One that cannot be told is started anew. */
  trust(): Promise<void> {
    return orElse(
      () => this.request(Methods.trust, { trusted: true }),
      () => this.restart(),
    );
  }

  dispose(): void {
    void this.stop();
    for (const emitter of [
      this.stateEmitter,
      this.eventEmitter,
      this.statusEmitter,
      this.sessionsEmitter,
      this.memoryEmitter,
    ]) {
      emitter.dispose();
    }
  }

  private setState(state: ConnectionState): void {
    if (state !== this.current) {
      this.current = state;
      this.stateEmitter.fire(state);
    }
  }

  private async cycle(): Promise<void> {
    if (this.wanted) {
      this.setState('starting'); // at once: nothing more is sent to the server that is about to end
    }
    await this.halt();
    if (!this.wanted) {
      return;
    }
    this.failure = '';
    try {
      await this.launch();
    } catch (reason) {
      this.failure = reason instanceof Error ? reason.message : String(reason);
      this.channels.extension.error(this.failure);
      await this.halt();
      this.setState('failed');
      void this.explain(reason instanceof ServerMissing);
    }
  }

  private async launch(): Promise<void> {
    const line = locateServer(launchSettings(), {
      platform: process.platform,
      searchPath: process.env['PATH'] ?? '',
      isFile: (file) => fs.statSync(file, { throwIfNoEntry: false })?.isFile() === true,
    });
    this.commandLine = line;
    this.channels.extension.info(`Starting ${line.command} ${line.args.join(' ')} (from ${line.origin})`);

    const client = new LanguageClient('indusagi', 'Indusagi', () => this.spawn(line), this.options());
    client.registerFeature(new IndusagiCapability());
    client.onNotification(Notifications.event, (params: unknown) => {
      if (isEventParams(params)) {
        this.eventEmitter.fire(params);
      } else {
        this.channels.extension.warn('An event did not have the expected shape; it was dropped.');
      }
    });
    client.onNotification(Notifications.status, (params: unknown) => {
      if (isStatusParams(params)) {
        this.statusEmitter.fire(params);
      }
    });
    client.onNotification(Notifications.sessionsChanged, () => this.sessionsEmitter.fire());
    client.onNotification(Notifications.memoryChanged, () => this.memoryEmitter.fire());
    client.onRequest(Requests.approve, async (params: unknown, token: vscode.CancellationToken) => {
      // What cannot be read cannot be shown, and what was not shown is not allowed.
      return { decision: isApproveParams(params) ? await this.approve(params, token) : 'deny' };
    });
    client.onRequest(Requests.question, async (params: unknown, token: vscode.CancellationToken) => {
      return { answer: isQuestionParams(params) ? await this.answer(params, token) : null };
    });
    client.onRequest(Requests.diagnostics, (params: unknown) =>
      isDiagnosticsParams(params) ? shownProblems(params) : { files: [] },
    );
    client.onDidChangeState(({ newState }) => {
      if (this.client !== client) {
        return;
      }
      if (newState === State.Running) {
        this.setState('running');
      } else {
        this.setState(newState === State.Starting ? 'starting' : 'stopped');
      }
    });
    this.client = client;
    await client.start();
    checkVersion(client);
    this.setState('running');
  }

  private async spawn(line: CommandLine): Promise<ChildProcess> {
    const env = { ...process.env, ...(await this.environment()) };
    const child = spawn(line.command, line.args, { cwd: homeOrRoot(), env, stdio: 'pipe', windowsHide: true });
    this.child = child;
    await once(child, 'spawn'); // rejects with the reason when it cannot be started
    child.once('exit', (code, signal) => {
      this.channels.extension.info(`The server ended: ${code === null ? String(signal) : `exit code ${String(code)}`}`);
    });
    return child;
  }

  private options(): LanguageClientOptions {
    return {
      documentSelector: [{ scheme: 'file' }, { scheme: 'untitled' }],
      outputChannel: this.channels.server,
      traceOutputChannel: this.channels.trace,
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      connectionOptions: { maxRestartCount: 4 },
      initializationOptions: {
        trusted: vscode.workspace.isTrusted,
        ...serverSettings(),
      },
      middleware: {
        workspace: {
          // The server asks for the section `indusagi`: it gets what we declare, not what a workspace may have added.
          configuration: (params) =>
            params.items.map((item) => (item.section === 'indusagi' ? serverSettings() : null)),
        },
      },
    };
  }

  /** Ends the server, by force where asking does not help. */
  private async halt(): Promise<void> {
    const { client, child } = this;
    this.client = undefined;
    this.child = undefined;
    if (client !== undefined) {
      try {
        await client.stop(STOP_TIMEOUT_MS);
      } catch (reason) {
        this.channels.extension.warn(`The server did not stop when asked: ${String(reason)}`);
      }
    }
    if (child?.exitCode === null && child.signalCode === null) {
      const ended = once(child, 'exit');
      const patience = setTimeout(() => child.kill('SIGKILL'), client === undefined ? 0 : 500);
      await ended.catch(() => undefined);
      clearTimeout(patience);
    }
  }

  private async explain(missing: boolean): Promise<void> {
    const open = vscode.l10n.t('Open Settings');
    const logs = vscode.l10n.t('Show Logs');
    const again = vscode.l10n.t('Try Again');
    const choice = await vscode.window.showErrorMessage(
      missing ? this.failure : vscode.l10n.t('Indusagi could not start its server: {0}', this.failure),
      open,
      logs,
      again,
    );
    if (choice === open) {
      await vscode.commands.executeCommand('workbench.action.openSettings', 'indusagi.');
    } else if (choice === logs) {
      this.channels.extension.show();
    } else if (choice === again) {
      await this.restart();
    }
  }
}

/** Tells the server that this client takes events, and answers what it asks. */
class IndusagiCapability implements StaticFeature {
  fillClientCapabilities(capabilities: ClientCapabilities): void {
    const experimental: unknown = capabilities.experimental;
    capabilities.experimental = {
      ...(isRecord(experimental) ? experimental : {}),
      indusagi: { events: true, approvals: true, questions: true, diagnostics: true },
    };
  }

  initialize(): void {
    // Nothing to register.
  }

  getState(): FeatureState {
    return { kind: 'static' };
  }

  clear(): void {
    // Nothing is kept.
  }
}

function checkVersion(client: LanguageClient): void {
  const experimental: unknown = client.initializeResult?.capabilities.experimental;
  const ours = isRecord(experimental) ? experimental['indusagi'] : undefined;
  const version = isRecord(ours) ? ours['protocolVersion'] : undefined;
  if (version !== PROTOCOL_VERSION) {
    throw new Error(
      version === undefined
        ? vscode.l10n.t('The program that was started is not an Indusagi server.')
        : vscode.l10n.t(
            'The server speaks version {0} of the protocol, this extension version {1}. Update the older of the two.',
            JSON.stringify(version),
            PROTOCOL_VERSION,
          ),
    );
  }
}

function homeOrRoot(): string {
  // Never the workspace: a program looked up relative to the working directory must not come from it.
  return process.env['HOME'] ?? process.env['USERPROFILE'] ?? '/';
}
