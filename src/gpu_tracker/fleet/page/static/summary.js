// The fleet in a few figures, at the top, in the title of the window and for screen readers.

import { setAttribute, setText } from './elements.js';
import { Meter } from './meter.js';
import { counted, percent, share, usedOf, UNKNOWN } from './words.js';

const KINDS = ['free', 'in_use', 'unseen', 'unknown'];
const PAUSE = 15_000; // milliseconds between two announcements: a screen reader must not be kept busy

export class Summary {
  #place;
  #title = document.title;
  #spoken;
  #wanted = '';
  #lastSpoken = -PAUSE;
  #timer = null;

  /** @param spoken the live region. */
  constructor(place, spoken) {
    this.#place = place;
    this.#spoken = spoken;
    this.memory = new Meter(place.querySelector('.total-memory .meter'), 'memory in use');
    this.utilization = new Meter(place.querySelector('.mean-utilization .meter'), 'mean utilization');
  }

  show(totals) {
    for (const kind of KINDS) {
      setText(this.#place.querySelector(`.kind.${kind} .number`), `${totals[kind] ?? UNKNOWN}`);
      const part = this.#place.querySelector(`.share .${kind}`);
      part.style.flexGrow = totals[kind] ?? 0;
      part.hidden = !totals[kind];
    }
    this.#place.querySelector('.kind.unknown').hidden = !totals.unknown;
    setText(this.#place.querySelector('.all-gpus .number'), `${totals.gpus ?? UNKNOWN}`);
    setText(this.#place.querySelector('.hosts-up .number'), `${totals.hosts_up}`);
    setText(this.#place.querySelector('.hosts-up .of'), ` of ${totals.hosts}`);
    setAttribute(this.#place.querySelector('.hosts-up'), 'data-some-down', totals.hosts_up < totals.hosts ? '' : null);
    const { memory_used_bytes: used, memory_total_bytes: total, utilization_percent: utilization } = totals;
    this.memory.show(share(used, total), usedOf(used, total));
    this.utilization.show(utilization, utilization === null ? UNKNOWN : percent(utilization));
    const areKnown = totals.gpus !== null; // no host has told of its GPUs yet where not
    document.title = areKnown ? `${totals.free} free · ${this.#title}` : this.#title;
    const free = areKnown ? `${totals.free} of ${counted(totals.gpus, 'GPU')} free` : 'GPUs not known';
    this.say(`${free}, ${totals.hosts_up} of ${counted(totals.hosts, 'host')} up`);
  }

  /** What is shown is not of now: the title makes no promise. */
  isOld() {
    document.title = this.#title;
  }

  /** Have a screen reader say it, when it has not been spoken to lately. */
  say(text) {
    this.#wanted = text;
    if (this.#timer !== null) return;
    const wait = Math.max(0, this.#lastSpoken + PAUSE - performance.now());
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#lastSpoken = performance.now();
      setText(this.#spoken, this.#wanted);
    }, wait);
  }
}
