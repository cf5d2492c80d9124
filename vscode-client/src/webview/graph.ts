// The page of a session's graph: laid out by dagre, drawn as SVG, zoomed, and clicked.
import { Graph, layout } from '@dagrejs/dagre';
import { oneLine, unmask } from '../shared/format';
import { type GraphPageMessage, isGraphHostMessage, type Outline } from '../shared/graph';
import { button, byId, element } from './dom';
import { text } from './strings';

const NODE = { width: 190, height: 44 };
/** Characters of a line of a node. */
const LINE = 24;
const STEP = 1.25;
const [SMALLEST, LARGEST] = [0.1, 4];

const vscode = acquireVsCodeApi<{ zoom: number }>();
const canvas = byId('canvas');
const title = element('h1');
let size = { width: 0, height: 0 };
let zoom = vscode.getState()?.zoom ?? 1;
let picture: SVGSVGElement | null = null;

function send(message: GraphPageMessage): void {
  vscode.postMessage(message);
}

byId('head').append(
  title,
  element('span', { class: 'space' }),
  button('−', () => setZoom(zoom / STEP), { 'aria-label': text('zoomOut') }),
  button('+', () => setZoom(zoom * STEP), { 'aria-label': text('zoomIn') }),
  button(text('zoomFit'), fit),
);

function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, string | number>>,
): SVGElementTagNameMap[K] {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(name, String(value));
  }
  return made;
}

function draw(outline: Outline): void {
  const graph = new Graph({ multigraph: true });
  graph.setGraph({ rankdir: 'TB', nodesep: 24, ranksep: 40, marginx: 16, marginy: 16 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of outline.nodes) {
    graph.setNode(node.id, { ...NODE });
  }
  outline.edges.forEach(({ from, to }, index) => graph.setEdge(from, to, {}, String(index)));
  layout(graph);

  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number };
  size = { width: Number.isFinite(width) ? width : 0, height: Number.isFinite(height) ? height : 0 };
  const made = svg('svg', { viewBox: `0 0 ${size.width} ${size.height}`, role: 'group' });
  made.setAttribute('aria-label', text('graph', unmask(outline.title)));
  outline.edges.forEach(({ from, to, turns, kind }, index) => {
    const { points = [] } = graph.edge(from, to, String(index)) as { points?: { x: number; y: number }[] };
    const path = points.map(({ x, y }, at) => `${at === 0 ? 'M' : 'L'}${x.toFixed(1)} ${y.toFixed(1)}`).join(' ');
    made.append(svg('path', { d: path, class: `edge ${kind}` }));
    const middle = points[Math.floor(points.length / 2)];
    if (turns > 0 && middle !== undefined) {
      const count = svg('text', { x: middle.x + 6, y: middle.y, class: 'count' });
      count.textContent = text('between', turns);
      made.append(count);
    }
  });
  for (const node of outline.nodes) {
    const { x = 0, y = 0 } = graph.node(node.id) as { x?: number; y?: number };
    const kinds = [node.role, node.head ? 'head' : '', node.leaf ? 'leaf' : '', node.summary ? 'summary' : ''];
    const marks = [node.head ? text('head') : '', node.summary ? text('summary') : '', node.label ?? '', node.role];
    const said = oneLine(unmask(node.preview), 200) || '…';
    const first = marks.filter((mark) => mark !== '').map(unmask);
    const group = svg('g', {
      class: `node ${kinds.filter((kind) => kind !== '').join(' ')}`,
      role: 'button',
      tabindex: 0,
    });
    group.dataset['node'] = node.id;
    const corner = { x: x - NODE.width / 2, y: y - NODE.height / 2 };
    const mark = svg('text', { x: corner.x + 8, y: corner.y + 16, class: 'mark' });
    mark.textContent = oneLine(first.join(' · '), LINE);
    const line = svg('text', { x: corner.x + 8, y: corner.y + 34 });
    line.textContent = oneLine(said, LINE);
    const whole = svg('title', {});
    whole.textContent = `${first.join(', ')}: ${said}`; // its name for who does not see it, too
    group.append(whole, svg('rect', { ...corner, ...NODE, rx: 4 }), mark, line);
    const open = (): void => send({ type: 'open', node: node.id });
    group.addEventListener('click', open);
    group.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' || event.key === ' ') {
        event.preventDefault();
        open();
      }
    });
    made.append(group);
  }
  const first = picture === null;
  picture = made;
  title.textContent = unmask(outline.title);
  canvas.replaceChildren(made);
  setZoom(zoom);
  if (first) {
    canvas.querySelector('.head')?.scrollIntoView({ block: 'center', inline: 'center' });
  }
}

function setZoom(wanted: number): void {
  zoom = Math.min(LARGEST, Math.max(SMALLEST, wanted));
  vscode.setState({ zoom });
  if (picture !== null) {
    // What is in the middle stays there.
    const middle = {
      x: (canvas.scrollLeft + canvas.clientWidth / 2) / (canvas.scrollWidth || 1),
      y: (canvas.scrollTop + canvas.clientHeight / 2) / (canvas.scrollHeight || 1),
    };
    picture.setAttribute('width', String(size.width * zoom));
    picture.setAttribute('height', String(size.height * zoom));
    canvas.scrollLeft = middle.x * canvas.scrollWidth - canvas.clientWidth / 2;
    canvas.scrollTop = middle.y * canvas.scrollHeight - canvas.clientHeight / 2;
  }
}

function fit(): void {
  setZoom(Math.min(canvas.clientWidth / (size.width || 1), canvas.clientHeight / (size.height || 1), 1));
}

canvas.addEventListener(
  'wheel',
  (event) => {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      setZoom(event.deltaY < 0 ? zoom * STEP : zoom / STEP);
    }
  },
  { passive: false },
);

document.addEventListener('keydown', (event) => {
  if (event.key === '+' || event.key === '=') {
    setZoom(zoom * STEP);
  } else if (event.key === '-') {
    setZoom(zoom / STEP);
  } else if (event.key === '0') {
    fit();
  }
});

window.addEventListener('message', (event: MessageEvent<unknown>) => {
  if (isGraphHostMessage(event.data)) {
    draw(event.data.outline);
  } else {
    send({ type: 'problem', text: 'a message from the extension did not have the expected shape' });
  }
});

window.addEventListener('error', (event) => {
  send({ type: 'problem', text: event.message.slice(0, 2000) });
});

send({ type: 'ready' });
