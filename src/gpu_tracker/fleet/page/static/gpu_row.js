// The row of one GPU or MIG device.

import { element, fromTemplate, setAttribute, setText } from './elements.js';
import { Meter } from './meter.js';
import { sparkLabel, sparkPath } from './spark.js';
import { shownStatus } from './status.js';
import { ago, exactMoment, machineReadable } from './words.js';

export class GpuRow {
  #facts = null;
  #parts;
  #path = null;

  constructor() {
    this.element = fromTemplate('gpu-row');
    const part = (name) => this.element.querySelector(`.${name}`);
    this.#parts = {
      button: part('open'), sign: part('sign'), word: part('word'), model: part('model bdi'),
      spark: part('spark'), path: part('spark path'), temperature: part('temperature'), clock: part('clock'),
      power: part('power'), users: part('users bdi'), since: part('since'), program: part('program bdi'),
      status: part('status'),
    };
    this.utilization = new Meter(part('utilization .meter'), 'utilization');
    this.memory = new Meter(part('memory .meter'), 'memory in use');
  }

  /** @param facts those of gpu_facts.js. @param now of the server. */
  show(facts, now) {
    this.#showSince(facts, now);
    this.#showStatus(shownStatus(facts, now));
    if (facts === this.#facts) return;
    this.#facts = facts;
    const { element: row } = this;
    const parts = this.#parts;
    row.dataset.key = facts.key;
    row.dataset.status = facts.status.kind;
    row.classList.toggle('device', facts.isDevice);
    row.classList.toggle('broken', facts.problem !== null);
    setText(parts.button, facts.index);
    setAttribute(parts.button, 'aria-label', `GPU ${facts.index}: open its chart and processes`);
    setText(parts.model, facts.model);
    setAttribute(parts.model, 'title', facts.model);
    this.utilization.show(facts.utilization, facts.utilizationText);
    this.memory.show(facts.memory, facts.memoryText);
    for (const name of ['temperature', 'clock', 'power', 'users']) setText(parts[name], facts[name]);
    setAttribute(parts.users, 'title', facts.users || null);
    setText(parts.program, facts.problem ?? facts.program);
    setAttribute(parts.program, 'title', facts.problem ?? (facts.commands || facts.program || null));
  }

  /** @param values percentages, oldest first; null while they are not known. */
  showPast(values) {
    const path = values === null ? '' : sparkPath(values);
    if (path === this.#path) return;
    this.#path = path;
    this.#parts.path.setAttribute('d', path);
    const isDrawn = path !== '';
    setAttribute(this.#parts.spark, 'role', isDrawn ? 'img' : null);
    setAttribute(this.#parts.spark, 'aria-label', isDrawn ? sparkLabel(values) : null);
    setAttribute(this.#parts.spark, 'aria-hidden', isDrawn ? null : 'true');
  }

  #showStatus({ sign, word, explanation, isIdle }) {
    setText(this.#parts.sign, sign);
    setText(this.#parts.word, word);
    setAttribute(this.#parts.status, 'title', explanation);
    setAttribute(this.#parts.status, 'data-idle', isIdle ? '' : null);
  }

  #showSince({ since, sinceText }, now) {
    const place = this.#parts.since;
    if (since === null) {
      setText(place, sinceText);
      return;
    }
    const time = place.querySelector('time') ?? replacedBy(place, element('time'));
    setText(time, ago(now - since));
    setAttribute(time, 'datetime', machineReadable(since));
    setAttribute(time, 'title', exactMoment(since));
  }
}

function replacedBy(place, child) {
  place.replaceChildren(child);
  return child;
}
