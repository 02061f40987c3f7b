// The last half hour of the hosts that are looked at: fetched once for each, then continued with what comes in live.

export const HALF_HOUR = 1800; // seconds
const AT_ONCE = 3; // requests
const SERIES = ['utilization', 'memory'];

export class Past {
  #hosts = new Map(); // by the host's id: {step, end, gpus: Map of series by key}
  #asked = new Map(); // by the host's id: the request that is under way
  #waiting = new Map(); // by the host's id: what to call when it is there
  #running = 0;

  /** Return `{utilization, memory}` of a GPU, lists of percentages, oldest first; null while it is not known. */
  of(hostId, key) {
    return this.#hosts.get(hostId)?.gpus.get(key) ?? null;
  }

  /** Return the times of those lists, in seconds since 1970. */
  times(hostId, count) {
    const { step, end } = this.#hosts.get(hostId);
    return Array.from({ length: count }, (_, place) => end - (count - 1 - place) * step);
  }

  /** Have it fetched unless it is there already; `whenThere` is called in any case. */
  want(hostId, whenThere) {
    if (this.#hosts.has(hostId)) {
      whenThere();
      return;
    }
    this.#waiting.set(hostId, [...(this.#waiting.get(hostId) ?? []), whenThere]);
    this.#fetchMore();
  }

  /** Nobody looks any more: what was not fetched yet need not be, and what was is not kept. */
  forget(hostId) {
    this.#waiting.delete(hostId);
    this.#hosts.delete(hostId);
  }

  /** After a gap in the stream the lists are asked for anew, and answers to what was asked before do not count. */
  forgetAll() {
    this.#hosts.clear();
    this.#asked.clear();
    this.#fetchMore();
  }

  /**
   * Go on with the newest figures of all hosts, and return the ids of those that have become longer.
   *
   * @param replaced what was known, up to this moment, of the hosts that have changed: where a host was down its line
   * has a gap, though it is up now.
   */
  goOn(hosts, replaced, time) {
    const longer = [];
    for (const [hostId, past] of this.#hosts) {
      const host = hosts.get(hostId);
      if (!host) continue;
      const steps = Math.max(0, Math.ceil((time - past.end) / past.step));
      if (steps > 0) longer.push(hostId);
      past.end += steps * past.step;
      const now = figuresOf(host);
      const before = replaced.has(hostId) ? figuresOf(replaced.get(hostId)) : now;
      for (const [key, series] of past.gpus) {
        for (const name of SERIES) extend(series[name], steps, before.get(key)?.[name] ?? null, now.get(key)?.[name] ?? null);
      }
    }
    return longer;
  }

  #fetchMore() {
    for (const hostId of this.#waiting.keys()) {
      if (this.#running >= AT_ONCE) return;
      if (this.#asked.has(hostId)) continue;
      this.#running += 1;
      this.#fetch(hostId).finally(() => {
        this.#running -= 1;
        this.#fetchMore();
      });
    }
  }

  async #fetch(hostId) {
    const request = {};
    this.#asked.set(hostId, request);
    let past = null;
    try {
      const answer = await fetch(`api/v1/history?host=${encodeURIComponent(hostId)}&seconds=${HALF_HOUR}`);
      if (!answer.ok) throw new Error(`history of host ${hostId}: ${answer.status}`);
      past = pastOf(await answer.json());
    } catch {
      // The figures themselves are still right: no line is drawn, and the next look asks again.
    }
    if (this.#asked.get(hostId) !== request) return;
    this.#asked.delete(hostId);
    const called = this.#waiting.get(hostId);
    this.#waiting.delete(hostId);
    if (past === null || called === undefined) return; // undefined: forgotten meanwhile
    this.#hosts.set(hostId, past);
    for (const whenThere of called) whenThere();
  }
}

function pastOf({ end, step_seconds: step, gpus }) {
  const series = Object.entries(gpus).map(([key, { utilization_percent: utilization, memory_used_percent: memory }]) => [
    key, { utilization, memory },
  ]);
  return { end, step, gpus: new Map(series) };
}

function figuresOf(host) {
  return new Map(host?.state === 'up' ? currentOf(host.gpus ?? []) : []);
}

function* currentOf(gpus) {
  for (const gpu of gpus) {
    const isSized = gpu.memory_used_bytes !== null && gpu.memory_total_bytes > 0;
    const memory = isSized ? (100 * gpu.memory_used_bytes) / gpu.memory_total_bytes : null;
    yield [gpu.key, { utilization: gpu.utilization_percent, memory }];
    yield* currentOf(gpu.mig_devices ?? []);
  }
}

/** Drop as many of the oldest as are added; as long as nothing was told of a host it was as before. */
export function extend(values, steps, before, now) {
  if (steps === 0 && values.length && values.at(-1) === null) values[values.length - 1] = now; // the step had no report yet
  const count = Math.min(steps, values.length);
  values.splice(0, count);
  for (let step = 1; step < count; step += 1) values.push(before);
  if (count > 0) values.push(now);
}
