// DOM helpers. Elements are built from text and values, never from markup, so that no value that is
// shown can become code.

export const byId = (id) => document.getElementById(id);

/** Creates an element with attributes, event handlers (`onclick`) and children. */
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

/** Sets the text if it has changed. Unchanged text causes no layout and no screen reader output. */
export function setText(element, text) {
  const next = String(text);
  if (element.textContent !== next) element.textContent = next;
}

/** Sets an attribute if it has changed. */
export function setAttr(element, name, value) {
  const next = String(value);
  if (element.getAttribute(name) !== next) element.setAttribute(name, next);
}

/** Replaces the children if the data that they are built from has changed. */
export function rebuild(element, data, build) {
  const key = JSON.stringify(data);
  if (element.builtFrom === key) return;
  element.builtFrom = key;
  element.replaceChildren(...build());
}
