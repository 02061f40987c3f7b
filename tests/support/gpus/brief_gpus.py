"""GPUs for tests of the fleet, written briefly."""

from __future__ import annotations

from gpu_tracker.gpus.claims.record import Claim
from gpu_tracker.gpus.model import Gpu, GpuProcess
from gpu_tracker.gpus.state import DeviceState

GB = 1_000_000_000
SEEN = GpuProcess(100, GB, user='ann', started=1000.0, command='python train.py', program='train.py')
UNSEEN = GpuProcess(200, GB)


def state(number: int = 0, **fields: object) -> DeviceState:
    """Return an idle GPU of 10 GB whose UUID ends in its number; ``fields`` of DeviceState change it."""
    usual = {
        'uuid': f'GPU-{number}',
        'name': 'Model A',
        'memory_total': 10 * GB,
        'memory_used': 0,
        'memory_free': 10 * GB,
        'utilization': 0.0,
        'temperature': 40.0,
        'power_limit': 300.0,
        'processes': [],
    }
    return DeviceState(number, **(usual | fields))


def gpu(number: int = 0, *, processes: tuple[GpuProcess, ...] | None = (), claim: Claim | None = None, **fields) -> Gpu:
    """Return a GPU with these processes and this claim."""
    return Gpu(state(number, **fields), processes, claim)


def used(number: int, gigabytes: float, *processes: GpuProcess) -> Gpu:
    """Return a GPU of 10 GB of which so many are in use."""
    in_use = round(gigabytes * GB)
    return gpu(number, processes=processes, memory_used=in_use, memory_free=10 * GB - in_use)


def split(number: int, *parts: DeviceState, **fields: object) -> Gpu:
    """Return a GPU in MIG mode with these MIG devices."""
    whole = state(number, **({'utilization': None} | fields))
    return Gpu(whole, (), mig_devices=tuple(Gpu(part, (), parent=whole) for part in parts))


def mig(number: int, uuid: str, **fields: object) -> DeviceState:
    """Return an idle MIG device of 5 GB, which has no sensors."""
    return DeviceState(
        number, uuid, 'Model A MIG 1g', memory_total=5 * GB, memory_used=0, memory_free=5 * GB, processes=[]
    )._replace(**fields)


def lost(number: int) -> Gpu:
    """Return a GPU that cannot be read."""
    return Gpu(DeviceState(number, problem='lost'))


def claim(*uuids: str, **fields: object) -> Claim:
    """Return a claim on GPUs by root's process 4242."""
    usual = {
        'uuids': uuids,
        'user_id': 0,
        'process_id': 4242,
        'process_start': 1.0,
        'pid_namespace': None,
        'boot_id': 'boot',
        'made': 0.0,
        'expires': None,
        'command': 'python train.py',
    }
    return Claim(**(usual | fields))
