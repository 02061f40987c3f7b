// The running jobs, over all hosts on which an agent reads their folders: one line for each step of a job.

import { fromTemplate, setAttribute, setChildren, setText } from './elements.js';
import { showName } from './host_names.js';
import { ago, eachOnce, exactMoment, figure, isMoment, printable, sizeOf, UNKNOWN } from './words.js';

const MOST_LINES = 100; // more are not read, and the hosts stand below
const MOST_NAMES = 50; // of hosts in a tooltip
const SUMS = ['cpu_seconds', 'cpu_cores', 'memory_max_bytes', 'gpu_memory_max_bytes'];
const TELL = ['up', 'stale']; // the states of hosts whose jobs are known: a driver that hangs does not matter to them

export class Jobs {
  #place;
  #lines = new Map(); // by the key of the job
  #part = (name) => this.#place.querySelector(`.${name}`);

  /** @param isUnfolded whether there is room for all of it at first. */
  constructor(place, isUnfolded) {
    this.#place = place;
    place.querySelector('details').open = isUnfolded;
  }

  /** @param hosts all of them. @param now what the server's clock shows. */
  show(hosts, now) {
    const jobs = runningJobs(hosts);
    this.#place.hidden = jobs.length === 0;
    setText(this.#part('count'), `${new Set(jobs.map(({ of }) => of)).size} running`);
    setText(this.#part('more'), jobs.length > MOST_LINES ? `and ${jobs.length - MOST_LINES} more that began earlier` : '');
    const shown = jobs.slice(0, MOST_LINES);
    setChildren(this.#place.querySelector('tbody'), shown.map((job) => this.#line(job, now)));
    const keys = new Set(shown.map(({ key }) => key));
    for (const key of this.#lines.keys()) if (!keys.has(key)) this.#lines.delete(key);
  }

  #line(job, now) {
    let line = this.#lines.get(job.key);
    if (line === undefined) {
      line = fromTemplate('job-line');
      this.#lines.set(job.key, line);
    }
    const cell = (name) => line.querySelector(`.j-${name}`);
    showName(cell('name').querySelector('bdi'), job.name);
    setAttribute(cell('name'), 'title', job.title);
    setText(cell('step'), job.step === null ? '' : printable(job.step));
    setText(cell('ranks'), job.expected === null ? `${job.ranks}` : `${job.ranks} of ${job.expected}`);
    setText(cell('hosts'), `${job.hosts.length}`);
    setAttribute(cell('hosts'), 'title', hostNames(job.hosts));
    const isKnown = isMoment(job.started);
    setText(cell('since'), isKnown ? ago(now - job.started) : UNKNOWN);
    setAttribute(cell('since'), 'title', isKnown ? exactMoment(job.started) : null);
    setText(cell('cpu'), job.cpu_cores === null ? UNKNOWN : figure(job.cpu_cores, ' cores', 1));
    setAttribute(cell('cpu'), 'title', job.cpu_seconds === null ? null : `CPU time ${figure(job.cpu_seconds / 3600, ' h', 1)}`);
    setText(cell('memory'), sizeOf(job.memory_max_bytes));
    setText(cell('gpu-memory'), sizeOf(job.gpu_memory_max_bytes));
    return line;
  }
}

/** Return the steps of jobs that run on these hosts, those that began last first. */
export function runningJobs(hosts) {
  const found = new Map();
  for (const host of hosts) {
    if (!TELL.includes(host.state)) continue;
    for (const part of host.jobs ?? []) {
      const key = JSON.stringify([part.job, part.folder, part.step]);
      if (!found.has(key)) found.set(key, []);
      found.get(key).push({ host, part });
    }
  }
  const jobs = [...found].map(([key, entries]) => together(key, entries));
  return jobs.sort((one, other) => (other.started ?? 0) - (one.started ?? 0) || (one.key < other.key ? -1 : 1));
}

function together(key, entries) {
  const parts = entries.map(({ part }) => part);
  const [{ job, folder, step, launcher }] = parts;
  const known = (name) => parts.map((part) => part[name]).filter((value) => value !== null);
  // Ranks that have just begun have no figures yet.
  const measured = parts.filter((part) => SUMS.some((name) => part[name] !== null));
  const sum = (name) => {
    const values = measured.map((part) => part[name]);
    return values.length && !values.includes(null) ? values.reduce((total, value) => total + value, 0) : null;
  };
  const expected = known('ranks_expected');
  const started = known('started');
  return {
    key,
    of: JSON.stringify([job, folder]),
    name: job ?? folder ?? UNKNOWN,
    title: [job, folder, launcher].filter(Boolean).map((text) => printable(text)).join(' · '),
    step,
    ranks: parts.reduce((total, { ranks }) => total + ranks, 0),
    expected: expected.length ? Math.max(...expected) : null,
    hosts: entries.map(({ host }) => host.name),
    started: started.length ? Math.min(...started) : null,
    ...Object.fromEntries(SUMS.map((name) => [name, sum(name)])),
  };
}

function hostNames(names) {
  const listed = eachOnce(names.slice(0, MOST_NAMES));
  return names.length > MOST_NAMES ? `${listed} and ${names.length - MOST_NAMES} more` : listed;
}
