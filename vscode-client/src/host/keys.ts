// Keys of model providers, kept by the editor in the system's own safe place and handed to the server as environment.
import * as vscode from 'vscode';

/** The providers whose key can be kept, by the variable that the server reads it from. */
export const PROVIDERS = [
  { name: 'Anthropic', variable: 'ANTHROPIC_API_KEY' },
  { name: 'OpenAI', variable: 'OPENAI_API_KEY' },
  { name: 'Google', variable: 'GEMINI_API_KEY' },
] as const;

const PREFIX = 'indusagi.key.';

export class ModelKeys {
  constructor(private readonly secrets: vscode.SecretStorage) {}

  /** What a server is started with: the keys that are kept, by their variables. */
  async environment(): Promise<Record<string, string>> {
    const kept: Record<string, string> = {};
    for (const { variable } of PROVIDERS) {
      const key = await this.secrets.get(PREFIX + variable);
      if (key !== undefined && key !== '') {
        kept[variable] = key;
      }
    }
    return kept;
  }

  /** Calls `changed` when a key was kept or taken away, also by another window. */
  onChanged(changed: () => void): vscode.Disposable {
    return this.secrets.onDidChange(({ key }) => {
      if (key.startsWith(PREFIX)) {
        changed();
      }
    });
  }

  /** Asks for a provider and its key. An empty one takes the key away. */
  async ask(): Promise<void> {
    const kept = await this.environment();
    const choice = await vscode.window.showQuickPick(
      PROVIDERS.map(({ name, variable }) => ({
        label: name,
        description: variable in kept ? vscode.l10n.t('a key is kept') : '',
        variable,
      })),
      { placeHolder: vscode.l10n.t('The key of which provider?') },
    );
    if (choice === undefined) {
      return;
    }
    const key = await vscode.window.showInputBox({
      prompt: vscode.l10n.t('The key of {0}; empty takes it away. It is kept in the secret storage.', choice.label),
      password: true,
      ignoreFocusOut: true,
    });
    if (key === undefined) {
      return;
    }
    if (key.trim() === '') {
      await this.secrets.delete(PREFIX + choice.variable);
    } else {
      await this.secrets.store(PREFIX + choice.variable, key.trim());
    }
  }
}
