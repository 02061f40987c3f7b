"""GPUs as plain data for ``gpu-tracker gpus --json``, and for whoever asks over a network.

The keys are part of the documented interface. Each figure has its unit in its key, and is null where it is unknown.
"""

from __future__ import annotations

from gpu_tracker.fleet.status import status_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_tracker.fleet.claims.claim import Claim
    from gpu_tracker.fleet.gpu import Gpu, GpuProcess


def snapshot(
    gpus: Sequence[Gpu] | None,
    *,
    hostname: str,
    now: float,
    user_name: Callable[[int], str],
    driver_problem: str | None = None,
    claims_problem: str | None = None,
) -> dict[str, object]:
    """Return what ``json.dumps`` takes: ``hostname``, ``time`` in seconds since 1970, and ``gpus`` in index order.

    ``driver_problem`` tells why the GPUs are not known, whose list then is null; it is null where they are.
    ``claims_problem`` tells why the claims could not be read, and is null where they could.

    A GPU has these keys, and so has a MIG device, which stands in the ``mig_devices`` of its GPU:

    - ``index``: its place in PCI bus order, from 0; a MIG device's number on its GPU
    - ``uuid``, ``pci_bus_id``, ``type``: as the driver tells them
    - ``status``: ``free``, ``in_use``, ``in_use_unseen``, ``claimed``, ``unknown`` (it may be claimed), ``split`` or
      ``unreadable``
    - ``problem``: why it cannot be read, in words; null where it can
    - ``utilization_percent``, ``memory_total_bytes``, ``memory_used_bytes``, ``memory_free_bytes``,
      ``temperature_celsius``, ``sm_clock_hertz``, ``power_watts``, ``power_limit_watts``
    - ``processes``: null where the driver does not list them; of a GPU with MIG devices also those on them, once for
      each. Each has ``pid``, ``user``, ``command`` (the whole command line), ``program`` (what it is about),
      ``started`` in seconds since 1970, ``memory_bytes``, and ``computes``, which is false where it only draws; of one
      that cannot be looked up from here, ``user``, ``command``, ``program`` and ``started`` are null. ``command`` is
      cut at 4,000 characters and ``program`` at 200; the last then is ``…``.
    - ``claim``: null, or ``user``, ``user_id``, ``pid`` (null: none holds it),
      ``in_another_container`` (then the pid is one of that container), ``made`` and ``expires`` in seconds
      since 1970 (null: when its process ends), and ``command``
    - ``mig_devices``: null where it is not in MIG mode

    :param now: Seconds since 1970.
    :param user_name: Tells the name of the user with an ID.
    """
    in_order = None if gpus is None else sorted(gpus, key=lambda gpu: gpu.state.number)
    return {
        'hostname': hostname,
        'time': now,
        'driver_problem': driver_problem,
        'claims_problem': claims_problem,
        'gpus': None if in_order is None else [_gpu(gpu, user_name) for gpu in in_order],
    }


def _gpu(gpu: Gpu, user_name: Callable[[int], str]) -> dict[str, object]:
    state = gpu.state
    return {
        'index': state.number,
        'uuid': state.uuid,
        'pci_bus_id': state.pci_bus_id,
        'type': state.name,
        'status': status_of(gpu),
        'problem': state.problem,
        'utilization_percent': state.utilization,
        'memory_total_bytes': state.memory_total,
        'memory_used_bytes': state.memory_used,
        'memory_free_bytes': state.memory_free,
        'temperature_celsius': state.temperature,
        'sm_clock_hertz': state.sm_clock,
        'power_watts': state.power,
        'power_limit_watts': state.power_limit,
        'processes': None if gpu.processes is None else [_process(process) for process in gpu.processes],
        'claim': None if gpu.claim is None else _claim(gpu.claim, user_name),
        'mig_devices': None if gpu.mig_devices is None else [_gpu(part, user_name) for part in gpu.mig_devices],
    }


def _process(process: GpuProcess) -> dict[str, object]:
    return {
        'pid': process.pid,
        'user': process.user,
        'command': process.command,
        'program': process.program,
        'started': process.started,
        'memory_bytes': process.memory,
        'computes': process.computes,
    }


def _claim(claim: Claim, user_name: Callable[[int], str]) -> dict[str, object]:
    return {
        'user': user_name(claim.user_id),
        'user_id': claim.user_id,
        'pid': claim.process_id,
        'in_another_container': claim.in_another_container,
        'made': claim.made,
        'expires': claim.expires,
        'command': claim.command,
    }
