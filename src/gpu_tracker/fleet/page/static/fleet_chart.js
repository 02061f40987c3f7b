// The whole fleet in the last half hour: its chart, which can be folded, and the same in words.

import { Chart } from './chart.js';
import { setAttribute, setText } from './elements.js';
import { extend, HALF_HOUR } from './past.js';
import { percent, share, UNKNOWN } from './words.js';

const HEIGHT = 120;
const COUNTS = { known: 'GPUs known', up: 'hosts up' };
const SERIES = ['utilization', 'memory', ...Object.keys(COUNTS)];

export class FleetChart {
  #details;
  #chart;
  #past = null; // {step, end} and the series
  #request = null; // the one that is under way
  #newest = {}; // of the series
  #begun = null; // when the first totals came
  #isLate = false; // more than two rounds ago
  #part = (name) => this.#details.querySelector(`.${name}`);

  /** @param chosen is called with whether the viewer wants to see the chart. */
  constructor(details, chosen) {
    this.#details = details;
    this.#chart = new Chart(this.#part('chart'), { height: HEIGHT, marks: 50, counts: Object.values(COUNTS) });
    details.querySelector('summary').addEventListener('click', (event) => {
      event.preventDefault(); // it is unfolded where the choice is taken
      chosen(!details.open);
    });
  }

  /** Unfold it, or fold it. */
  unfold(isOpen) {
    if (this.#details.open === isOpen) return;
    this.#details.open = isOpen;
    this.#draw();
  }

  /** Have the half hour fetched anew: something is missing in what is known of it. */
  renew() {
    this.#past = null;
    this.#fetch();
  }

  /** Have it fetched if that has failed before. */
  fetchIfMissing() {
    if (this.#past === null && this.#request === null) this.#fetch();
  }

  /** Go on with the newest totals of the fleet. @param interval seconds between two rounds. */
  goOn(totals, time, interval) {
    this.#begun ??= time;
    this.#isLate = time - this.#begun > 2 * interval;
    const before = this.#newest;
    this.#newest = figuresOf(totals);
    const past = this.#past;
    if (past === null) return;
    const steps = Math.max(0, Math.ceil((time - past.end) / past.step));
    past.end += steps * past.step;
    const wasMissing = past.utilization.at(-1) === null;
    for (const name of SERIES) extend(past[name], steps, before[name] ?? null, this.#newest[name]);
    if (steps > 0 || wasMissing || this.#isLate) this.#draw();
  }

  async #fetch() {
    const request = {};
    this.#request = request;
    let past = null;
    try {
      const answer = await fetch(`api/v1/fleet/history?seconds=${HALF_HOUR}`);
      if (!answer.ok) throw new Error(`history of the fleet: ${answer.status}`);
      past = pastOf(await answer.json());
    } catch {
      // The figures themselves are still right: the chart stays as it was, and it is asked for again.
    }
    if (this.#request !== request) return;
    this.#request = null;
    if (past === null) return;
    this.#past = past;
    this.#draw();
  }

  #draw() {
    const past = this.#past;
    if (past === null) return;
    const isKnown = [...past.utilization, ...past.memory].some((value) => value !== null);
    const words = wordsOf(past);
    setText(this.#part('means'), isKnown ? words.means : this.#isLate ? UNKNOWN : 'not known yet');
    const isDrawn = isKnown && this.#details.open;
    this.#part('chart').hidden = !isDrawn;
    if (!isDrawn) {
      this.#chart.clear();
      return;
    }
    setAttribute(this.#part('chart'), 'aria-label', `Chart of the whole fleet, last half hour: ${words.all}`);
    const times = past.utilization.map((_, place) => past.end - (past.utilization.length - 1 - place) * past.step);
    this.#chart.show(times, { ...past, counts: Object.keys(COUNTS).map((name) => past[name]) });
  }
}

function pastOf({ end, step_seconds: step, utilization_percent: utilization, memory_used_percent: memory, gpus_known: known, hosts_up: up }) {
  return { end, step, utilization, memory, known, up };
}

function figuresOf(totals) {
  return {
    utilization: totals.utilization_percent,
    memory: share(totals.memory_used_bytes, totals.memory_total_bytes),
    known: totals.gpus === null ? null : totals.gpus - totals.unknown,
    up: totals.hosts_up,
  };
}

/** Return what the chart shows: `means` in short, `all` for those who cannot see it. */
function wordsOf({ utilization, memory }) {
  const both = { utilization, memory };
  const listed = Object.entries(both).map(([name, values]) => {
    const known = values.filter((value) => value !== null);
    if (!known.length) return { short: `${name} ${UNKNOWN}`, long: `${name} not known` };
    const mean = percent(known.reduce((sum, value) => sum + value, 0) / known.length);
    const [least, most, last] = [Math.min(...known), Math.max(...known), values.at(-1)].map((value) => (value === null ? 'not known' : percent(value)));
    return { short: `${name} ${mean}`, long: `${name} mean ${mean}, from ${least} to ${most}, now ${last}` };
  });
  return { means: `means: ${listed.map(({ short }) => short).join(', ')}`, all: listed.map(({ long }) => long).join('; ') };
}
