// What the extension and its page say to each other. Both sides check every message and drop what does not fit.
import { isDecision } from './events';
import {
  type Guard,
  type Guarded,
  isBoolean,
  isNumber,
  isString,
  listOf,
  nullable,
  oneOf,
  optional,
  record,
  tagged,
  text,
} from './guards';
import { isHead, isItem } from './items';

/** A prompt, or text of an answer: the server takes 1,000,000 characters of it. */
const isLongText = text(1_000_000);
const isId = text(1024);

/** The commands that a button of the page may run; nothing else can be named. */
export const isPageCommand = oneOf(
  'indusagi.newSession',
  'indusagi.resume',
  'indusagi.condense',
  'indusagi.undoCondense',
  'indusagi.adopt',
  'indusagi.restart',
  'indusagi.showLogs',
  'indusagi.selectModel',
  'indusagi.attach',
  'indusagi.fork',
  'indusagi.condensePreview',
  'indusagi.rename',
  'indusagi.label',
  'indusagi.showGraph',
  'indusagi.compare',
  'indusagi.recall',
  'indusagi.exportSession',
  'indusagi.doctor',
  'indusagi.stop',
);
export type PageCommand = Guarded<typeof isPageCommand>;

/** Pictures that every provider takes; the server is sent them in base64. */
export const isImageType = oneOf('image/png', 'image/jpeg', 'image/gif', 'image/webp');
export const MAX_IMAGE_BYTES = 5_000_000;
const isImageData: Guard<string> = (value): value is string =>
  isString(value) && value.length <= Math.ceil(MAX_IMAGE_BYTES / 3) * 4 && /^[A-Za-z0-9+/]+={0,2}$/u.test(value);

export const isSuggestion = record({ id: isString, label: isString, detail: isString, insert: isString });
export type Suggestion = Guarded<typeof isSuggestion>;

export const isPageMessage = tagged('type', {
  ready: record({}),
  submit: record({ text: isLongText, mode: oneOf('queue', 'steer') }),
  stop: record({}),
  retry: record({}),
  earlier: record({}),
  fork: record({ node: isId, before: isBoolean }),
  approve: record({ approvalId: isId, decision: isDecision }),
  answer: record({ questionId: isId, answer: nullable(isLongText) }),
  showAction: record({ approvalId: isId }),
  detach: record({ id: isId }),
  image: record({ name: text(200), mediaType: isImageType, dataBase64: isImageData }),
  complete: record({ request: isNumber, kind: oneOf('file', 'memory'), query: text(200) }),
  pick: record({ id: isId }),
  apply: record({ text: isLongText }),
  diff: record({ callId: isId }),
  command: record({ command: isPageCommand }),
  copy: record({ text: isLongText }),
  insert: record({ text: isLongText }),
  remember: record({ text: isLongText, node: optional(isId) }),
  openLink: record({ href: text(4096) }),
  problem: record({ text: text(4096) }),
});
export type PageMessage = Guarded<typeof isPageMessage>;

export const isHostMessage = tagged('type', {
  reset: record({ head: isHead, items: listOf(isItem) }),
  update: record({
    head: optional(isHead),
    items: listOf(isItem),
    appends: listOf(record({ key: isString, text: isString })),
  }),
  prefill: record({ text: isString, replace: isBoolean }),
  focus: record({}),
  reveal: record({ node: isString }),
  suggestions: record({ request: isNumber, items: listOf(isSuggestion, 100), more: isBoolean }),
});
export type HostMessage = Guarded<typeof isHostMessage>;

/** Only the web: no file, no command, no editor link can be opened from an answer. */
export function isSafeLink(href: string): boolean {
  try {
    const url = new URL(href);
    return (url.protocol === 'https:' || url.protocol === 'http:') && url.username === '' && url.password === '';
  } catch {
    return false;
  }
}
