// A GPU in a compact row of its host: which one, its sign and how busy it is; more is told when it is opened.

import { element, setAttribute, setText } from './elements.js';
import { shownStatus } from './status.js';

export class GpuTile {
  #index = element('span', { class: 'index' });
  #sign = element('span', { class: 'sign' });
  #figure = element('span', { class: 'figure' });
  #fill = element('span', { class: 'fill' });

  constructor() {
    this.element = element('button', { class: 'tile open', type: 'button' }, this.#fill, this.#index, ' ', this.#sign, ' ', this.#figure);
  }

  show(facts, now) {
    const { element: tile } = this;
    const status = shownStatus(facts, now);
    tile.dataset.key = facts.key;
    tile.dataset.status = facts.status.kind;
    tile.classList.toggle('device', facts.isDevice);
    setText(this.#index, facts.index);
    setText(this.#sign, status.sign);
    setAttribute(tile, 'data-idle', status.isIdle ? '' : null);
    setText(this.#figure, facts.utilizationText);
    this.#fill.style.width = `${Math.min(100, facts.utilization ?? 0)}%`;
    const told = [`GPU ${facts.index}`, facts.model, status.word, facts.utilizationText, facts.users, facts.problem ?? ''];
    const label = told.filter(Boolean).join(', ');
    setAttribute(tile, 'aria-label', label);
    setAttribute(tile, 'title', label);
  }

  showPast() {} // there is no room for it
}
