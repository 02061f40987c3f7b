// Who holds GPUs, over all hosts that are up: one line for each user.

import { fromTemplate, setAttribute, setChildren, setText } from './elements.js';
import { ownProcesses, withDevices } from './gpu_facts.js';
import { hostFacts } from './host_facts.js';
import { IDLE_LONG } from './status.js';
import { counted, lasting, percent, printable, sizeOf } from './words.js';

const MOST_LINES = 100;
const UNSEEN = '?';
const HELD = ['in_use', 'in_use_unseen', 'claimed'];

export class Users {
  #place;
  #details;
  #lines = new Map(); // by the user
  #hosts = [];
  #now = 0;

  constructor(place) {
    this.#place = place;
    this.#details = place.querySelector('details');
    this.#details.addEventListener('toggle', () => this.#draw());
  }

  /** @param hosts all of them. @param now what the server's clock shows. */
  show(hosts, now) {
    this.#hosts = [...hosts];
    this.#now = now;
    this.#draw();
  }

  #draw() {
    const now = this.#now;
    this.#place.hidden = !this.#hosts.some((host) => hostFacts(host).user !== null);
    if (!this.#details.open) return; // a fleet has many thousand GPUs
    const users = holders(this.#hosts);
    const lines = users.slice(0, MOST_LINES).map((user) => [user.user, this.#line(user, now)]);
    setChildren(this.#place.querySelector('tbody'), lines.map(([, line]) => line));
    this.#lines = new Map(lines);
  }

  #line({ user, gpus, memory, busy, idle, idleSince }, now) {
    const line = this.#lines.get(user) ?? fromTemplate('user-line');
    const cell = (name) => line.querySelector(`.u-${name}`);
    setText(cell('name').querySelector('bdi'), printable(user));
    setText(cell('gpus'), `${gpus}`);
    setText(cell('memory'), sizeOf(memory));
    setText(cell('busy'), percent(busy));
    setText(cell('idle'), idle === 0 ? '' : `${counted(idle, 'GPU')}, ${lasting(now - idleSince)}`);
    setAttribute(cell('idle'), 'data-idle', idle > 0 && now - idleSince > IDLE_LONG ? '' : null);
    return line;
  }
}

/** Return `{user, gpus, memory, busy, idle, idleSince}` of each user, those with most GPUs first; null is unknown. */
export function holders(hosts) {
  const found = new Map();
  for (const host of hosts) {
    for (const gpu of host.state === 'up' ? host.gpus ?? [] : []) {
      for (const [user, memory] of memoryOfUsers(gpu)) {
        if (!found.has(user)) found.set(user, []);
        found.get(user).push({ gpu, memory });
      }
    }
  }
  const users = [...found].map(([user, held]) => {
    const known = held.map(({ gpu }) => gpu.utilization_percent).filter((value) => value !== null);
    const idle = held.map(({ gpu }) => gpu.idle_since).filter((since) => since !== null);
    return {
      user,
      gpus: held.length,
      memory: held.reduce((sum, { memory }) => added(sum, memory), 0),
      busy: known.length === held.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null,
      idle: idle.length,
      idleSince: idle.length ? Math.min(...idle) : null,
    };
  });
  return users.sort((one, other) => other.gpus - one.gpus || (one.user < other.user ? -1 : 1));
}

/** Return the bytes of each user on a GPU and its MIG devices; a claim needs none. */
function memoryOfUsers(gpu) {
  const held = new Map();
  const add = (user, bytes) => held.set(user ?? UNSEEN, added(held.get(user ?? UNSEEN) ?? 0, bytes));
  for (const { gpu: part } of withDevices([gpu])) {
    for (const process of ownProcesses(part) ?? []) if (process.computes !== false) add(process.user, process.memory_bytes);
    if (part.claim) add(part.claim.user, 0);
  }
  if (held.size === 0 && HELD.includes(gpu.status)) held.set(UNSEEN, null);
  return held;
}

function added(sum, bytes) {
  return sum === null || bytes === null ? null : sum + bytes;
}
