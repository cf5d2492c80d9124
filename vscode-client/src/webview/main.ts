// The page of the chat view. It draws what the extension sends and sends back what the user does; it keeps nothing
// but the unsent draft, so that it can be thrown away and made again at any time.
import { cost, headAndTail, tokens, unmask } from '../shared/format';
import type { Head, Item } from '../shared/items';
import { type HostMessage, isHostMessage, isSafeLink, type PageMessage } from '../shared/messages';
import { Composer, type Draft, named } from './composer';
import { button, byId, element } from './dom';
import { createView, type ItemView } from './items';
import { createRenderer } from './markdown';
import { number, text } from './strings';

const vscode = acquireVsCodeApi<Draft>();
const renderer = createRenderer(window);
const log = byId('log');
const views = new Map<string, ItemView>();
const unpainted = new Set<ItemView>();
let head: Head | null = null;
let frame = 0;
let waiting: HostMessage[] = [];

const CONNECTIONS = { starting: 'starting', stopped: 'stopped', failed: 'notStarted' } as const;
const PHASES = {
  invoking: 'invoking',
  streaming: 'streaming',
  dispatching: 'dispatching',
  awaiting_approval: 'awaiting_approval',
  condensing: 'condensing',
} as const;

function send(message: PageMessage): void {
  vscode.postMessage(message);
}

// --- what surrounds the conversation ------------------------------------------------------------------------------------

const title = button(text('untitled'), () => send({ type: 'command', command: 'indusagi.resume' }), { class: 'title' });
const meter = element('span', { class: 'meter' });
const banner = element('div', { class: 'banner', role: 'status' });
const approvals = element('div', { class: 'approvals' });
const questions = element('div', { class: 'approvals' });
const queued = element('div', { class: 'queued' });
const attachments = element('div', { class: 'attachments' });
const status = element('div', { class: 'status' });
const announcer = element('div', { class: 'announcer', 'aria-live': 'polite' });
const composer = new Composer({
  send,
  load: () => vscode.getState(),
  save: (draft) => vscode.setState(draft),
  announce: (said) => {
    announcer.textContent = said;
  },
  ready: () => head?.connection === 'running',
  running: () => head?.run != null,
  submitted: () => {
    log.scrollTop = log.scrollHeight;
  },
});
const sendButton = button(text('send'), () => composer.submit('queue'), { class: 'primary' });
const steerButton = button(text('steer'), () => composer.submit('steer'));
const stopButton = button(text('stop'), () => send({ type: 'stop' }));
const earlier = button(text('earlier'), () => send({ type: 'earlier' }), { class: 'earlier' });
const empty = element('p', { class: 'empty' }, text('empty'));

byId('head').append(element('h1', {}, title), meter);
byId('foot').append(
  banner,
  approvals,
  questions,
  queued,
  status,
  attachments,
  composer.aside,
  composer.list,
  composer.input,
  element(
    'div',
    { class: 'buttons' },
    button(text('attach'), () => send({ type: 'command', command: 'indusagi.attach' })),
    element('span', { class: 'space' }),
    stopButton,
    steerButton,
    sendButton,
  ),
  announcer,
);

log.addEventListener('click', (event) => {
  const link = event.target instanceof Element ? event.target.closest('a[data-link]') : null;
  if (link !== null) {
    event.preventDefault();
    const href = link.getAttribute('href') ?? '';
    if (isSafeLink(href)) {
      send({ type: 'openLink', href });
    }
  }
});

function drawHead(now: Head): void {
  const before = head;
  head = now;
  title.textContent = now.session === null ? text('untitled') : unmask(now.session.title || text('untitled'));
  title.title = now.session?.id ?? '';
  drawMeter(now);

  const parts: Node[] = [];
  if (now.connection !== 'running') {
    parts.push(element('p', {}, named(now.connection, CONNECTIONS)));
    if (now.connection !== 'starting') {
      parts.push(
        button(text('restart'), () => send({ type: 'command', command: 'indusagi.restart' })),
        button(text('logs'), () => send({ type: 'command', command: 'indusagi.showLogs' })),
      );
    }
  } else if (now.session?.trusted === false) {
    parts.push(
      element('p', {}, text('foreign')),
      button(text('adopt'), () => send({ type: 'command', command: 'indusagi.adopt' })),
    );
  }
  banner.replaceChildren(...parts);
  banner.hidden = parts.length === 0;

  drawCards(approvals, now.approvals, (card) => card.approvalId, approvalCard);
  drawCards(questions, now.questions, (card) => card.questionId, questionCard);
  queued.replaceChildren(
    ...now.queued.map((entry) =>
      element(
        'article',
        { class: 'item user waiting' },
        element('div', { class: 'said' }, unmask(entry.text)),
        now.run === null
          ? null
          : element('p', { class: 'hint' }, text(entry.mode === 'steer' ? 'willSteer' : 'willQueue')),
      ),
    ),
  );
  attachments.replaceChildren(
    ...now.attachments.map((entry) =>
      element(
        'span',
        { class: 'chip' },
        unmask(entry.label),
        button('×', () => send({ type: 'detach', id: entry.id }), { 'aria-label': text('detach', entry.label) }),
      ),
    ),
  );
  const running = now.run !== null || now.queued.length > 0;
  stopButton.hidden = !running;
  steerButton.hidden = now.run === null;
  sendButton.textContent = now.run === null ? text('send') : text('queue');
  sendButton.disabled = now.connection !== 'running';
  earlier.hidden = !now.earlier;
  drawStatus();

  const asked = now.approvals.find((card) => !before?.approvals.some((other) => other.approvalId === card.approvalId));
  if (asked !== undefined) {
    announcer.textContent = text('announceApproval', asked.tool);
  } else if (now.questions.some((card) => !before?.questions.some((other) => other.questionId === card.questionId))) {
    announcer.textContent = text('announceQuestion');
  } else if (before?.run != null && now.run === null) {
    announcer.textContent = text('announceDone');
  }
}

function drawMeter(now: Head): void {
  const { used, window } = now.meter;
  const parts: string[] = [];
  if (now.model !== null) {
    parts.push(unmask(now.model));
  }
  if (used !== null) {
    parts.push(window === null ? text('used', tokens(used)) : text('meter', tokens(used), tokens(window)));
  }
  const spent = cost(now.meter.cost);
  if (spent !== '') {
    parts.push(spent);
  }
  meter.textContent = parts.join(' · ');
}

function drawStatus(): void {
  const run = head?.run ?? null;
  if (run === null) {
    status.textContent = '';
    return;
  }
  const seconds = Math.max(0, Math.round((Date.now() - run.startedAt) / 1000));
  const phase = named(run.phase, PHASES);
  status.textContent = [phase, text('seconds', seconds), run.note].filter((part) => part !== '').join(' · ');
}
setInterval(drawStatus, 1000);

/** A card that still waits stays as it is: what was typed into it, and the focus in it, must not be lost. */
function drawCards<Card>(
  place: HTMLElement,
  cards: readonly Card[],
  idOf: (card: Card) => string,
  make: (card: Card) => HTMLElement,
): void {
  const wanted = new Set(cards.map(idOf));
  const shown = new Set<string>();
  for (const element of [...place.children]) {
    const id = element.getAttribute('data-asked') ?? '';
    if (wanted.has(id)) {
      shown.add(id);
    } else {
      element.remove();
    }
  }
  place.append(...cards.filter((card) => !shown.has(idOf(card))).map(make));
}

function approvalCard(card: Head['approvals'][number]): HTMLElement {
  const { head: first, left, tail } = headAndTail(unmask(card.action), 600);
  return element(
    'section',
    { class: 'approval', 'data-asked': card.approvalId, role: 'group', 'aria-label': text('approval', card.tool) },
    element('h2', {}, text('approval', unmask(card.tool))),
    element('pre', { tabindex: '0' }, first),
    // The end of a long action matters as much as its beginning: both are in sight without scrolling.
    left === 0 ? null : element('p', { class: 'hint' }, text('left', number(left))),
    left === 0 ? null : element('pre', { tabindex: '0' }, tail),
    element('p', { class: 'hint' }, text('size', number(card.size))),
    element(
      'div',
      { class: 'buttons' },
      ...card.options.map((decision) =>
        button(text(decision), () => send({ type: 'approve', approvalId: card.approvalId, decision })),
      ),
      /^--- .*\n\+\+\+ /mu.test(card.action)
        ? button(text('diff'), () => send({ type: 'diff', callId: card.callId }))
        : null,
      left === 0 ? null : button(text('showAll'), () => send({ type: 'showAction', approvalId: card.approvalId })),
    ),
  );
}

function questionCard(card: Head['questions'][number]): HTMLElement {
  const reply = (answer: string | null): void => send({ type: 'answer', questionId: card.questionId, answer });
  const words = element('textarea', { 'aria-label': text('answer'), rows: '2' });
  words.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      say();
    }
  });
  const say = (): void => {
    if (words.value.trim() !== '') {
      reply(words.value.trim());
    }
  };
  return element(
    'section',
    { class: 'approval question', 'data-asked': card.questionId, role: 'group', 'aria-label': text('question') },
    element('h2', {}, text('question')),
    element('p', { class: 'said' }, unmask(card.question)),
    card.options.length === 0
      ? null
      : element(
          'div',
          { class: 'buttons' },
          ...card.options.map((option) => button(unmask(option), () => reply(option))),
        ),
    words,
    element(
      'div',
      { class: 'buttons' },
      button(text('answerSend'), say),
      button(text('noAnswer'), () => reply(null)),
    ),
  );
}

// --- the conversation ---------------------------------------------------------------------------------------------------

const actions = {
  copy: (text: string) => send({ type: 'copy', text }),
  insert: (text: string) => send({ type: 'insert', text }),
  apply: (text: string) => send({ type: 'apply', text }),
  diff: (callId: string) => send({ type: 'diff', callId }),
  remember: (text: string, node: string | null) => send({ type: 'remember', text, node }),
  fork: (node: string, before: boolean) => send({ type: 'fork', node, before }),
  retry: () => send({ type: 'retry' }),
};

function place(item: Item): ItemView {
  let view = views.get(item.key);
  if (view?.root.dataset['kind'] !== item.kind) {
    view?.root.remove();
    view = createView(item, renderer, actions);
    view.root.dataset['kind'] = item.kind;
    view.root.dataset['key'] = item.key;
    views.set(item.key, view);
  } else {
    view.update(item);
  }
  if (item.node !== null) {
    view.root.dataset['node'] = item.node;
  }
  return view;
}

function reset(items: readonly Item[]): void {
  const keys = new Set(items.map((item) => item.key));
  for (const [key, view] of views) {
    if (!keys.has(key)) {
      view.root.remove();
      views.delete(key);
    }
  }
  let expected: Element | null = earlier.nextElementSibling;
  for (const item of items) {
    const root = place(item).root;
    if (root === expected) {
      expected = root.nextElementSibling;
    } else {
      log.insertBefore(root, expected);
    }
  }
  empty.hidden = items.length > 0;
}

function handle(message: HostMessage): void {
  switch (message.type) {
    case 'reset':
      drawHead(message.head);
      reset(message.items);
      break;
    case 'update':
      for (const item of message.items) {
        const view = place(item);
        if (!view.root.isConnected) {
          log.append(view.root);
        }
        empty.hidden = true;
      }
      for (const { key, text } of message.appends) {
        const view = views.get(key);
        if (view !== undefined) {
          view.append(text);
          unpainted.add(view);
        }
      }
      if (message.head != null) {
        drawHead(message.head);
      }
      break;
    case 'prefill':
      composer.prefill(message.text, message.replace);
      break;
    case 'focus':
      composer.input.focus();
      break;
    case 'reveal':
      for (const view of views.values()) {
        if (view.root.dataset['node'] === message.node) {
          view.root.scrollIntoView({ block: 'center' });
          break;
        }
      }
      break;
    case 'suggestions':
      composer.suggestions(message.request, message.items, message.more);
      break;
  }
}

/** Draws everything that came since the last frame at once; who reads the end keeps seeing the end. */
function draw(): void {
  frame = 0;
  const messages = waiting;
  waiting = [];
  const height = log.scrollHeight;
  const top = log.scrollTop;
  const atEnd = height - top - log.clientHeight < 32;
  const first = log.querySelector('.item');
  for (const message of messages) {
    handle(message);
  }
  for (const view of unpainted) {
    if (view.paint()) {
      unpainted.delete(view);
    }
  }
  if (unpainted.size > 0) {
    frame = requestAnimationFrame(draw);
  }
  if (messages.some((message) => message.type === 'reveal')) {
    // The reader was taken elsewhere.
  } else if (atEnd) {
    log.scrollTop = log.scrollHeight;
  } else if (top < 8 && first?.isConnected === true && log.querySelector('.item') !== first) {
    log.scrollTop = top + log.scrollHeight - height; // older turns came in above
  }
}

window.addEventListener('message', (event: MessageEvent<unknown>) => {
  if (!isHostMessage(event.data)) {
    send({ type: 'problem', text: 'a message from the extension did not have the expected shape' });
    return;
  }
  waiting.push(event.data);
  if (frame === 0) {
    frame = requestAnimationFrame(draw);
  }
});

window.addEventListener('error', (event) => {
  send({ type: 'problem', text: event.message.slice(0, 2000) });
});

log.append(empty, earlier);
sendButton.disabled = true; // until the extension says that the server runs
stopButton.hidden = true;
steerButton.hidden = true;
send({ type: 'ready' });
