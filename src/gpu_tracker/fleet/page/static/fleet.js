// The newest that is known of all hosts.

export class Fleet {
  hosts = new Map(); // by id
  totals = null;
  interval = null;
  #time = null;
  #received = 0;

  /** Take everything, as it comes first. */
  replace({ time, totals, hosts, interval_seconds: interval }) {
    this.hosts = new Map(hosts.map((host) => [host.id, host]));
    this.interval = interval;
    this.#take(time, totals);
  }

  /** Take what has changed; return what was known of those hosts until now, by their ids. */
  update({ time, totals, hosts }) {
    const replaced = new Map(hosts.map(({ id }) => [id, this.hosts.get(id)]));
    for (const host of hosts) this.hosts.set(host.id, host);
    this.#take(time, totals);
    return replaced;
  }

  /** The time of the newest figures, by the server's clock. */
  get time() {
    return this.#time;
  }

  /** What the server's clock shows now: the viewer's may be wrong. */
  get now() {
    return this.#time + (performance.now() - this.#received) / 1000;
  }

  #take(time, totals) {
    this.totals = totals;
    this.#time = time;
    this.#received = performance.now();
  }
}
