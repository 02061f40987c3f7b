// Figures, times and strangers' texts as people read them. What is unknown is N/A, never 0.

export const UNKNOWN = 'N/A';

const UNPRINTABLE = /(?! )[\p{C}\p{Z}]/gu;
const ABSURD = 1e7; // from there on a figure is written short: no machine has it, and it must not need more room
const LONGEST = 300; // characters of a text in a cell: more cannot be seen there, and long texts are slow to lay out

const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });
// In digits: the names of months would be words of another language between ours.
const DAY = new Intl.DateTimeFormat(undefined, { year: 'numeric', month: '2-digit', day: '2-digit' });
const UNITS = [[86400, 'a day', 'days'], [3600, 'an hour', 'hours'], [60, 'a minute', 'minutes']];
const MOMENT = 10; // seconds; whatever is not older has happened just now

/** Replace what is not to be shown by '?', as the table in the terminal does: control and bidi characters. */
export function printable(text, longest = LONGEST) {
  const cut = text.length > longest ? `${text.slice(0, longest)}…` : text;
  return cut.replace(UNPRINTABLE, '?');
}

/** Return printable texts, each once, with commas between them. */
export function eachOnce(texts) {
  return [...new Set(texts.map((text) => printable(text)))].join(', ');
}

export function figure(value, unit, digits = 0) {
  if (value === null) return UNKNOWN;
  return `${value < ABSURD ? value.toFixed(digits) : value.toExponential(0)}${unit}`;
}

export function percent(value) {
  return figure(value, ' %');
}

/** Return a share in percent, null where it is not known. */
export function share(part, whole) {
  return part === null || whole === null || whole <= 0 ? null : Math.min(100, (100 * part) / whole);
}

/** Return `38.2 / 42.9 GB`, in units that suit the whole. */
export function usedOf(used, total) {
  if (used === null && total === null) return UNKNOWN;
  const [size, unit] = (total ?? used) >= 1e12 ? [1e12, 'TB'] : [1e9, 'GB'];
  return `${figure(used === null ? null : used / size, '', 1)} / ${figure(total === null ? null : total / size, '', 1)} ${unit}`;
}

/** Return `38.2 GB`, or `N/A`. */
export function sizeOf(bytes) {
  if (bytes === null) return UNKNOWN;
  return bytes >= 1e12 ? figure(bytes / 1e12, ' TB', 1) : figure(bytes / 1e9, ' GB', 1);
}

export function counted(count, one, many = `${one}s`) {
  return `${count} ${count === 1 ? one : many}`;
}

/** Return an age in whole units, in the words of `gpu-tracker gpus`: `14 hours ago`. */
export function ago(seconds) {
  return seconds < MOMENT ? 'just now' : `${lasting(seconds)} ago`;
}

/** Return a time in whole units: `14 hours`. */
export function lasting(seconds) {
  const [length, one, many] = UNITS.find(([limit]) => seconds >= limit) ?? [1, 'a second', 'seconds'];
  const count = Math.max(0, Math.floor(seconds / length));
  return count === 1 ? one : `${count} ${many}`;
}

/** Return a moment in the viewer's form, with its day unless it is within half a day of now. */
export function moment(seconds, now) {
  return Math.abs(now - seconds) < 12 * 3600 ? CLOCK.format(seconds * 1000) : exactMoment(seconds);
}

export function exactMoment(seconds) {
  return `${DAY.format(seconds * 1000)} ${CLOCK.format(seconds * 1000)}`;
}

/** Return the moment for a `datetime` attribute; undefined where no date can be that far away. */
export function machineReadable(seconds) {
  const date = new Date(seconds * 1000);
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString();
}

/** Whether a number of seconds is a moment that can be shown. */
export function isMoment(seconds) {
  return seconds !== null && machineReadable(seconds) !== undefined;
}
