// A bar with its number, which assistive technology reads as one labelled figure.

import { setAttribute, setText } from './elements.js';

export class Meter {
  #element;
  #fill;
  #text;
  #label;
  #share;

  /** @param {Element} place holds a `.fill` and a `.figure`. */
  constructor(place, label) {
    this.#element = place;
    this.#fill = place.querySelector('.fill');
    this.#text = place.querySelector('.figure');
    this.#label = label;
  }

  /** @param share in percent; null: unknown, then there is no bar, only the text, and that is what is read. */
  show(share, text) {
    setText(this.#text, text);
    const isKnown = share !== null;
    setAttribute(this.#element, 'aria-valuetext', isKnown ? text : null);
    if (share === this.#share) return;
    this.#share = share;
    setAttribute(this.#element, 'role', isKnown ? 'meter' : null);
    setAttribute(this.#element, 'aria-label', isKnown ? this.#label : null);
    setAttribute(this.#element, 'aria-valuenow', isKnown ? Math.round(share) : null);
    setAttribute(this.#element, 'aria-valuemin', isKnown ? 0 : null);
    setAttribute(this.#element, 'aria-valuemax', isKnown ? 100 : null);
    this.#element.classList.toggle('unknown', !isKnown);
    this.#fill.style.width = `${isKnown ? Math.min(100, Math.max(0, share)) : 0}%`;
  }
}
