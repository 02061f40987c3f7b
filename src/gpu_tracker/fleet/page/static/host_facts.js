// What is known of a host as a whole, as plain data: for its heading, for filters and for sorting.

import { usersOf } from './gpu_facts.js';
import { isFree } from './status.js';

const STATES = {
  up: { sign: '●', word: 'up' },
  waiting: { sign: '…', word: 'not asked yet' },
  stale: { sign: '▲', word: 'stale' },
  down: { sign: '✕', word: 'down' },
};

export const NAMES = new Intl.Collator(undefined, { numeric: true });

const known = new WeakMap(); // each report is a new object: what was worked out of it stays true

/** Return `{kind, sign, word}`. */
export function stateOf(host) {
  const kind = Object.hasOwn(STATES, host.state) ? host.state : 'waiting';
  return { kind, ...STATES[kind] };
}

/** Return `{count, free, utilization, used, total, memory, temperature, user}`; null is unknown; old figures do not count. */
export function hostFacts(host) {
  let facts = known.get(host);
  if (facts === undefined) {
    facts = workedOut(host);
    known.set(host, facts);
  }
  return facts;
}

function workedOut(host) {
  const gpus = host.gpus ?? [];
  const isUp = host.state === 'up';
  const current = isUp ? gpus : [];
  const sized = current.filter((gpu) => gpu.memory_used_bytes !== null && gpu.memory_total_bytes !== null);
  const used = total(sized.map((gpu) => gpu.memory_used_bytes));
  const size = total(sized.map((gpu) => gpu.memory_total_bytes));
  const utilizations = numbers(current, 'utilization_percent');
  const temperatures = numbers(current, 'temperature_celsius');
  return {
    count: gpus.length,
    free: isUp ? current.filter(isFree).length : null,
    utilization: utilizations.length ? total(utilizations) / utilizations.length : null,
    used,
    total: size,
    memory: size ? (100 * used) / size : null,
    temperature: temperatures.length ? Math.max(...temperatures) : null,
    user: current.flatMap(usersOf).sort(NAMES.compare)[0] ?? null,
  };
}

function numbers(gpus, key) {
  return gpus.map((gpu) => gpu[key]).filter((value) => value !== null);
}

function total(values) {
  return values.length ? values.reduce((sum, value) => sum + value, 0) : null;
}
