// What hosts are called where there is little room: without the domain that they share, and cut in the middle.

import { element, setAttribute } from './elements.js';
import { printable } from './words.js';

// A domain name, with a port or without one; nothing else has a part that can be left out.
const DOMAIN_NAME = /^[^\s.:()[\]/]+(?:\.[^\s.:()[\]/]+)+(?::\d+)?$/;
const LABEL_WITH_LETTER = /\p{L}[^.]*$/u; // the last label of an address such as 10.0.0.7 has none
const SHORTEST_CUT = 14; // characters: a shorter name is never cut
const END = 8; // characters at the end of a name that stay: there the numbers of hosts are

/** Return what to call each of `names`, by name: without a suffix that others have too, but never alike. */
export function shortNames(names) {
  const all = [...new Set(names)];
  const counts = new Map();
  for (const name of all) for (const suffix of suffixesOf(name)) counts.set(suffix, (counts.get(suffix) ?? 0) + 1);
  // From the shortest form to the whole name.
  const forms = new Map(all.map((name) => {
    const shared = suffixesOf(name).filter((suffix) => counts.get(suffix) > 1);
    return [name, [...shared.map((suffix) => name.slice(0, -suffix.length)), name]];
  }));
  for (;;) {
    const taken = new Map();
    for (const [form] of forms.values()) taken.set(form, (taken.get(form) ?? 0) + 1);
    const longer = all.filter((name) => taken.get(forms.get(name)[0]) > 1 && forms.get(name).length > 1);
    if (longer.length === 0) return new Map(all.map((name) => [name, forms.get(name)[0]]));
    for (const name of longer) forms.get(name).shift();
  }
}

/** Return the domains in which a name is, the longest first, each with its dot and the name's port. */
function suffixesOf(name) {
  if (!DOMAIN_NAME.test(name) || !LABEL_WITH_LETTER.test(name.replace(/:\d+$/, ''))) return [];
  return [...name.matchAll(/\./g)].map(({ index }) => name.slice(index));
}

/**
 * Show a name: where there is no room for the whole, what is in its middle is missing.
 *
 * Its end is shown by the style sheet. As text it stands behind the rest without being seen, so that who searches the
 * page, or copies, has the name in one piece.
 */
export function showName(place, name) {
  const text = printable(name);
  if (place.textContent === text) return;
  const letters = [...text];
  const end = letters.length < SHORTEST_CUT ? '' : letters.splice(-Math.min(END, Math.floor(letters.length / 2))).join('');
  setAttribute(place, 'data-end', end || null);
  if (end) place.replaceChildren(element('span', { class: 'name-begin' }, letters.join(''), element('span', { class: 'name-end' }, end)));
  else place.replaceChildren(text);
}
