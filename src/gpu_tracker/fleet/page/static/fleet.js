// The newest that is known of all hosts.

import { shortNames } from './host_names.js';

export class Fleet {
  hosts = new Map(); // by id
  totals = null;
  interval = null;
  #names = new Map(); // what hosts are called where there is little room, by their names
  #hostnames = new Map(); // the same of what they call themselves
  #time = null;
  #received = 0;

  /** Take everything, as it comes first. */
  replace({ time, totals, hosts, interval_seconds: interval }) {
    this.hosts = new Map(hosts.map((host) => [host.id, host]));
    this.interval = interval;
    this.#nameHosts();
    this.#take(time, totals);
  }

  /** Take what has changed; return what was known of those hosts until now, by their ids. */
  update({ time, totals, hosts }) {
    const replaced = new Map(hosts.map(({ id }) => [id, this.hosts.get(id)]));
    for (const host of hosts) this.hosts.set(host.id, host);
    const isNamed = ({ id, name, hostname }) => replaced.get(id)?.name === name && replaced.get(id).hostname === hostname;
    if (!hosts.every(isNamed)) this.#nameHosts();
    this.#take(time, totals);
    return replaced;
  }

  /** Return what to call a host on its card: `{name, hostname}`. */
  namesOf({ name, hostname }) {
    return { name: this.#names.get(name) ?? name, hostname: this.#hostnames.get(hostname) ?? hostname };
  }

  /** The time of the newest figures, by the server's clock. */
  get time() {
    return this.#time;
  }

  /** What the server's clock shows now: the viewer's may be wrong. */
  get now() {
    return this.#time + (performance.now() - this.#received) / 1000;
  }

  #nameHosts() {
    const hosts = [...this.hosts.values()];
    this.#names = shortNames(hosts.map(({ name }) => name));
    this.#hostnames = shortNames(hosts.map(({ hostname }) => hostname).filter((hostname) => hostname !== null));
  }

  #take(time, totals) {
    this.totals = totals;
    this.#time = time;
    this.#received = performance.now();
  }
}
