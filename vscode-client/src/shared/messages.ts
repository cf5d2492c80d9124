// What the extension and its page say to each other. Both sides check every message and drop what does not fit.
import { isDecision } from './events';
import { type Guarded, isBoolean, isString, listOf, nullable, oneOf, optional, record, tagged, text } from './guards';
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
);

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
