// The larger chart of a GPU: utilization and memory of the last half hour, by uPlot.

const HEIGHT = 220;
const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' });
const EXACT = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });

export class Chart {
  #place;
  #plot = null;
  #data = null;
  #sizes = new ResizeObserver(() => this.#resize());
  #theme = matchMedia('(prefers-color-scheme: dark)');
  #redraw = () => this.#rebuild();
  #Plot = null;

  constructor(place) {
    this.#place = place;
  }

  /** Draw `{times, utilization, memory}`: seconds since 1970 and percentages. */
  async show(times, { utilization, memory }) {
    this.#data = [times, utilization, memory];
    this.#Plot ??= (await import('./uplot/uPlot.esm.js')).default;
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
    if (this.#plot !== null && width > 0 && width !== this.#plot.width) this.#plot.setSize({ width, height: HEIGHT });
  }

  #options() {
    const style = getComputedStyle(this.#place);
    const color = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: color('--muted'), grid: { stroke: color('--line'), width: 1 }, ticks: { stroke: color('--line'), width: 1 }, font: `12px ${style.fontFamily}` };
    const value = (_, percent) => (percent === null ? '–' : `${percent.toFixed(0)} %`);
    return {
      width: this.#place.clientWidth,
      height: HEIGHT,
      scales: { y: { range: [0, 100] } },
      axes: [
        { ...axis, size: 30, values: (_, moments) => moments.map((moment) => CLOCK.format(moment * 1000)), space: 80 },
        { ...axis, values: (_, marks) => marks.map((mark) => `${mark} %`), incrs: [25], size: 56 },
      ],
      series: [
        { label: 'time', value: (_, moment) => (moment === null ? '–' : EXACT.format(moment * 1000)) },
        { label: 'utilization', stroke: color('--use'), width: 1.5, value, points: pointsIn(color('--use')) },
        { label: 'memory', stroke: color('--memory'), width: 1.5, dash: [6, 3], value, points: pointsIn(color('--memory')) },
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
