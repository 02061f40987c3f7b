"""GPUs for tests of the fleet, written briefly."""

from __future__ import annotations

from gpu_tracker.gpus.claim import Claim
from gpu_tracker.gpus.model import GpuProcess, GpuReading
from support.gpus.gpu_readings import reading, used_by

GB = 1_000_000_000
SEEN = GpuProcess(100, GB, user='ann', started=1000.0, command='python train.py', program='train.py')
UNSEEN = GpuProcess(200, GB)


def state(number: int = 0, **fields: object) -> GpuReading:
    """Return an idle GPU of 10 GB whose UUID ends in its number; ``fields`` of GpuReading change it."""
    usual = {
        'uuid': f'GPU-{number}',
        'name': 'Model A',
        'memory_total': 10 * GB,
        'memory_used': 0,
        'memory_free': 10 * GB,
        'utilization': 0.0,
        'temperature': 40.0,
        'power_limit': 300.0,
        'processes': (),
    }
    return reading(number, **(usual | fields))


def gpu(
    number: int = 0, *, processes: tuple[GpuProcess, ...] | None = (), claim: Claim | None = None, **fields
) -> GpuReading:
    """Return a GPU with these processes and this claim."""
    return used_by(state(number, **fields), processes, claim)


def used(number: int, gigabytes: float, *processes: GpuProcess) -> GpuReading:
    """Return a GPU of 10 GB of which so many are in use."""
    in_use = round(gigabytes * GB)
    return gpu(number, processes=processes, memory_used=in_use, memory_free=10 * GB - in_use)


def split(number: int, *parts: GpuReading, **fields: object) -> GpuReading:
    """Return a GPU in MIG mode with these MIG devices."""
    whole = state(number, **({'utilization': None} | fields))
    return used_by(whole, (), mig_devices=tuple(used_by(part, (), parent=whole) for part in parts))


def mig(number: int, uuid: str, **fields: object) -> GpuReading:
    """Return an idle MIG device of 5 GB, which has no sensors."""
    return reading(
        number, uuid, 'Model A MIG 1g', memory_total=5 * GB, memory_used=0, memory_free=5 * GB, processes=()
    )._replace(**fields)


def lost(number: int) -> GpuReading:
    """Return a GPU that cannot be read."""
    return used_by(reading(number, problem='lost'))


def claim(*uuids: str, **fields: object) -> Claim:
    """Return a claim on GPUs by root's process 4242."""
    usual = {
        'uuids': uuids,
        'user_id': 0,
        'process_id': 4242,
        'made': 0.0,
        'expires': None,
        'command': 'python train.py',
    }
    return Claim(**(usual | fields))
