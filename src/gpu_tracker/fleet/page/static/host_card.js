// A host with its GPUs. Far from what can be seen, only its heading is in the document, at the height of the whole.

import { element, fromTemplate, setAttribute, setChildren, setText } from './elements.js';
import { gpuFacts, usersOf, withDevices } from './gpu_facts.js';
import { GpuRow } from './gpu_row.js';
import { GpuTile } from './gpu_tile.js';
import { hostFacts, stateOf } from './host_facts.js';
import { showName } from './host_names.js';
import { ago, counted, eachOnce, machineReadable, exactMoment, isMoment, moment, percent, printable, usedOf } from './words.js';

export class HostCard {
  isNear = false;
  #host = null;
  #hostname = null;
  #gpus = [];
  #isCompact = false;
  #facts = [];
  #rows = new Map(); // by the key of the GPU; empty while it is far away
  #parts = null;
  #heading;
  #name;

  constructor() {
    this.element = fromTemplate('host');
    this.#heading = this.element.querySelector('h3');
    this.#name = this.#heading.querySelector('bdi');
    this.element.classList.add('far');
  }

  get host() {
    return this.#host;
  }

  get isDrawn() {
    return this.#parts !== null;
  }

  /** Take what is to be shown of a host; it is drawn by `draw`. @param names what to call it where there is little room. */
  set(host, names, gpus, isCompact) {
    if (host !== this.#host || gpus !== this.#gpus) this.#facts = null;
    if (isCompact !== this.#isCompact) this.undraw();
    this.#host = host;
    this.#hostname = names.hostname;
    this.#gpus = gpus;
    this.#isCompact = isCompact;
    const { element: card } = this;
    setAttribute(card, 'data-host', host.id);
    setAttribute(card, 'data-state', stateOf(host).kind);
    showName(this.#name, names.name);
    const hostname = isBeginningOf(host.name, host.hostname) && host.hostname !== host.name ? host.hostname : null;
    setAttribute(this.#name, 'title', [host.name, hostname, host.url].filter(Boolean).map((text) => printable(text)).join(' · '));
    setAttribute(this.#heading, 'id', `host-${host.id}`);
    setAttribute(this.#heading, 'aria-label', printable(host.name));
    setAttribute(card, 'aria-labelledby', `host-${host.id}`);
    // How high it is while it is far away: in a compact card there is one note, or the GPUs.
    const notes = notesOf(host).length;
    setAttribute(card, 'data-empty', gpus.length === 0 ? '' : null);
    card.style.setProperty('--users', notes === 0 && gpus.some((gpu) => usersOf(gpu).length > 0) ? 1 : 0);
    card.style.setProperty('--notes', gpus.length === 0 ? 0 : isCompact ? Math.min(1, notes) : notes);
    card.style.setProperty('--rows', isCompact && notes > 0 ? 0 : gpus.reduce((count, gpu) => count + 1 + (gpu.mig_devices?.length ?? 0), 0));
  }

  /** Put everything into the document, or what has changed of it. */
  draw(now, past) {
    this.#facts ??= withDevices(this.#gpus).map(({ gpu, parent }) => gpuFacts(gpu, parent));
    if (this.#parts === null) this.#build();
    this.#showHeading(now);
    const rows = this.#facts.map((facts) => this.#rowOf(facts, now));
    setChildren(this.#parts.rows, rows.map((row) => row.element));
    const wanted = new Set(this.#facts.map(({ key }) => key));
    for (const key of this.#rows.keys()) if (!wanted.has(key)) this.#rows.delete(key);
    this.drawPast(past);
  }

  /** Draw the lines of the last half hour. */
  drawPast(past) {
    for (const [key, row] of this.#rows) row.showPast(past.of(this.#host.id, key)?.utilization ?? null);
  }

  /** Leave the heading only. */
  undraw() {
    if (this.#parts === null) return;
    for (const part of [this.#parts.facts, this.#parts.users, this.#parts.notes, this.#parts.body]) part.remove();
    this.#parts = null;
    this.#rows.clear();
    this.element.classList.add('far');
  }

  #build() {
    const body = this.#isCompact ? element('div', { class: 'tiles' }) : fromTemplate('gpus');
    const facts = fromTemplate('host-facts');
    const part = (name) => facts.querySelector(`.${name}`);
    this.#parts = {
      body, facts, notes: element('div', { class: 'notes' }), users: element('bdi', { class: 'host-users' }), rows: this.#isCompact ? body : body.tBodies[0],
      sign: part('sign'), word: part('word'), group: part('group'), hostname: part('hostname'), free: part('free'),
      utilization: part('host-utilization'), memory: part('host-memory'), agent: part('agent'),
    };
    this.element.querySelector('header').append(facts);
    this.element.append(this.#parts.users, this.#parts.notes, body);
    this.element.classList.remove('far');
  }

  #rowOf(facts, now) {
    let row = this.#rows.get(facts.key);
    if (row === undefined) {
      row = this.#isCompact ? new GpuTile() : new GpuRow();
      this.#rows.set(facts.key, row);
    }
    row.show(facts, now);
    return row;
  }

  #showHeading(now) {
    const host = this.#host;
    const parts = this.#parts;
    const state = stateOf(host);
    const facts = hostFacts(host);
    setText(parts.sign, state.sign);
    setText(parts.word, state.word);
    setText(parts.group, host.group === null ? '' : printable(host.group));
    showName(parts.hostname, host.hostname === null || isBeginningOf(host.name, host.hostname) ? '' : this.#hostname);
    setAttribute(parts.hostname, 'title', host.hostname === null ? null : printable(host.hostname));
    setText(parts.free, freeWords(host, facts, this.#gpus.length));
    parts.utilization.hidden = facts.utilization === null;
    setText(parts.utilization.querySelector('.figure'), facts.utilization === null ? '' : percent(facts.utilization));
    setText(parts.memory, facts.used === null ? '' : `memory ${usedOf(facts.used, facts.total)}`);
    setText(parts.agent, host.agent === null ? '' : printable(host.agent));
    if (!this.#isCompact && this.#parts.body.caption) {
      setText(this.#parts.body.caption, `GPUs of ${printable(host.name)}`);
      this.#parts.body.hidden = this.#facts.length === 0;
    }
    const users = eachOnce(this.#gpus.flatMap(usersOf));
    setText(parts.users, users);
    setAttribute(parts.users, 'title', users || null);
    this.#showNotes(host, now);
  }

  #showNotes(host, now) {
    const notes = notesOf(host);
    if (notes.length === 0) {
      if (this.#parts.notes.firstChild) this.#parts.notes.replaceChildren();
      return;
    }
    setChildren(this.#parts.notes, notes.map((note, place) => {
      const line = this.#parts.notes.children[place] ?? element('p', { class: 'note' }, element('bdi'), ' ', element('span'));
      setText(line.firstChild, note.text);
      setAttribute(line.firstChild, 'title', note.text);
      showLastSeen(line.lastChild, note.lastSeen, now);
      return line;
    }));
  }
}

/** Whether a host calls itself as it is called here, or by its whole domain name. */
function isBeginningOf(name, hostname) {
  return hostname === name || (hostname ?? '').startsWith(`${name}.`);
}

/** Return what is wrong with a host, as `{text, lastSeen}`; lastSeen is undefined where it does not matter. */
function notesOf(host) {
  const notes = [];
  if (host.state === 'down' || host.state === 'stale') {
    notes.push({ text: printable(host.error ?? stateOf(host).word), lastSeen: host.last_seen });
  }
  for (const problem of [host.driver_problem, host.claims_problem, host.jobs_problem]) {
    if (problem && problem !== host.error) notes.push({ text: printable(problem) });
  }
  return notes;
}

function showLastSeen(place, lastSeen, now) {
  if (lastSeen === undefined) {
    setText(place, '');
  } else if (!isMoment(lastSeen)) {
    setText(place, 'never seen');
  } else {
    const time = place.querySelector('time') ?? element('time');
    setText(time, `${moment(lastSeen, now)} (${ago(now - lastSeen)})`);
    setAttribute(time, 'datetime', machineReadable(lastSeen));
    setAttribute(time, 'title', exactMoment(lastSeen));
    if (time.parentNode !== place) place.replaceChildren('last seen ', time);
  }
}

function freeWords({ gpus }, { count, free }, shown) {
  const some = shown < count ? `, ${shown} shown` : '';
  if (count === 0) return gpus === null ? '' : 'no GPUs';
  return free === null ? `${counted(count, 'GPU')}, state not known${some}` : `${free} of ${count} free${some}`;
}
