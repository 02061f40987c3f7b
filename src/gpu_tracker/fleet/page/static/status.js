// What the state of a GPU is called, and its sign: the same as in the table of `gpu-tracker gpus`.

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

/** Return `{kind, sign, word, explanation}`; a status of a newer agent is unknown. */
export function statusOf(gpu) {
  const kind = Object.hasOwn(STATUSES, gpu.status) ? gpu.status : 'unknown';
  const [sign, word] = STATUSES[kind];
  return { kind, sign, word, explanation: EXPLANATIONS[kind] ?? word };
}

/** Whether a program could start there: a GPU in MIG mode is free where one of its devices is. */
export function isFree(gpu) {
  return gpu.status === 'free' || (gpu.status === 'split' && (gpu.mig_devices ?? []).some(isFree));
}
