// Stands in for the native module @vscode/spdlog, which would have to be compiled: the same exports, written with
// synchronous appends. Without it the workbench runs, but every output channel stays empty.
'use strict';
const fs = require('node:fs');
const path = require('node:path');

const LEVELS = ['trace', 'debug', 'info', 'warning', 'error', 'critical', 'off'];
let defaultLevel = 2;

class Logger {
  constructor(_kind, _name, file) {
    fs.mkdirSync(path.dirname(file), { recursive: true });
    this.descriptor = fs.openSync(file, 'a');
    this.level = defaultLevel;
    this.raw = false;
  }

  write(level, text) {
    if (level < this.level || this.descriptor === undefined) {
      return;
    }
    const now = new Date();
    const local = new Date(now.getTime() - now.getTimezoneOffset() * 60_000);
    const stamp = local.toISOString().replace('T', ' ').slice(0, 23);
    try {
      fs.writeSync(this.descriptor, this.raw ? text : `${stamp} [${LEVELS[level]}] ${text}\n`);
    } catch {
      // A log that cannot be written must not end the workbench.
    }
  }

  trace(text) { this.write(0, text); }
  debug(text) { this.write(1, text); }
  info(text) { this.write(2, text); }
  warn(text) { this.write(3, text); }
  error(text) { this.write(4, text); }
  critical(text) { this.write(5, text); }
  getLevel() { return this.level; }
  setLevel(level) { this.level = level; }
  setPattern() { this.raw = false; }
  clearFormatters() { this.raw = true; }
  flush() {}

  drop() {
    if (this.descriptor !== undefined) {
      fs.closeSync(this.descriptor);
      this.descriptor = undefined;
    }
  }
}

exports.version = 0;
exports.setLevel = (level) => { defaultLevel = level; };
exports.setFlushOn = () => {};
exports.Logger = Logger;
exports.createRotatingLogger = async (name, file) => new Logger('rotating', name, file);
exports.createAsyncRotatingLogger = async (name, file) => new Logger('rotating_async', name, file);
