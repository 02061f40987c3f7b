"""GPUs that are made up: the folder of a vendor, in a copy of the package that tests make."""

from __future__ import annotations

import json
import time
from pathlib import Path

from gpu_tracker.errors import GpuError
from gpu_tracker.gpus.model import Gpu, GpuActivity, GpuProcess, GpuReading, Unseen

_STATE = Path(__file__).with_name('state.json')


def open_backend():
    """Return the driver; None where nobody has made up GPUs.

    :raises GpuError: The state is ``broken``.
    """
    if not _STATE.exists():
        return None
    if json.loads(_STATE.read_text()) == 'broken':
        raise GpuError('The made-up driver does not work.', 'broken')
    return Backend()


class Backend:
    """See ``gpu_tracker.gpus.backend.GpuBackend``."""

    compute_files = frozenset({'/dev/made-up'})

    def watch_errors(self):
        """Do nothing: it reports none."""

    def follow(self, members):
        """Do nothing: all processes are listed."""

    def gpus(self):
        return tuple(reading.gpu for reading in self.survey())

    def details(self):
        return list(self.gpus())

    def read(self, uuid):
        while _STATE.with_name('hang').exists():
            time.sleep(0.01)
        with _STATE.with_name('reads').open('a') as file:
            file.write('1')
        reading = next(reading for reading in self.survey() if reading.uuid == uuid)
        if reading.utilization is None:
            return reading
        return reading._replace(samples=[(int(time.time() * 1e6), reading.utilization)])

    def processes(self, uuid):
        return list(self.read(uuid).processes)

    def unseen(self, uuid):
        return Unseen()

    def utilization(self, uuid):
        return self.read(uuid).utilization

    def peak_memory(self, uuid, pid):
        return None

    def energy(self, uuid):
        return None

    def activity(self, uuid):
        return [GpuActivity(problem='made up')]

    def survey(self, *, with_load=True, with_sensors=True):
        return [_reading(number, fields) for number, fields in enumerate(json.loads(_STATE.read_text()))]

    def take_messages(self):
        return []

    def close(self) -> None:
        pass


def _reading(number, fields):
    total, used = fields['memory_total'], fields['memory_used']
    gpu = Gpu(
        fields.get('number', number),
        fields['uuid'],
        fields['name'],
        memory_total=total,
        vendor=fields.get('vendor', 'made_up'),
        is_integrated=fields.get('is_integrated', False),
    )
    processes = tuple(GpuProcess(pid, memory) for pid, memory in fields['processes'])
    free = None if total is None else total - used
    return GpuReading(
        gpu,
        memory_used=used,
        memory_free=free,
        utilization=fields['utilization'],
        temperature=40.0,
        processes=processes,
    )
