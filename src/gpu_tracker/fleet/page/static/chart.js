// A chart of utilization and memory in the last half hour, of a GPU or of all, by uPlot.

const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' });
const EXACT = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });

export class Chart {
  #place;
  #height;
  #marks;
  #counts;
  #plot = null;
  #data = null;
  #sizes = new ResizeObserver(() => this.#resize());
  #theme = matchMedia('(prefers-color-scheme: dark)');
  #redraw = () => this.#rebuild();
  #Plot = null;

  /** @param marks percent between two lines of the grid. @param counts names of what is told below and not drawn. */
  constructor(place, { height = 220, marks = 25, counts = [] } = {}) {
    this.#place = place;
    this.#height = height;
    this.#marks = marks;
    this.#counts = counts;
  }

  /** Draw `{times, utilization, memory}`: seconds since 1970 and percentages; `counts` are lists in their order. */
  async show(times, { utilization, memory, counts = [] }) {
    this.#data = [times, utilization, memory, ...counts];
    try {
      this.#Plot ??= (await import('./uplot/uPlot.esm.js')).default;
    } catch {
      return; // the server is away: the next figures ask for it again
    }
    if (this.#data === null) return; // closed meanwhile
    if (this.#plot === null) this.#rebuild();
    else this.#plot.setData(this.#data);
  }

  clear() {
    this.#data = null;
    this.#sizes.disconnect();
    this.#theme.removeEventListener('change', this.#redraw);
    this.#plot?.destroy();
    this.#plot = null;
  }

  #rebuild() {
    const data = this.#data;
    this.clear();
    this.#data = data;
    this.#plot = new this.#Plot(this.#options(), data, this.#place);
    this.#sizes.observe(this.#place);
    this.#theme.addEventListener('change', this.#redraw);
  }

  #resize() {
    const width = this.#place.clientWidth;
    if (this.#plot !== null && width > 0 && width !== this.#plot.width) this.#plot.setSize({ width, height: this.#height });
  }

  #options() {
    const style = getComputedStyle(this.#place);
    const color = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: color('--muted'), grid: { stroke: color('--line'), width: 1 }, ticks: { stroke: color('--line'), width: 1 }, font: `12px ${style.fontFamily}` };
    // Without a pointer the legend has the newest values.
    const value = (words) => (plot, value, series, at) => words(at === null ? plot.data[series].at(-1) : value);
    const percent = value((share) => (share === null ? '–' : `${share.toFixed(0)} %`));
    const moment = value((seconds) => EXACT.format(seconds * 1000));
    return {
      width: this.#place.clientWidth,
      height: this.#height,
      scales: { y: { range: [0, 100] }, count: { auto: false, range: [0, 1] } },
      axes: [
        { ...axis, size: 30, values: (_, moments) => moments.map((moment) => CLOCK.format(moment * 1000)), space: 80 },
        { ...axis, values: (_, marks) => marks.map((mark) => `${mark} %`), incrs: [this.#marks], size: 56 },
      ],
      series: [
        { label: 'time', value: moment },
        { label: 'utilization', stroke: color('--use'), width: 1.5, value: percent, points: pointsIn(color('--use')) },
        { label: 'memory', stroke: color('--memory'), width: 1.5, dash: [6, 3], value: percent, points: pointsIn(color('--memory')) },
        ...this.#counts.map((label) => ({ label, scale: 'count', paths: () => null, points: { show: false }, value: value((count) => `${count ?? '–'}`) })),
      ],
      cursor: { y: false, drag: { x: false, y: false } },
    };
  }
}

/** Return how points are drawn: only those to which no line leads, which would not be seen otherwise. */
function pointsIn(color) {
  const isAlone = (values) => (place) => values[place] !== null && (values[place - 1] ?? null) === null && (values[place + 1] ?? null) === null;
  const filter = (plot, number) => plot.data[number].map((_, place) => place).filter(isAlone(plot.data[number]));
  return { show: false, filter, size: 5, width: 0, fill: color };
}
