// Elements by hand: made from text and values, never from markup, so that nothing that is shown can become code.

export const byId = (id) => document.getElementById(id);

/** An element with attributes, handlers (`onclick`) and children. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Writes a text only when it changes, so that nothing is laid out or read aloud for nothing. */
export function say(element, text) {
  const next = String(text);
  if (element.textContent !== next) element.textContent = next;
}

export function mark(element, name, value) {
  const next = String(value);
  if (element.getAttribute(name) !== next) element.setAttribute(name, next);
}

/** Replaces the children when what they are made from has changed. */
export function refill(element, made_from, make) {
  const key = JSON.stringify(made_from);
  if (element.madeFrom === key) return;
  element.madeFrom = key;
  element.replaceChildren(...make());
}
