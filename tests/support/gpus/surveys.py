"""One look at all GPUs of a simulated machine, as plain values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from support.gpus.gpu_machine import Machine

_SURVEY = """
import json, sys
from gpu_tracker.gpus.nvidia import open_backend

KNOWN = ('number', 'uuid', 'name', 'pci_bus_id', 'minor', 'memory_total')
READ = ('problem', 'memory_used', 'memory_free', 'utilization', 'temperature', 'sm_clock', 'power', 'power_limit')
OF_PROCESS = ('pid', 'memory', 'gpu_instance', 'compute_instance', 'computes')

def plain(reading):
    fields = {name: getattr(reading.gpu, name) for name in KNOWN} | {name: getattr(reading, name) for name in READ}
    entries = reading.processes
    listed = None if entries is None else [{name: getattr(entry, name) for name in OF_PROCESS} for entry in entries]
    parts = None if reading.mig_devices is None else [plain(part) for part in reading.mig_devices]
    return fields | {'processes': listed, 'mig_devices': parts}

backend = open_backend()
print(json.dumps([plain(reading) for reading in backend.survey(**json.loads(sys.argv[1]))]))
backend.close()
"""

NOTHING = {
    'number': 0,
    'uuid': None,
    'name': None,
    'pci_bus_id': None,
    'minor': None,
    'problem': None,
    'memory_total': None,
    'memory_used': None,
    'memory_free': None,
    'utilization': None,
    'temperature': None,
    'sm_clock': None,
    'power': None,
    'power_limit': None,
    'processes': None,
    'mig_devices': None,
}
"""A GPU, or a MIG device, of number 0 of which nothing is known."""


def survey(machine: Machine, **wanted: bool) -> list[dict[str, Any]]:
    """Return the fields of each reading that the real nvidia-ml-py leads to on this machine.

    :param wanted: The arguments of ``GpuBackend.survey``.
    """
    return machine.forked_answer(_SURVEY, json.dumps(wanted))


def process(
    pid: int, memory: int | None, gpu: int | None = None, compute: int | None = None, *, computes: bool = True
) -> dict[str, object]:
    """Return the fields of a GpuProcess."""
    return {
        'pid': pid,
        'memory': memory,
        'gpu_instance': gpu,
        'compute_instance': compute,
        'computes': computes,
    }
