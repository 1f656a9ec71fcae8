// Elements, made and updated. No text becomes markup here.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

/** An element with properties (`class` too) and children: nodes or text. */
export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") node.className = value;
    else if (name.includes("-") || name === "role") node.setAttribute(name, value);
    else node[name] = value;
  }
  node.append(...children);
  return node;
}

/** A labelled input of a form. */
export function field(name, label, value, required = true) {
  const input = el("input", { name, value, required, autocomplete: "off", spellcheck: false });
  return el("label", {}, label, input);
}

/** A labelled choice of a form: of values and their texts. */
export function choice(name, label, options) {
  const list = options.map(([value, text]) => el("option", { value }, text));
  return el("label", {}, label, el("select", { name }, ...list));
}

/** An SVG element with attributes. */
export function svg(tag, attributes = {}) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

/** Sets a text, if it is another one: an unchanged text costs no layout. */
export function setText(node, text) {
  if (node.shown !== text) {
    node.shown = text;
    // The same text node with another text: no rule of style depends on that.
    const only = node.firstChild;
    if (only?.nodeType === Node.TEXT_NODE && only === node.lastChild) only.data = text;
    else node.textContent = text;
  }
}

/** Sets an attribute, if its value is another one. */
export function setAttribute(node, name, value) {
  const text = String(value);
  if (node.getAttribute(name) !== text) node.setAttribute(name, text);
}

/** The nodes of `keys` in `parent` in their order: made when new, removed when gone. */
export function keyed(parent, known, keys, make) {
  const wanted = new Set(keys);
  for (const [key, node] of known) {
    if (!wanted.has(key)) {
      node.remove();
      known.delete(key);
    }
  }
  let at = parent.firstElementChild;
  for (const key of keys) {
    let node = known.get(key);
    if (!node) {
      node = make(key);
      known.set(key, node);
    }
    if (node === at) at = at.nextElementSibling;
    else parent.insertBefore(node, at);
  }
}
