// The charts of a report: all on one axis of time, with one cursor. It follows the library in the same module.

const HEIGHT = 180;
const MOST_NAMES = 12;
const FEWEST_POINTS = 5;
const runs = JSON.parse(document.getElementById('numbers').textContent).runs;
const charts = [];
const [BEGIN, END] = extent();
const PAPER = matchMedia('print');
const DARK = matchMedia('(prefers-color-scheme: dark)');

/** Return the first and the last moment of all runs. */
function extent() {
  const panels = runs.flatMap((run) => run.panels);
  const first = Math.min(...panels.map((panel) => Math.min(panel.begin, panel.times[0])));
  const last = Math.max(...panels.map((panel) => panel.times.at(-1)));
  return panels.length === 0 ? [0, 1] : [first, last > first ? last : first + 1];
}

const SIZES = [[1e12, 'TB'], [1e9, 'GB'], [1e6, 'MB'], [1e3, 'kB'], [1, 'B']];

/** Return a number with three digits, without zeros at its end. */
const digits = (value) => (Math.abs(value) >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3))));

/** Return a value with the unit that suits it; `like` is the value that decides on the unit. */
function worded(value, unit, like = value) {
  if (value === null || value === undefined) return 'N/A';
  if (unit === 'percent') return `${digits(value)} %`;
  if (unit === 'watts') return `${digits(value)} W`;
  const [size, name] = SIZES.find(([least]) => Math.abs(like) >= least) ?? SIZES.at(-1);
  return `${digits(value / size)} ${name}${unit === 'bytes/s' ? '/s' : ''}`;
}

/** Return a moment since the start: 12.5 s, 3:07 or 2:03:07, with as many decimals as `step` needs. */
function clock(seconds, step = 1) {
  const decimals = Math.max(0, Math.min(6, Math.ceil(-Math.log10(step) - 1e-9)));
  if (END < 120) return `${seconds.toFixed(decimals)} s`;
  const whole = Math.floor(seconds / 60);
  const rest = (seconds - 60 * whole).toFixed(decimals).padStart(decimals ? decimals + 3 : 2, '0');
  if (END < 3600) return `${whole}:${rest}`;
  const hours = Math.floor(whole / 60);
  const minutes = String(whole % 60).padStart(2, '0');
  if (END < 2 * 86400) return `${hours}:${minutes}:${rest}`;
  return `${Math.floor(hours / 24)} d ${hours % 24}:${minutes}`;
}

const TIME_STEPS = [1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

/** Return the columns that the library draws: of rates each value begins where the one before ended. */
function columns(panel) {
  const times = panel.steps ? [panel.begin, ...panel.times] : panel.times;
  const held = (values) => (panel.steps ? [...values, values.at(-1)] : values);
  const found = [times];
  for (const line of panel.lines) {
    if (line.low) found.push(held(line.low), held(line.high));
    found.push(held(line.mean));
  }
  return found;
}

/** The largest value of a panel in all runs, so that runs side by side have one scale. */
function largest(key) {
  const values = [];
  for (const run of runs) {
    for (const panel of run.panels) {
      if (panel.key !== key) continue;
      values.push(panel.limit ?? 0, panel.peak ?? 0);
      for (const line of panel.lines) values.push(...(line.high ?? line.mean).filter((value) => value !== null));
    }
  }
  return values.reduce((most, value) => Math.max(most, value), 0);
}

class Chart {
  #place;
  #run;
  #panel;
  #box = document.createElement('div');
  #values = [];
  #hidden = new Set();
  #moment = document.createElement('li');

  constructor(place) {
    this.#place = place;
    this.#run = runs[Number(place.dataset.run)];
    this.#panel = this.#run.panels.find((panel) => panel.key === place.dataset.key);
    place.append(this.#box);
    place.after(this.#key());
    this.draw();
    place.setAttribute('aria-label', this.#summary());
  }

  /** Draw anew: for another size or other colours. */
  draw() {
    const range = this.plot && [this.plot.scales.x.min, this.plot.scales.x.max];
    this.plot?.destroy();
    this.plot = new uPlot(this.#options(), columns(this.#panel), this.#box);
    this.#place.plot = this.plot; // for whoever looks at the page with a console
    if (range) this.plot.setScale('x', { min: range[0], max: range[1] });
  }

  resize() {
    const width = this.#place.clientWidth;
    if (width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
  }

  #color(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  }

  #options() {
    const panel = this.#panel;
    const paths = panel.steps ? uPlot.paths.stepped({ align: 1 }) : uPlot.paths.linear();
    const lines = [{}];
    const bands = [];
    const visible = panel.lines.filter((_, place) => !this.#hidden.has(place));
    const stacked = ['main_', 'descendants_', 'combined_'].every((group) => visible.some(({ name }) => name.startsWith(group)));
    const places = {};
    panel.lines.forEach((line, place) => {
      const color = this.#color(line.role);
      const show = !this.#hidden.has(place);
      if (line.low) {
        const at = lines.length;
        for (let edge = 0; edge < 2; edge += 1) lines.push({ stroke: 'transparent', width: 0, paths, points: { show: false }, show });
        if (!(stacked && line.role === 'descendants')) bands.push({ series: [at + 1, at], fill: `${color}44` });
      }
      const [stroke, fill] = [stacked && line.role === 'descendants' ? 'transparent' : color, stacked && line.role === 'main' ? `${color}55` : null];
      places[line.role] = lines.length;
      lines.push({ stroke, fill, width: line.name.startsWith('combined_') ? 3 : 1.6, dash: line.dash, paths, points: alone(color), show });
    });
    // What the descendants add to the main process: pages that both have count once.
    if (stacked) bands.push({ series: [places.combined, places.main], fill: `${this.#color('descendants')}55` });
    const axis = {
      stroke: this.#color('muted'),
      grid: { stroke: this.#color('line'), width: 1 },
      ticks: { stroke: this.#color('line'), width: 1 },
      font: `12px ${getComputedStyle(this.#place).fontFamily}`,
    };
    const step = (marks) => (marks.length > 1 ? marks[1] - marks[0] : 1);
    const most = runs.length > 1 ? largest(panel.key) : 0;
    return {
      width: this.#place.clientWidth,
      height: HEIGHT,
      legend: { show: false },
      padding: [8, 20, 0, 0],
      scales: {
        x: { time: false, range: (_, low, high) => (low === null ? [BEGIN, END] : [low, high]) },
        y: { range: (_, __, high) => [0, Math.max(most, high ?? 0, panel.limit ?? 0, panel.peak ?? 0) * 1.06 || 1] },
      },
      axes: [
        { ...axis, size: 26, incrs: TIME_STEPS, space: 90, values: (_, marks) => marks.map((mark) => clock(mark, step(marks))) },
        { ...axis, size: 74, space: 34, values: (_, marks) => marks.map((mark) => (mark === 0 ? '0' : worded(mark, panel.unit, marks.at(-1)))) },
      ],
      series: lines,
      bands,
      cursor: { sync: { key: 'report', setSeries: false, scales: ['x', null] }, drag: { x: true, y: false, setScale: false }, y: false, points: { size: 5 } },
      hooks: {
        drawClear: [(plot) => this.#drawBands(plot)],
        draw: [(plot) => this.#drawLevel(plot, panel.limit, 'limit'), (plot) => this.#drawLevel(plot, panel.peak, 'combined')],
        setCursor: [(plot) => this.#read(this.#placeOf(plot))],
        setSelect: [(plot) => zoomTo(plot.posToVal(plot.select.left, 'x'), plot.posToVal(plot.select.left + plot.select.width, 'x'), plot)],
        ready: [(plot) => plot.over.addEventListener('dblclick', () => showRange(BEGIN, END))],
      },
    };
  }

  /** Shade the regions that are wanted, each name in its own colour. */
  #drawBands(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    const spans = chosen === null ? this.#run.bands : (this.#run.spans[chosen] ?? []).map((span) => ['', ...span]);
    for (const [name, start, stop] of spans) {
      const left = plot.valToPos(start, 'x', true);
      const width = Math.max(1, plot.valToPos(stop, 'x', true) - left);
      ctx.fillStyle = `hsl(${hue(name)} 60% 50% / .13)`;
      ctx.fillRect(left, bbox.top, width, bbox.height);
      ctx.fillStyle = `hsl(${hue(name)} 60% 50% / .5)`;
      ctx.fillRect(left, bbox.top, 1, bbox.height);
    }
    ctx.restore();
  }

  /** Draw a dotted line at a level: the limit, or the peak. */
  #drawLevel(plot, level, color) {
    if (level === null) return;
    const { ctx, bbox } = plot;
    const top = plot.valToPos(level, 'y', true);
    ctx.save();
    ctx.strokeStyle = this.#color(color);
    ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, top);
    ctx.lineTo(bbox.left + bbox.width, top);
    ctx.stroke();
    ctx.restore();
  }

  /** Return the list of lines: what each is, its value at the cursor, and a switch. */
  #key() {
    const list = document.createElement('ul');
    list.className = 'key';
    this.#panel.lines.forEach((line, place) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.setAttribute('aria-pressed', 'true');
      const value = document.createElement('output');
      button.append(swatch(line.role, line.dash), line.title, value);
      button.addEventListener('click', () => {
        const show = this.#hidden.has(place);
        if (show) this.#hidden.delete(place);
        else this.#hidden.add(place);
        button.setAttribute('aria-pressed', String(show));
        this.draw();
      });
      this.#values.push(value);
      const item = document.createElement('li');
      item.append(button);
      list.append(item);
    });
    if (this.#panel.peak !== null) {
      const peak = document.createElement('li');
      peak.append(swatch('combined', [2, 3], 2), `peak, between samples too: ${worded(this.#panel.peak, this.#panel.unit)}`);
      list.append(peak);
    }
    this.#moment.className = 'moment';
    list.append(this.#moment);
    this.#read(null);
    return list;
  }

  /** Return the place of the values at the cursor: of a rate that whose time it is in, of others the nearest. */
  #placeOf(plot) {
    const { idx, left } = plot.cursor;
    if (idx === null || idx === undefined || !this.#panel.steps) return idx;
    const moment = plot.posToVal(left + 0.5, 'x');
    const after = plot.data[0].findIndex((time) => time > moment);
    return Math.max(0, (after < 0 ? plot.data[0].length : after) - 1);
  }

  /** Show the values at a place of the axis; without one, the most of each line, and of rates their mean. */
  #read(place) {
    const panel = this.#panel;
    const known = place !== null && place !== undefined;
    const at = known ? Math.min(place, panel.times.length - 1) : 0;
    panel.lines.forEach((line, number) => {
      const whole = () => (panel.steps ? `mean of samples ${worded(meanOf(line, panel), panel.unit)}` : `largest sample ${worded(mostOf(line), panel.unit)}`);
      this.#values[number].textContent = known ? between(line, at, panel.unit) : whole();
    });
    const begin = at > 0 ? panel.times[at - 1] : panel.begin;
    const when = panel.steps ? `from ${clock(begin, 0.001)} to ${clock(panel.times[at], 0.001)}` : `at ${clock(panel.times[at], 0.001)}`;
    this.#moment.textContent = known ? when : '';
  }

  #summary() {
    const lines = this.#panel.lines.map((line, number) => `${line.title} ${this.#values[number].textContent}`);
    return `Chart of ${END.toPrecision(3)} s: ${lines.join(', ')}`;
  }
}

/** Return the most of a line. */
function mostOf(line) {
  return (line.high ?? line.mean).reduce((most, value) => (value === null ? most : Math.max(most ?? value, value)), null);
}

/** Return the mean of a rate over the time in which it is known. */
function meanOf(line, panel) {
  let [sum, time] = [0, 0];
  line.mean.forEach((value, at) => {
    if (value === null) return;
    const length = panel.times[at] - (at ? panel.times[at - 1] : panel.begin);
    sum += value * length;
    time += length;
  });
  return time > 0 ? sum / time : null;
}

/** Return the value of a line at a place: the mean, with the least and the most where there are several samples. */
function between(line, at, unit) {
  const mean = worded(line.mean[at], unit);
  if (!line.low || line.low[at] === null || line.low[at] === line.high[at]) return mean;
  return `${mean} (${worded(line.low[at], unit)} to ${worded(line.high[at], unit)})`;
}

/** Return a short line in the colour of a role, as it is in the chart. */
function swatch(role, dash, width = 4) {
  const space = 'http://www.w3.org/2000/svg';
  const picture = document.createElementNS(space, 'svg');
  picture.setAttribute('viewBox', '0 0 22 10');
  picture.setAttribute('aria-hidden', 'true');
  const line = document.createElementNS(space, 'path');
  line.setAttribute('d', 'M0 5h22');
  line.setAttribute('stroke', `var(--${role})`);
  line.setAttribute('stroke-width', String(width));
  if (dash) line.setAttribute('stroke-dasharray', dash.join(' '));
  picture.append(line);
  return picture;
}

/** Draw points only where no line leads to them: they would not be seen otherwise. */
function alone(color) {
  const isAlone = (values, at) => values[at] !== null && (values[at - 1] ?? null) === null && (values[at + 1] ?? null) === null;
  const filter = (plot, number) => plot.data[number].map((_, at) => at).filter((at) => isAlone(plot.data[number], at));
  return { show: false, filter, size: 5, width: 0, fill: color };
}

/** Return the hue of a name: the same in all charts and runs. */
function hue(name) {
  let sum = 7;
  for (const letter of name) sum = (sum * 31 + letter.codePointAt(0)) % 360;
  return sum;
}

// The axis of time, which all charts have in common.

let shown = [BEGIN, END];
let chosen = null;

function showRange(low, high) {
  const points = Math.max(...runs.flatMap((run) => run.panels.map((panel) => panel.times.length)));
  const least = ((END - BEGIN) * FEWEST_POINTS) / Math.max(FEWEST_POINTS, points);
  const width = Math.min(END - BEGIN, Math.max(least, high - low));
  const begin = Math.max(BEGIN, Math.min(END - width, low));
  shown = [begin, begin + width];
  for (const chart of charts) chart.plot.setScale('x', { min: shown[0], max: shown[1] });
}

function zoomTo(low, high, plot) {
  plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  if (high - low > 0) showRange(low, high);
}

const ACTIONS = {
  in: ([low, high]) => [low + (high - low) / 4, high - (high - low) / 4],
  out: ([low, high]) => [low - (high - low) / 2, high + (high - low) / 2],
  earlier: ([low, high]) => [low - (high - low) / 4, high - (high - low) / 4],
  later: ([low, high]) => [low + (high - low) / 4, high + (high - low) / 4],
  all: () => [BEGIN, END],
};

/** Say which regions lie behind the charts. */
function nameBands() {
  const place = document.getElementById('bands');
  const pressed = document.querySelector('[data-line][aria-pressed="true"]');
  const names = pressed ? [pressed.textContent] : [...new Set(runs.flatMap((run) => run.bands.map(([name]) => name)))];
  place.hidden = names.length === 0;
  place.replaceChildren('Behind the charts: ', ...names.slice(0, MOST_NAMES).flatMap((name) => [colored(name), `${name} `]));
  const more = pressed ? 0 : runs.reduce((sum, run) => sum + run.more, Math.max(0, names.length - MOST_NAMES));
  if (more > 0) place.append(`and ${more.toLocaleString('en')} more`);
}

/** Return a square in the colour that a region has in the charts. */
function colored(name) {
  const square = document.createElement('span');
  square.className = 'band';
  square.style.backgroundColor = `hsl(${hue(chosen === null ? name : '')} 60% 50% / .5)`;
  return square;
}

function act(action) {
  showRange(...ACTIONS[action](shown));
}

/** Move the cursor of a chart, and with it that of all others, by one point. */
function moveCursor(chart, by) {
  const { plot } = chart;
  const times = plot.data[0];
  const [first, last] = plot.series[0].idxs;
  const place = Math.max(first, Math.min(last, (plot.cursor.idx ?? (by > 0 ? first - 1 : last + 1)) + by));
  plot.setCursor({ left: plot.valToPos(times[place], 'x'), top: 1 }, true, true);
}

const KEYS = { '+': 'in', '=': 'in', '-': 'out', 0: 'all' };

function onKey(event, chart) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const side = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (side && event.shiftKey) act(side < 0 ? 'earlier' : 'later');
  else if (side) moveCursor(chart, side);
  else if (KEYS[event.key]) act(KEYS[event.key]);
  else return;
  event.preventDefault();
}

function redraw() {
  for (const chart of charts) chart.draw();
}

for (const place of document.querySelectorAll('.chart')) {
  const chart = new Chart(place);
  charts.push(chart);
  place.addEventListener('keydown', (event) => onKey(event, chart));
}
for (const button of document.querySelectorAll('[data-zoom]')) button.addEventListener('click', () => act(button.dataset.zoom));
for (const button of document.querySelectorAll('[data-line]')) {
  button.addEventListener('click', () => {
    const line = Number(button.dataset.line);
    chosen = chosen === line ? null : line;
    for (const other of document.querySelectorAll('[data-line]')) other.setAttribute('aria-pressed', String(Number(other.dataset.line) === chosen));
    for (const chart of charts) chart.plot.redraw();
    nameBands();
  });
}
const sizes = new ResizeObserver(() => charts.forEach((chart) => chart.resize()));
for (const place of document.querySelectorAll('.chart')) sizes.observe(place);
DARK.addEventListener('change', redraw);
PAPER.addEventListener('change', redraw);
if (charts.length > 0) nameBands();
showRange(BEGIN, END);
