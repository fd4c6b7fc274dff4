// DOM helpers. Elements are built from text and values, never from markup, so that no value that is
// shown can become code.

/** Characters that show nothing, or change how the text around them is shown: the same as in `tollgate_rules::text`. */
const HIDDEN = new RegExp('[\\u{0}-\\u{1f}\\u{7f}-\\u{9f}\\u{ad}\\u{34f}\\u{61c}\\u{115f}-\\u{1160}\\u{17b4}-\\u{17b5}\\u{180b}-\\u{180f}'
  + '\\u{200b}-\\u{200f}\\u{2028}-\\u{202e}\\u{2060}-\\u{206f}\\u{2800}\\u{3164}\\u{fe00}-\\u{fe0f}\\u{feff}\\u{ffa0}\\u{fff0}-\\u{fffb}'
  + '\\u{13430}-\\u{1343f}\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}]', 'gu');
/** Attributes that are shown or read out. The others have names and values, which must stay as they are. */
const SHOWN_ATTRIBUTES = new Set(['aria-label', 'placeholder', 'title']);

/** The text with hidden characters escaped, as in \u{202e}: keys come from clients. */
export const visible = (text) => String(text).replace(HIDDEN, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

export const byId = (id) => document.getElementById(id);

/** Creates an element with attributes, event handlers (`onclick`) and children. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : SHOWN_ATTRIBUTES.has(name) ? visible(value) : value);
  }
  const present = children.filter((child) => child !== null && child !== undefined);
  element.append(...present.map((child) => (child instanceof Node ? child : visible(child))));
  return element;
}

/** Sets the text if it has changed. Unchanged text causes no layout and no screen reader output. Keeps line breaks. */
export function setText(element, text) {
  const next = String(text).split('\n').map(visible).join('\n');
  if (element.textContent !== next) element.textContent = next;
}

/** Sets an attribute if it has changed. */
export function setAttr(element, name, value) {
  const next = SHOWN_ATTRIBUTES.has(name) ? visible(value) : String(value);
  if (element.getAttribute(name) !== next) element.setAttribute(name, next);
}

/** Replaces the children if the data that they are built from has changed. */
export function rebuild(element, data, build) {
  const key = JSON.stringify(data);
  if (element.builtFrom === key) return;
  element.builtFrom = key;
  element.replaceChildren(...build());
}
