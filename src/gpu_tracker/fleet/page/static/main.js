// Brings the parts of the page together.

import { setAttribute, setText } from './elements.js';
import { choices, shownGpus, sorted } from './filters.js';
import { Fleet } from './fleet.js';
import { FleetChart } from './fleet_chart.js';
import { Frames } from './frames.js';
import { GpuDialog } from './gpu_dialog.js';
import { HostList } from './host_list.js';
import { Jobs } from './jobs.js';
import { Past } from './past.js';
import { Stream } from './stream.js';
import { Summary } from './summary.js';
import { Toolbar } from './toolbar.js';
import { Users } from './users.js';
import { ago, counted, moment } from './words.js';

const CHOICES_PAUSE = 2_000; // milliseconds between two looks for what there is to choose from
const ORDER_PAUSE = 10_000; // hosts that change places all the time cannot be read
const AGES_PAUSE = 20_000;
const MANY_HOSTS = 30; // from one more on there is a line for each, unless the viewer wants it otherwise

const place = (id) => document.getElementById(id);
const fleet = new Fleet();
const frames = new Frames();
const past = new Past();
const shown = new Map(); // the GPUs that are shown, by the host's id; null: the host is not shown
const list = new HostList(place('hosts'), { frames, past, clock: () => fleet.now, namesOf: (host) => fleet.namesOf(host) });
const fleetChart = new FleetChart(place('fleet-past'), (chart) => toolbar.choose({ chart }));
const isNarrow = matchMedia('(max-width: 600px)'); // a phone, as in narrow.css
const jobs = new Jobs(place('jobs'), !isNarrow.matches);
const users = new Users(place('users'));
const summary = new Summary(place('summary'), place('spoken'));
const dialog = new GpuDialog(place('gpu'), past, { openerOf: (...names) => list.opener(...names), closed: () => list.refresh() });
let toolbar = null;
let orderedAt = 0;
let connection = 'connecting'; // 'live', or 'lost'

/** Filter and order all hosts anew. */
function arrange() {
  showChart();
  if (fleet.totals === null || toolbar === null) return;
  shown.clear();
  for (const host of fleet.hosts.values()) shown.set(host.id, shownGpus(host, toolbar.filters));
  order();
}

/** The chart takes room that a narrow window needs for the hosts. */
function showChart() {
  if (toolbar !== null) fleetChart.unfold(toolbar.filters.chart ?? !isNarrow.matches);
}

function isCompact() {
  return toolbar.filters.compact ?? fleet.hosts.size > MANY_HOSTS;
}

function order() {
  orderedAt = performance.now();
  const { filters } = toolbar;
  const hosts = sorted([...fleet.hosts.values()].filter((host) => shown.get(host.id) !== null), filters);
  list.show(hosts.map((host) => ({ host, gpus: shown.get(host.id) })), isCompact());
  const count = hosts.reduce((sum, host) => sum + shown.get(host.id).length, 0);
  const isAll = hosts.length === fleet.hosts.size && hosts.every((host) => shown.get(host.id).length === (host.gpus ?? []).length);
  toolbar.tell(isAll ? '' : `${counted(hosts.length, 'host')} and ${counted(count, 'GPU')} shown`);
  setAttribute(document.body, 'data-view', isCompact() ? 'compact' : 'full');
  toolbar.layoutIs(isCompact());
  place('no-match').hidden = hosts.length > 0 || fleet.hosts.size === 0;
  place('no-hosts').hidden = fleet.hosts.size > 0;
}

/**
 * Show the hosts that have changed; those that come or go, or are due to change places, in order.
 *
 * @param replaced what was known of them.
 */
function showChanged(hosts, replaced) {
  const { filters } = toolbar;
  let isOrderDue = false;
  for (const host of hosts) {
    const before = shown.get(host.id);
    const now = shownGpus(host, filters);
    shown.set(host.id, now);
    // Another name changes the order, and what others are called.
    const { name, hostname } = replaced.get(host.id) ?? {};
    if (name !== host.name || hostname !== host.hostname || (before === null) !== (now === null)) isOrderDue = true;
    else if (now !== null) list.update(host, now, isCompact());
  }
  const isLive = filters.sort !== 'name' && performance.now() - orderedAt > ORDER_PAUSE && !list.holdsFocus && dialog.hostId === null;
  if (isOrderDue || isLive) frames.add('order', order);
}

/** @param replaced what was known of the hosts that have changed. */
function showAll(replaced = new Map()) {
  if (connection !== 'live') connectionIs('live');
  frames.add('summary', () => summary.show(fleet.totals));
  if (document.hidden) summary.show(fleet.totals); // nothing is drawn then
  frames.add('lists', showLists);
  fleetChart.goOn(fleet.totals, fleet.time, fleet.interval);
  const longer = past.goOn(fleet.hosts, replaced, fleet.time);
  list.refreshPast(longer);
  if (dialog.hostId !== null) {
    dialog.show(fleet.hosts.get(dialog.hostId), fleet.now);
    if (longer.includes(dialog.hostId)) dialog.showPast();
  }
}

function showLists() {
  jobs.show(fleet.hosts.values(), fleet.now);
  users.show(fleet.hosts.values(), fleet.now);
}

function connectionIs(state) {
  connection = state;
  showConnection();
  if (state === 'live') return;
  frames.remove('summary');
  summary.isOld(); // the title of a window is seen even where the page is not
}

function showConnection() {
  setAttribute(document.body, 'data-connection', connection);
  setText(place('connection'), connectionText());
}

function connectionText() {
  if (connection === 'live') return 'live';
  if (fleet.time === null) return connection === 'lost' ? 'No connection. Trying again.' : 'connecting…';
  const since = `${moment(fleet.time, fleet.now)} (${ago(fleet.now - fleet.time)})`;
  return connection === 'lost'
    ? `No connection since ${since}. The figures are that old. Trying again.`
    : `connecting… The figures are of ${since}.`;
}

function open(event) {
  const row = event.target.closest('[data-key]');
  const button = row?.matches('.open') ? row : row?.querySelector('.open');
  const host = fleet.hosts.get(row?.closest('[data-host]')?.dataset.host);
  if (!button || !host || !getSelection().isCollapsed) return;
  dialog.open(host, row.dataset.key, button, fleet.now);
}

const stream = new Stream('api/v1/events', {
  fleet(data) {
    fleet.replace(data);
    past.forgetAll(); // whatever happened since the stream was lost is missing there
    showAll();
    arrange();
    toolbar.offer(choices(fleet.hosts.values()));
    list.refresh();
    fleetChart.renew();
    dialog.renewPast();
  },
  hosts(data) {
    const replaced = fleet.update(data);
    showAll(replaced);
    showChanged(data.hosts, replaced);
  },
  lost() {
    if (connection !== 'lost') summary.say('No connection: the figures are old.');
    connectionIs('lost');
  },
  paused() {
    connectionIs('connecting');
  },
});

toolbar = new Toolbar(place('filters'), arrange);
showChart();
isNarrow.addEventListener('change', showChart);
place('everything').addEventListener('click', () => toolbar.clear());
place('hosts').addEventListener('click', open);
setInterval(() => toolbar.offer(choices(fleet.hosts.values())), CHOICES_PAUSE);
setInterval(() => list.refresh(), AGES_PAUSE);
setInterval(() => fleet.time !== null && frames.add('lists', showLists, { isUrgent: false }), AGES_PAUSE);
setInterval(() => fleetChart.fetchIfMissing(), AGES_PAUSE);
setInterval(() => connection !== 'live' && showConnection(), 1_000);
stream.open();
