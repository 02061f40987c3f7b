// What a row shows of a GPU, as plain data: no DOM here.

import { isFree, statusOf } from './status.js';
import { eachOnce, figure, isMoment, percent, printable, share, usedOf, UNKNOWN } from './words.js';

const BRAND = 'NVIDIA ';
const UNNAMED_VENDOR = 'nvidia';
const UNSEEN = '?';

/** Return a GPU and its MIG devices, each as `{gpu, parent}`, in the order of the rows. */
export function withDevices(gpus) {
  return gpus.flatMap((gpu) => [
    { gpu, parent: null },
    ...(gpu.mig_devices ?? []).map((device) => ({ gpu: device, parent: gpu })),
  ]);
}

/** Return the users of a GPU's processes and of its claims, MIG devices included. */
export function usersOf(gpu) {
  const names = [...(gpu.processes ?? []).map((process) => process.user), gpu.claim?.user ?? null];
  const own = names.filter((name) => name !== null);
  return [...own, ...(gpu.mig_devices ?? []).flatMap(usersOf)];
}

/** Return the product's name without its brand; of a MIG device the part that its GPU's name has not. */
export function modelOf(gpu, parent = null) {
  if (gpu.type === null) return UNKNOWN;
  const own = parent?.type && gpu.type.startsWith(`${parent.type} `) ? gpu.type.slice(parent.type.length + 1) : gpu.type;
  return printable(own.startsWith(BRAND) ? own.slice(BRAND.length) : own);
}

/** Return what names a GPU on its host; the GPUs of each vendor are counted by themselves. */
export function indexOf(gpu, parent = null) {
  const { vendor } = parent ?? gpu;
  const own = parent === null ? `${gpu.index ?? UNSEEN}` : `${parent.index ?? UNSEEN}:${gpu.index ?? UNSEEN}`;
  return vendor && vendor !== UNNAMED_VENDOR ? `${vendor}:${own}` : own;
}

/** Return the processes of the GPU's own row: those on its MIG devices stand in theirs. */
export function ownProcesses(gpu) {
  if (gpu.processes === null || !gpu.mig_devices?.length) return gpu.processes;
  const elsewhere = new Set(gpu.mig_devices.flatMap((device) => (device.processes ?? []).map(({ pid }) => pid)));
  return gpu.processes.filter(({ pid }) => !elsewhere.has(pid));
}

/** Return everything that a row shows. */
export function gpuFacts(gpu, parent) {
  const status = statusOf(gpu);
  const processes = ownProcesses(gpu);
  const missing = parent === null ? UNKNOWN : ''; // sensors of a MIG device are its GPU's, and stand in that row
  return {
    key: gpu.key,
    index: indexOf(gpu, parent),
    isDevice: parent !== null,
    isFree: isFree(gpu),
    status,
    idleSince: gpu.idle_since,
    problem: gpu.problem === null ? null : printable(gpu.problem),
    model: modelOf(gpu, parent),
    utilization: gpu.utilization_percent,
    utilizationText: gpu.utilization_percent === null ? missing : percent(gpu.utilization_percent),
    memory: share(gpu.memory_used_bytes, gpu.memory_total_bytes),
    memoryText: usedOf(gpu.memory_used_bytes, gpu.memory_total_bytes),
    temperature: gpu.temperature_celsius === null ? missing : figure(gpu.temperature_celsius, ' °C'),
    clock: gpu.sm_clock_hertz === null ? missing : figure(gpu.sm_clock_hertz / 1e6, ' MHz'),
    power: gpu.power_watts === null ? missing : figure(gpu.power_watts, ' W'),
    ...programFacts(gpu, status, processes),
  };
}

function programFacts(gpu, status, processes) {
  const claim = claimText(gpu.claim);
  if (processes === null) {
    return { users: UNKNOWN, since: null, sinceText: UNKNOWN, program: claim ?? UNKNOWN, commands: '' };
  }
  const starts = processes.map(({ started }) => started).filter((started) => isMoment(started));
  const programs = eachOnce(processes.map(programOf).filter((program) => program !== null));
  const isListed = processes.length > 0;
  const isUnlisted = status.kind === 'in_use_unseen' && !isListed;
  if (gpu.claim && status.kind === 'claimed' && !isListed) {
    const { user, command } = gpu.claim;
    return { users: printable(user ?? UNSEEN), since: null, sinceText: '', program: printable(command ?? ''), commands: '' };
  }
  return {
    users: isUnlisted ? UNSEEN : eachOnce(processes.map(({ user }) => user ?? UNSEEN)),
    since: starts.length ? Math.min(...starts) : null,
    sinceText: sinceWords(gpu, isListed),
    program: [programs || (isListed ? UNKNOWN : ''), claim].filter(Boolean).join(' · '),
    commands: printable(processes.map(({ command }) => command).filter(Boolean).join('\n'), 1000),
  };
}

function sinceWords(gpu, isListed) {
  if (gpu.running_since) return printable(gpu.running_since); // the words of an agent that does not tell the moment
  return isListed ? UNKNOWN : '';
}

function programOf(process) {
  return process.program ?? process.command;
}

/** Return who has claimed it and for what, null where nobody has. */
export function claimText(claim) {
  if (!claim) return null;
  const who = `claimed by ${printable(claim.user ?? UNSEEN)}`;
  return claim.command ? `${who} for ${printable(claim.command)}` : who;
}
