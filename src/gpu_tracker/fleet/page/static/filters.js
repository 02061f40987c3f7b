// Which hosts and GPUs are shown, in which order, and how that is written in the address. No DOM here.

import { usersOf } from './gpu_facts.js';
import { hostFacts, NAMES } from './host_facts.js';
import { isFree } from './status.js';

export const SORTS = ['name', 'free', 'utilization', 'memory', 'temperature', 'user'];
export const EVERYTHING = Object.freeze({
  text: '', group: '', model: '', user: '', free: false, sort: 'name', reversed: false, compact: null, chart: null,
});

const PARAMETERS = {
  text: 'q', group: 'group', model: 'model', user: 'user', free: 'free', sort: 'sort', reversed: 'reverse', compact: 'compact',
  chart: 'chart',
};
const LAYOUT = ['compact', 'chart']; // null: nobody has chosen, so what suits the fleet and the window holds

/** Return what the part of an address after `#` asks for; what it does not know it leaves out. */
export function fromHash(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ''));
  const filters = { ...EVERYTHING };
  for (const [name, parameter] of Object.entries(PARAMETERS)) {
    const value = given.get(parameter);
    if (value === null) continue;
    if (LAYOUT.includes(name)) filters[name] = ['0', '1'].includes(value) ? value === '1' : null;
    else filters[name] = typeof EVERYTHING[name] === 'boolean' ? value === '1' : value;
  }
  if (!SORTS.includes(filters.sort)) filters.sort = EVERYTHING.sort;
  return filters;
}

/** Return the part of an address after `#`: only what differs from showing everything. */
export function toHash(filters) {
  const differing = Object.entries(PARAMETERS).filter(([name]) => filters[name] !== EVERYTHING[name]);
  const text = (value) => (typeof value === 'boolean' ? `${Number(value)}` : value);
  return new URLSearchParams(differing.map(([name, parameter]) => [parameter, text(filters[name])])).toString();
}

/** Return filters that show everything, in the order and the layout of these. */
export function cleared({ sort, reversed, compact, chart }) {
  return { ...EVERYTHING, sort, reversed, compact, chart };
}

/** Return the host's GPUs that are to be shown, null where the host is not to be. */
export function shownGpus(host, filters) {
  if (filters.group && host.group !== filters.group) return null;
  const words = filters.text.toLowerCase().split(/\s+/).filter(Boolean);
  const ofHost = words.length ? hostText(host) : '';
  const missing = words.filter((word) => !ofHost.includes(word));
  const isForGpus = filters.free || filters.model !== '' || filters.user !== '' || missing.length > 0;
  if (!isForGpus) return host.gpus ?? [];
  const found = (host.gpus ?? []).filter((gpu) => isWanted(gpu, host, filters, missing));
  return found.length ? found : null;
}

function isWanted(gpu, host, filters, words) {
  if (filters.free && !(host.state === 'up' && isFree(gpu))) return false;
  if (filters.model && gpu.type !== filters.model) return false;
  if (filters.user && !usersOf(gpu).includes(filters.user)) return false;
  if (!words.length) return true;
  const text = gpuText(gpu);
  return words.every((word) => text.includes(word));
}

function hostText(host) {
  const jobs = (host.jobs ?? []).flatMap(({ job, folder }) => [job, folder]);
  return [host.name, host.hostname, host.group, host.state, host.error, ...jobs].filter(Boolean).join('\n').toLowerCase();
}

function gpuText(gpu) {
  const processes = (gpu.processes ?? []).flatMap(({ user, command, program, pid }) => [user, command, program, `${pid ?? ''}`]);
  const claim = gpu.claim ? [gpu.claim.user, gpu.claim.command] : [];
  const own = [gpu.type, gpu.uuid, gpu.pci_bus_id, gpu.status, gpu.problem, ...processes, ...claim];
  const text = own.filter(Boolean).join('\n').toLowerCase();
  return [text, ...(gpu.mig_devices ?? []).map(gpuText)].join('\n');
}

/** Return the hosts in order: the most first where it is a figure, what is unknown last, equal ones by name. */
export function sorted(hosts, { sort, reversed }) {
  const direction = reversed ? -1 : 1;
  const byName = (one, other) => NAMES.compare(one.name, other.name) || NAMES.compare(one.id, other.id);
  if (sort === 'name') return [...hosts].sort((one, other) => direction * byName(one, other));
  return [...hosts].sort((one, other) => {
    const [mine, its] = [hostFacts(one)[sort], hostFacts(other)[sort]];
    if (mine === null || its === null) return (mine === null) - (its === null) || byName(one, other);
    return direction * (sort === 'user' ? NAMES.compare(mine, its) : its - mine) || byName(one, other);
  });
}

/** Return what there is to choose from: `{groups, models, users}`, each in order. */
export function choices(hosts) {
  const found = { groups: new Set(), models: new Set(), users: new Set() };
  for (const host of hosts) {
    if (host.group) found.groups.add(host.group);
    for (const gpu of host.gpus ?? []) {
      if (gpu.type) found.models.add(gpu.type);
      for (const user of usersOf(gpu)) found.users.add(user);
    }
  }
  return Object.fromEntries(Object.entries(found).map(([name, values]) => [name, [...values].sort(NAMES.compare)]));
}
