// One GPU in full: its chart, everything known of it, and the whole command lines of its processes.

import { Chart } from './chart.js';
import { element, setChildren, setText } from './elements.js';
import { claimText, gpuFacts, withDevices } from './gpu_facts.js';
import { stateOf } from './host_facts.js';
import { sparkLabel } from './spark.js';
import { ago, exactMoment, figure, isMoment, machineReadable, printable, usedOf, UNKNOWN } from './words.js';

const LONGEST_COMMAND = 20_000; // characters

export class GpuDialog {
  #dialog;
  #past;
  #chart;
  #opened = null; // {hostId, key, opener}
  #part = (name) => this.#dialog.querySelector(`.${name}`);

  /** @param openerOf finds the button again where the one that was pressed is gone. */
  constructor(dialog, past, { openerOf, closed }) {
    this.#dialog = dialog;
    this.#past = past;
    this.#chart = new Chart(this.#part('chart'));
    this.#part('close').addEventListener('click', () => dialog.close());
    dialog.addEventListener('click', (event) => event.target === dialog && dialog.close());
    dialog.addEventListener('close', () => {
      const { hostId, key, opener } = this.#opened;
      this.#opened = null;
      this.#chart.clear();
      (opener.isConnected ? opener : openerOf(hostId, key))?.focus();
      closed(hostId);
    });
  }

  get hostId() {
    return this.#opened?.hostId ?? null;
  }

  open(host, key, opener, now) {
    this.#opened = { hostId: host.id, key, opener };
    setText(this.#part('no-chart'), 'The last half hour is being fetched.');
    this.#part('chart').hidden = true;
    this.show(host, now);
    this.#dialog.showModal();
    this.#dialog.scrollTop = 0;
    this.renewPast();
  }

  /** Show what is known of the GPU now. @param host undefined: there is none any more. */
  show(host, now) {
    const found = withDevices(host?.gpus ?? []).find(({ gpu }) => gpu.key === this.#opened.key);
    const isHere = found !== undefined;
    setText(this.#part('gone'), isHere ? oldness(host) : 'This GPU is not there any more. What follows was seen last.');
    if (!isHere) return;
    const { gpu, parent } = found;
    const facts = gpuFacts(gpu, parent);
    setText(this.#part('where'), printable(host.name));
    setText(this.#part('which'), `GPU ${facts.index}`);
    setText(this.#part('model'), facts.model);
    this.#showFacts(factsOf(gpu, facts, now).map(([name, ...value]) => fact(name, value)));
    this.#showProcesses(gpu, now);
  }

  /** Have the chart drawn anew with what is fetched now, where a GPU is opened. */
  renewPast() {
    if (this.#opened !== null) this.#past.want(this.#opened.hostId, () => this.showPast());
  }

  /** Draw the chart with what is known of the past now. */
  showPast() {
    if (this.#opened === null) return;
    const series = this.#past.of(this.#opened.hostId, this.#opened.key);
    if (series === null && !this.#part('chart').hidden) return; // its host has been scrolled away: the chart stays
    const isKnown = series !== null && series.utilization.concat(series.memory).some((value) => value !== null);
    setText(this.#part('no-chart'), isKnown ? '' : 'Nothing is known of the last half hour.');
    this.#part('chart').hidden = !isKnown;
    if (!isKnown) return;
    this.#part('chart').setAttribute('aria-label', `Chart: ${sparkLabel(series.utilization)}`);
    this.#chart.show(this.#past.times(this.#opened.hostId, series.utilization.length), series);
  }

  #showFacts(facts) {
    // Somebody may be selecting a UUID: what says the same stays.
    const place = this.#part('facts');
    const present = new Map([...place.children].map((child) => [child.textContent, child]));
    setChildren(place, facts.map((made) => present.get(made.textContent) ?? made));
  }

  #showProcesses(gpu, now) {
    const { processes } = gpu;
    setText(this.#part('no-processes'), noProcesses(processes));
    const rows = (processes ?? []).map((process) => processRow(process, now));
    const table = this.#part('processes');
    table.hidden = rows.length === 0;
    const said = rows.map((row) => row.textContent).join('\n');
    if (table.dataset.said !== said) table.tBodies[0].replaceChildren(...rows);
    table.dataset.said = said;
  }
}

function oldness(host) {
  return host.state === 'up' ? '' : `The host is ${stateOf(host).word}: what follows was seen last.`;
}

function noProcesses(processes) {
  if (processes === null) return 'Its processes are not known.';
  return processes.length === 0 ? 'No process is listed.' : '';
}

function factsOf(gpu, facts, now) {
  const limit = gpu.power_limit_watts === null ? '' : ` of ${figure(gpu.power_limit_watts, ' W')}`;
  const claim = claimText(gpu.claim);
  const all = [
    ['Status', `${facts.status.sign} ${facts.status.explanation}`],
    ['Problem', facts.problem],
    ['Utilization', facts.utilizationText],
    ['Memory', usedOf(gpu.memory_used_bytes, gpu.memory_total_bytes)],
    ['Temperature', facts.temperature],
    ['SM clock', facts.clock],
    ['Power', gpu.power_watts === null ? facts.power : `${facts.power}${limit}`],
    ['Health', (gpu.health?.findings ?? []).map(printable).join(', ')],
    ['In use', gpu.running_since ? printable(gpu.running_since) : null],
    ['Claim', claim, ...claimEnd(gpu.claim, now)],
    ['UUID', gpu.uuid === null ? null : printable(gpu.uuid)],
    ['PCI bus', gpu.pci_bus_id === null ? null : printable(gpu.pci_bus_id)],
  ];
  return all.filter(([, value]) => value !== null && value !== '');
}

function claimEnd(claim, now) {
  return isMoment(claim?.expires ?? null) ? [' until ', timeOf(claim.expires, exactMoment(claim.expires), now)] : [];
}

function fact(name, values) {
  return element('div', {}, element('dt', {}, name), element('dd', {}, element('bdi', {}, values[0]), ...values.slice(1)));
}

function timeOf(seconds, text) {
  return element('time', { datetime: machineReadable(seconds), title: exactMoment(seconds) }, text);
}

function processRow({ pid, user, command, program, started, utilization_percent: busy, memory_bytes: memory }, now) {
  const isKnown = isMoment(started);
  const cell = (kind, content) => element('td', { role: 'cell', class: kind }, content);
  return element('tr', { role: 'row' },
    cell('number', `${pid ?? '?'}`),
    cell(null, element('bdi', {}, user === null ? '?' : printable(user))),
    cell(null, isKnown ? timeOf(started, ago(now - started)) : UNKNOWN),
    cell('number', figure(busy, ' %')),
    cell('number', figure(memory === null ? null : memory / 1e9, ' GB', 1)),
    cell('command', element('bdi', {}, (command ?? program) === null ? UNKNOWN : printable(command ?? program, LONGEST_COMMAND))),
  );
}
