"""What a probe adds to the agent's metrics: it is looked up by name, and asked in a thread of its own."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from gpu_tracker.resources import entry_of, function_at
from gpu_tracker.resources.cuda import TITLE
from gpu_tracker.resources.threaded import problem_of
from gpu_tracker.system.terminal_text import printable
from gpu_tracker.vendors import numbered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Protocol

    from prometheus_client.metrics_core import Metric

    from gpu_tracker.gpus.latest_reading import Reading

    class Probed(Protocol):
        """What the table of resources names as ``metrics``, once it is opened."""

        def look(self, gpus: Sequence[Mapping[str, str]], programs: Mapping[int, str]) -> None:
            """Take note of what is on the GPUs now, and of what was probed since the last reading; it may take long.

            :param gpus: The labels of each GPU and MIG device: host, uuid, index, model, mig_instance.
            :param programs: The processes on them: process ID -> what it is about.
            """

        def collect(self) -> Iterable[Metric]:
            """Return the families of metrics as the last reading has found them, at once."""


class OnGpus(NamedTuple):
    """The GPUs of a reading, and what runs on them."""

    gpus: list[dict[str, str]]
    programs: dict[int, str]
    """Process ID -> what it is about; empty where that is shown to nobody."""


class ProbedMetrics(Collector):
    """Tells in metrics what a probe sees of the processes on the GPUs; without it, only that there is none.

    :param name: Of the resource, whose line in the table names what opens the probe.
    :param latest: Returns the newest reading of the GPUs; None: there is none yet.
    :param interval: Seconds between two readings.
    :param complain: Takes lines for people.
    :param find: Returns what opens the probe.
    """

    def __init__(
        self,
        name: str,
        latest: Callable[[], Reading | None],
        interval: float,
        complain: Callable[[str], None],
        find: Callable[[str], Callable[[], Probed]] = lambda name: function_at(entry_of(name).metrics),
    ) -> None:
        self._name = name
        self._latest = latest
        self._interval = interval
        self._complain = complain
        self._has_complained = False
        self._works = False
        self._is_stopped = threading.Event()
        self._probed: Probed | None = None
        try:
            self._probed = find(name)()
            self._works = True
        except Exception as error:  # noqa: BLE001 - whatever it is, the agent serves without
            self._fail(error)

    def start(self) -> None:
        """Begin to look, where there is a probe."""
        if self._probed is not None:
            threading.Thread(target=self._run, args=(self._probed,), name=f'probed-{self._name}', daemon=True).start()

    def stop(self) -> None:
        """Look no more; the end of the process lets go of the rest."""
        self._is_stopped.set()

    def look(self) -> None:
        """Look once; what goes wrong is reported the first time."""
        if self._probed is not None:
            self._look(self._probed)

    def collect(self) -> Iterator[Metric]:
        """Yield the families of metrics as the last reading has found them."""
        reading = self._latest()
        works = GaugeMetricFamily(f'gpu_tracker_{self._name}_probe_up', '0: the probe does not work.', labels=('host',))
        works.add_metric(('' if reading is None else printable(str(reading.snapshot['hostname'])),), int(self._works))
        yield works
        if self._probed is not None:
            yield from self._probed.collect()

    def _run(self, probed: Probed) -> None:
        while not self._is_stopped.is_set():
            self._look(probed)
            self._is_stopped.wait(self._interval)

    def _look(self, probed: Probed) -> None:
        reading = self._latest()
        found = OnGpus([], {}) if reading is None else on_gpus(reading.snapshot)
        try:
            probed.look(found.gpus, found.programs)
            self._works = True
        except Exception as error:  # noqa: BLE001 - whatever it is, the next reading is due
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._works = False
        if not self._has_complained:
            self._has_complained = True
            self._complain(problem_of(TITLE, error, extra=self._name))


def on_gpus(snapshot: Mapping[str, Any]) -> OnGpus:
    """Return what a snapshot says of processes that can be looked up from here: the driver's IDs may not be ours."""
    host = printable(snapshot['hostname'])
    found = OnGpus([], {})
    for gpu in snapshot['gpus'] or ():
        index = numbered(gpu.get('vendor') or '', str(gpu['index']))
        _add(found, gpu, {'host': host, 'index': index, 'mig_instance': ''})
        for part in gpu['mig_devices'] or ():
            number = str(part['index'])
            _add(found, part, {'host': host, 'index': f'{index}:{number}', 'mig_instance': number})
    return found


def _add(found: OnGpus, device: Mapping[str, Any], labels: dict[str, str]) -> None:
    found.gpus.append(labels | {'uuid': printable(device['uuid'] or ''), 'model': printable(device['type'] or '')})
    for process in device['processes'] or ():
        # Where readers may know of no program there is no name, but what can be looked up from here has its start.
        if process['program'] is not None or process.get('started') is not None:
            found.programs[process['pid']] = process['program'] or ''
