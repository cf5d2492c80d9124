// The operations as typed functions, and their failures as one kind of error.
import type { Operations } from '../protocol';
import { isRecord, isString } from '../shared/guards';

export type Method = keyof Operations;
export type Params<M extends Method> = Operations[M]['params'];
export type Result<M extends Method> = Operations[M]['result'];

/** What went wrong, for people: a kind that is stable, a message, and what to do. */
export class ServerError extends Error {
  constructor(
    readonly kind: string,
    message: string,
    readonly hint: string,
  ) {
    super(message);
    this.name = 'ServerError';
  }

  /** The message with its hint, for a notification. */
  get full(): string {
    return this.hint === '' ? this.message : `${this.message} ${this.hint}`;
  }
}

// Of the JSON-RPC library: the connection went away under a request, or could not take it.
const CONNECTION_CODES = new Set([-32097, -32098, -32099]);
const CANCELLED = -32800;

/** Reads whatever a request was rejected with. */
export function asServerError(reason: unknown): ServerError {
  if (reason instanceof ServerError) {
    return reason;
  }
  const raw = isRecord(reason) ? reason : {};
  const message = isString(raw['message']) ? raw['message'] : String(reason);
  const data = isRecord(raw['data']) ? raw['data'] : {};
  if (isString(data['kind'])) {
    return new ServerError(data['kind'], message, isString(data['hint']) ? data['hint'] : '');
  }
  if (raw['code'] === CANCELLED) {
    return new ServerError('aborted', 'The request was cancelled.', '');
  }
  if (
    (typeof raw['code'] === 'number' && CONNECTION_CODES.has(raw['code'])) ||
    /connection (?:got disposed|is closed|is disposed)|not running|stopped/iu.test(message)
  ) {
    return new ServerError(
      'interrupted',
      'The server went away before it answered.',
      'What was said until then is kept.',
    );
  }
  return new ServerError('internal', message, '');
}
