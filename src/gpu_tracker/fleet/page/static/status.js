// What the state of a GPU is called, and its sign: the same as in the table of `gpu-tracker gpus`.

import { lasting } from './words.js';

const STATUSES = {
  free: ['[ ]', 'free'],
  in_use: ['[~]', 'in use'],
  in_use_unseen: ['[!]', 'unseen'],
  claimed: ['[c]', 'claimed'],
  unknown: ['[?]', 'unknown'],
  split: ['[-]', 'MIG'],
  unreadable: ['[x]', 'unreadable'],
};

const EXPLANATIONS = {
  in_use_unseen: 'in use by processes that cannot be looked up',
  unknown: 'the claims could not be read',
  split: 'divided into MIG devices',
};

export const IDLE_LONG = 3600; // seconds
const IDLE_SIGN = '[z]';

/** Return `{kind, sign, word, explanation}`; a status of a newer agent is unknown. */
export function statusOf(gpu) {
  const kind = Object.hasOwn(STATUSES, gpu.status) ? gpu.status : 'unknown';
  const [sign, word] = STATUSES[kind];
  return { kind, sign, word, explanation: EXPLANATIONS[kind] ?? word };
}

/** Return the status as it is shown now: of a GPU that is held and has long been idle, for how long. */
export function shownStatus({ status, idleSince }, now) {
  if (idleSince === null || now - idleSince <= IDLE_LONG) return { ...status, isIdle: false };
  const word = `idle ${lasting(now - idleSince)}`;
  return { ...status, sign: IDLE_SIGN, word, explanation: `${status.explanation}, ${word}`, isIdle: true };
}

/** Whether a program could start there: a GPU in MIG mode is free where one of its devices is. */
export function isFree(gpu) {
  return gpu.status === 'free' || (gpu.status === 'split' && (gpu.mig_devices ?? []).some(isFree));
}
