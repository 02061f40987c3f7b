// The last half hour of a GPU as the one path of a small picture. No DOM here.

import { percent } from './words.js';

export const WIDTH = 120;
export const HEIGHT = 20;
const EDGE = 1; // a line at 0 or 100 % is drawn whole

/** Return the mean of the values that are known in each of `count` equal parts, null where none is. */
export function thinned(values, count) {
  if (values.length <= count) return values;
  const means = [];
  for (let part = 0; part < count; part += 1) {
    const first = Math.floor((part * values.length) / count);
    const end = Math.floor(((part + 1) * values.length) / count);
    const inside = values.slice(first, end).filter((value) => value !== null);
    means.push(inside.length ? inside.reduce((sum, value) => sum + value, 0) / inside.length : null);
  }
  return means;
}

/** Return the `d` of a path through percentages, oldest first; where a value is unknown the line is broken. */
export function sparkPath(values) {
  const points = thinned(values, WIDTH / 2);
  const last = Math.max(1, points.length - 1);
  let path = '';
  let isBroken = true;
  points.forEach((value, place) => {
    if (value === null) {
      isBroken = true;
      return;
    }
    const x = Math.round((10 * place * WIDTH) / last) / 10;
    const y = Math.round(10 * (HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * Math.min(1, Math.max(0, value / 100)))) / 10;
    const isAlone = isBroken && (points[place + 1] ?? null) === null;
    const dash = place > 0 && place === last ? 'h-1' : 'h1'; // inside the picture
    path += `${isBroken ? 'M' : 'L'}${x} ${y}${isAlone ? dash : ''}`;
    isBroken = false;
  });
  return path;
}

/** Return in words what the picture shows. */
export function sparkLabel(values) {
  const known = values.filter((value) => value !== null);
  if (!known.length) return 'utilization of the last half hour: not known';
  const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
  return `utilization of the last half hour: mean ${percent(mean)}, highest ${percent(Math.max(...known))}`;
}
