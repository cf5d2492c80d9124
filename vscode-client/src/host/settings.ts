// What the user has set: what starts the server, and what the server is told.
import * as vscode from 'vscode';
import { isRecord } from '../shared/guards';
import type { ServerSettings } from './locate';

/** The settings that a new server is needed for. */
export const LAUNCH_SETTINGS = ['path', 'interpreter', 'logLevel'] as const;

/** The settings of the server, all of them; it takes them while it runs. */
export const SERVER_SETTINGS = [
  'model',
  'thinking',
  'maxTurns',
  'toolSeconds',
  'approvals',
  'compaction.enabled',
  'compaction.triggerRatio',
  'compaction.keepRecent',
  'memory.store',
  'memory.semantic',
  'redactSecrets',
  'watch',
] as const;

export function launchSettings(): ServerSettings {
  const values = vscode.workspace.getConfiguration('indusagi');
  return {
    path: values.get<string[]>('path', []),
    interpreter: values.get<string>('interpreter', ''),
    logLevel: values.get<string>('logLevel', ''),
  };
}

/**
 * What the user has set of the server's settings, nested as the server has them. What is not set is left out, so that
 * the user's `config.toml` holds there. Only the user's own values count: a workspace must not loosen the approvals.
 */
export function serverSettings(): Record<string, unknown> {
  const values = vscode.workspace.getConfiguration('indusagi');
  const told: Record<string, unknown> = {};
  for (const name of SERVER_SETTINGS) {
    const value = values.inspect(name)?.globalValue;
    if (value === undefined) {
      continue;
    }
    const [group = name, part] = name.split('.');
    if (part === undefined) {
      told[group] = value;
    } else {
      const others = told[group];
      told[group] = { ...(isRecord(others) ? others : {}), [part]: value };
    }
  }
  return told;
}

/** Whether a change concerns one of these settings. */
export function concerns(change: vscode.ConfigurationChangeEvent, names: readonly string[]): boolean {
  return names.some((name) => change.affectsConfiguration(`indusagi.${name}`));
}
