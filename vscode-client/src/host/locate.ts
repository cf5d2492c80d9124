// Which program is the server? Nothing is ever looked up in the workspace, and no shell is involved.
import * as path from 'node:path';

export interface ServerSettings {
  /** `indusagi.path`: a command with its first arguments. */
  path: readonly string[];
  /** `indusagi.interpreter`: a Python that has the server installed. */
  interpreter: string;
  logLevel: string;
}

export interface Surroundings {
  platform: NodeJS.Platform;
  searchPath: string;
  isFile: (file: string) => boolean;
}

export interface CommandLine {
  command: string;
  args: string[];
  /** Where it came from, for the log and for messages. */
  origin: 'path' | 'interpreter' | 'PATH';
}

export class ServerMissing extends Error {}

/** The command line of the server: `indusagi.path`, else `indusagi.interpreter`, else `indusagi-lsp` on the search path. */
export function locateServer(settings: ServerSettings, around: Surroundings): CommandLine {
  const args = ['--stdio', ...(settings.logLevel === '' ? [] : ['--log-level', settings.logLevel])];
  const [command, ...first] = settings.path;
  if (command !== undefined && command !== '') {
    const found = path.isAbsolute(command) ? command : search(command, around);
    if (found === undefined || !around.isFile(found)) {
      throw new ServerMissing(`The setting indusagi.path names ${command}, which was not found.`);
    }
    return { command: found, args: [...first, ...args], origin: 'path' };
  }

  if (settings.interpreter !== '') {
    const found = path.isAbsolute(settings.interpreter) ? settings.interpreter : search(settings.interpreter, around);
    if (found === undefined || !around.isFile(found)) {
      throw new ServerMissing(`The setting indusagi.interpreter names ${settings.interpreter}, which was not found.`);
    }
    // -P: the working directory, and so the workspace, is never a place to import from.
    return { command: found, args: ['-P', '-m', 'indusagi_lsp', ...args], origin: 'interpreter' };
  }

  const onPath = search('indusagi-lsp', around);
  if (onPath !== undefined) {
    return { command: onPath, args, origin: 'PATH' };
  }
  throw new ServerMissing(
    'The server indusagi-lsp was not found. Install it (pip install indusagi-lsp), or name a Python that has it in the ' +
      'setting indusagi.interpreter.',
  );
}

function search(name: string, around: Surroundings): string | undefined {
  if (name.includes('/') || name.includes('\\')) {
    return undefined; // relative to what? Only names and absolute paths are taken
  }
  const endings = around.platform === 'win32' ? ['.exe', '.cmd', '.bat', ''] : [''];
  for (const folder of around.searchPath.split(path.delimiter)) {
    if (!path.isAbsolute(folder)) {
      continue;
    }
    for (const ending of endings) {
      const file = path.join(folder, name + ending);
      if (around.isFile(file)) {
        return file;
      }
    }
  }
  return undefined;
}
