"""One look at all GPUs of a simulated machine, as plain values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from support.gpus.gpu_machine import Machine

_SURVEY = """
import json, sys
from gpu_tracker.gpus import open_nvidia

def plain(state):
    fields = state._asdict()
    if state.processes is not None:
        fields['processes'] = [{name: getattr(entry, name) for name in entry.__slots__} for entry in state.processes]
    fields['mig_devices'] = None if state.mig_devices is None else [plain(part) for part in state.mig_devices]
    return fields

backend = open_nvidia()
print(json.dumps([plain(state) for state in backend.survey(**json.loads(sys.argv[1]))]))
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
    """Return the fields of each DeviceState that the real nvidia-ml-py leads to on this machine.

    :param wanted: The arguments of ``GpuBackend.survey``.
    """
    return machine.answer(_SURVEY, json.dumps(wanted))


def process(
    pid: int, memory: int | None, gpu: int | None = None, compute: int | None = None, *, computes: bool = True
) -> dict[str, object]:
    """Return the fields of a ProcessMemory."""
    return {
        'pid': pid,
        'memory': memory,
        'gpu_instance': gpu,
        'compute_instance': compute,
        'computes': computes,
    }
