// Elements without HTML text: what is passed as a child string becomes a text node.

type Child = Node | string | null | undefined;

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, string | boolean>> = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) {
      made.setAttribute(name, '');
    } else if (value !== false) {
      made.setAttribute(name, value);
    }
  }
  for (const child of children) {
    if (child !== null && child !== undefined) {
      made.append(child);
    }
  }
  return made;
}

export function button(
  label: string,
  action: () => void,
  attributes: Readonly<Record<string, string>> = {},
): HTMLButtonElement {
  const made = element('button', { type: 'button', ...attributes }, label);
  made.addEventListener('click', action);
  return made;
}

export function byId(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (found === null) {
    throw new Error(`the page has no element ${id}`);
  }
  return found;
}
