"""GPUs that are made up: the folder of a vendor, in a copy of the package that tests make."""

from __future__ import annotations

import json
import time
from pathlib import Path

from gpu_tracker.gpus.model import Gpu, GpuProcess, GpuReading

_STATE = Path(__file__).with_name('state.json')


def open_backend():
    """Return the driver; None where nobody has made up GPUs."""
    return Backend() if _STATE.exists() else None


class Backend:
    """See ``gpu_tracker.gpus.GpuBackend``."""

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
        reading = next(reading for reading in self.survey() if reading.uuid == uuid)
        return reading._replace(samples=[(int(time.time() * 1e6), reading.utilization)])

    def processes(self, uuid):
        return list(self.read(uuid).processes)

    def utilization(self, uuid):
        return self.read(uuid).utilization

    def peak_memory(self, uuid, pid):
        return None

    def energy(self, uuid):
        return None

    def survey(self, *, with_load=True, with_sensors=True):
        return [_reading(number, fields) for number, fields in enumerate(json.loads(_STATE.read_text()))]

    def monitors(self, interval):
        return ()

    def take_messages(self):
        return []

    def close(self) -> None:
        pass


def _reading(number, fields):
    gpu = Gpu(number, fields['uuid'], fields['name'], memory_total=fields['memory_total'])
    processes = tuple(GpuProcess(pid, memory) for pid, memory in fields['processes'])
    used = fields['memory_used']
    free = fields['memory_total'] - used
    return GpuReading(
        gpu,
        memory_used=used,
        memory_free=free,
        utilization=fields['utilization'],
        temperature=40.0,
        processes=processes,
    )
