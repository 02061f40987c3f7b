// Small changes to the document: nothing is touched that already is as it should be, and nothing is parsed as HTML.

const SVG = 'http://www.w3.org/2000/svg';

/** Make an element. `texts` become its text nodes or children. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) setAttribute(made, attribute, value);
  made.append(...children);
  return made;
}

export function svgElement(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  made.append(...children);
  return made;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Set an attribute; null takes it away. */
export function setAttribute(node, name, value) {
  if (value === null || value === undefined) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== `${value}`) {
    node.setAttribute(name, value);
  }
}

/** Make the children of `parent` these, in this order, moving as few as possible. */
export function setChildren(parent, children) {
  let place = parent.firstChild;
  for (const child of children) {
    if (child === place) place = place.nextSibling;
    else parent.insertBefore(child, place);
  }
  while (place !== null) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

/** Return a copy of what is in a template of the page. */
export function fromTemplate(id) {
  return document.getElementById(id).content.firstElementChild.cloneNode(true);
}
