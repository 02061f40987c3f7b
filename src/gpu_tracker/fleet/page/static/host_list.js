// All hosts in order. Only those near what can be seen are drawn in full.

import { setChildren } from './elements.js';
import { HostCard } from './host_card.js';

const AHEAD = '60% 0px'; // of the window's height, above and below

export class HostList {
  #place;
  #frames;
  #past;
  #clock;
  #namesOf;
  #cards = new Map(); // by the host's id
  #observer;

  /** @param clock tells what the server's clock shows. @param namesOf what to call a host. */
  constructor(place, { frames, past, clock, namesOf }) {
    this.#place = place;
    this.#frames = frames;
    this.#past = past;
    this.#clock = clock;
    this.#namesOf = namesOf;
    this.#observer = new IntersectionObserver((entries) => this.#moved(entries), { rootMargin: AHEAD });
  }

  /** Show these hosts, in this order. @param entries of `{host, gpus}`. */
  show(entries, isCompact) {
    const cards = entries.map(({ host, gpus }) => {
      let card = this.#cards.get(host.id);
      if (card === undefined) {
        card = new HostCard();
        this.#cards.set(host.id, card);
        this.#observer.observe(card.element);
      }
      card.set(host, this.#namesOf(host), gpus, isCompact);
      if (card.isNear) this.#drawSoon(card);
      return card;
    });
    const wanted = new Set(cards);
    for (const [id, card] of this.#cards) if (!wanted.has(card)) this.#drop(id, card);
    setChildren(this.#place, cards.map((card) => card.element));
  }

  /** Show a host anew where it is shown at all. */
  update(host, gpus, isCompact) {
    const card = this.#cards.get(host.id);
    if (card === undefined) return;
    card.set(host, this.#namesOf(host), gpus, isCompact);
    if (card.isNear) this.#drawSoon(card);
  }

  /** Draw again what depends on the time or on the past. */
  refresh() {
    for (const card of this.#cards.values()) {
      if (!card.isNear) continue;
      this.#drawSoon(card, { isUrgent: false });
      this.#wantPast(card);
    }
  }

  /** Draw the lines of the past again for these hosts. */
  refreshPast(hostIds) {
    for (const id of hostIds) this.#drawPastSoon(this.#cards.get(id));
  }

  get holdsFocus() {
    return this.#place.contains(document.activeElement);
  }

  /** Return the button that opens a GPU, null where it is not drawn. */
  opener(hostId, key) {
    const card = this.#cards.get(hostId)?.element;
    return card?.querySelector(`[data-key="${CSS.escape(key)}"]`)?.closest('tr, .tile') ?? null;
  }

  #moved(entries) {
    for (const { target, isIntersecting, boundingClientRect: box } of entries) {
      const card = this.#cards.get(target.dataset.host);
      if (card?.element !== target) continue;
      card.isNear = isIntersecting;
      if (isIntersecting) {
        this.#drawSoon(card, { isUrgent: box.bottom > 0 && box.top < innerHeight });
        this.#wantPast(card);
      } else {
        this.#past.forget(card.host.id);
        this.#frames.add(card, () => this.#undraw(card), { isUrgent: false });
      }
    }
  }

  #drawSoon(card, options) {
    this.#frames.add(card, () => card.isNear && card.draw(this.#clock(), this.#past), options);
  }

  #wantPast(card) {
    this.#past.want(card.host.id, () => this.#drawPastSoon(card));
  }

  #drawPastSoon(card) {
    if (!card?.isNear) return;
    this.#frames.add(`past of ${card.host.id}`, () => card.drawPast(this.#past), { isUrgent: false });
  }

  #undraw(card) {
    // Whoever has gone there by keyboard must not lose the place.
    if (!card.isNear && !card.element.contains(document.activeElement)) card.undraw();
  }

  #drop(id, card) {
    this.#observer.unobserve(card.element);
    this.#frames.remove(card);
    this.#past.forget(id);
    this.#cards.delete(id);
  }
}
