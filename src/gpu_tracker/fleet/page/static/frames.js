// Work that changes the page, done between two pictures and never so much at once that scrolling stutters.

const BUDGET = 4; // milliseconds of a picture's 16: laying out and painting what was done takes at least as long

export class Frames {
  #urgent = new Map();
  #later = new Map();
  #isAsked = false;

  /** Have `work` done soon; of several with the same key only the last is. Urgent is what can be seen now. */
  add(key, work, { isUrgent = true } = {}) {
    this.remove(key);
    (isUrgent ? this.#urgent : this.#later).set(key, work);
    this.#ask();
  }

  remove(key) {
    this.#urgent.delete(key);
    this.#later.delete(key);
  }

  #ask() {
    if (this.#isAsked) return;
    this.#isAsked = true;
    requestAnimationFrame(() => this.#work());
  }

  #work() {
    this.#isAsked = false;
    const end = performance.now() + BUDGET;
    for (const queue of [this.#urgent, this.#later]) {
      for (const [key, work] of queue) {
        queue.delete(key);
        work();
        if (performance.now() >= end) {
          if (this.#urgent.size + this.#later.size > 0) this.#ask();
          return;
        }
      }
    }
  }
}
