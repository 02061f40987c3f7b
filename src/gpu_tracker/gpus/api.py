"""The public functions for GPUs that ``gpu_tracker`` offers."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import closing
from typing import TYPE_CHECKING, TypedDict

from gpu_tracker.errors import GpusUnavailableError, TrackerStateError
from gpu_tracker.gpus.claims.folder import ClaimFolder
from gpu_tracker.gpus.inventory import Inventory
from gpu_tracker.gpus.pick import Picker, Terms, Waiting, purpose
from gpu_tracker.gpus.request import check_count, check_seconds, make_request

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from gpu_tracker.gpus.pick import Picked
    from gpu_tracker.gpus.request import Request

_MEBIBYTE = 2**20


class GpuInfo(TypedDict):
    """One GPU in the list of :func:`gpu_info`; everything but the index is None where it is unknown."""

    index: str
    type: str | None
    uuid: str | None
    mem_total: int | None
    mem_used: int | None
    mem_used_percent: float | None


def gpu_info() -> list[GpuInfo]:
    """Return the GPUs of this machine in PCI bus order, those included that cannot be read.

    :returns: For each a dictionary with ``index`` (a string; of other vendors than NVIDIA ``amd:0``), ``type`` (the
        product), ``uuid``, ``mem_total`` and ``mem_used`` in whole MiB, and ``mem_used_percent``. Empty where no GPU
        driver is installed or loaded. MIG devices do not stand in it. Source: NVML; of other vendors the kernel's
        drivers.
    :raises gpu_tracker.errors.GpuError: The driver does not work.
    """
    with closing(Inventory()) as inventory:
        gpus = inventory.read(with_load=False)
    found: list[GpuInfo] = []
    for gpu in gpus:
        total, used = gpu.memory_total, gpu.memory_used
        found.append(
            {
                'index': gpu.place,
                'type': gpu.name,
                'uuid': gpu.uuid,
                'mem_total': None if total is None else total // _MEBIBYTE,
                'mem_used': None if used is None else used // _MEBIBYTE,
                'mem_used_percent': None if total is None or used is None else 100 * used / total,
            }
        )
    return found


def available_gpus(
    max_used_percent: float | None = None,
    *,
    limit: int | None = None,
    max_utilization: float | None = None,
    min_free: int | str | None = None,
    max_temperature: float | None = None,
    allow: str | Sequence[str] = (),
    order: str | None = None,
    uuid: bool = False,
    exclude: str | Sequence[str | int] = (),
    gpu_brand: str | Sequence[str] | None = None,
) -> list[str]:
    """Return the GPUs that are free, which is what ``gpu-tracker available`` prints.

    GPUs that are claimed are not free, and neither are those that CUDA_VISIBLE_DEVICES leaves out where it is set; of
    AMD those that ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES leave out, of Intel those that ZE_AFFINITY_MASK does.

    A GPU is free if nobody computes on it: no process but display servers, a utilization below 5 % and at most 20 % of
    its memory in use.

    :param max_used_percent: How much of a GPU's memory may be in use, in percent. Without ``max_utilization`` memory
        alone decides then, as in nvgpu. On a GPU without memory of its own no process may compute.
    :param limit: So many at most.
    :param max_utilization: Percent.
    :param min_free: Memory that has to be free: bytes, or a text such as ``'10GB'`` or ``'8GiB'``.
    :param max_temperature: Degrees Celsius.
    :param allow: Names of programs that may compute on a free GPU, in a list or with commas between them.
    :param order: ``'index'``; ``'free'``, most free memory first; ``'power'``, highest power limit of the board first.
        None: ``'free'``, or ``'index'`` if memory alone decides.
    :param uuid: Return UUIDs, of MIG devices too, instead of indices.
    :param exclude: GPUs that are not wanted: indices (``5:0`` is a MIG device), UUIDs or beginnings of UUIDs, in a list
        or with commas between them.
    :returns: Indices in PCI bus order (which CUDA uses where CUDA_DEVICE_ORDER is PCI_BUS_ID), as strings, or UUIDs.
        Empty where none is free.
    :raises ValueError: A parameter has a value that cannot be used.
    :raises gpu_tracker.errors.GpuError: The driver does not work.
    :raises gpu_tracker.errors.ClaimsError: The claims of others cannot be read.
    """
    request = make_request(
        max_used_percent=max_used_percent,
        max_utilization=max_utilization,
        min_free=min_free,
        max_temperature=max_temperature,
        allow=allow,
        limit=limit,
        order=order,
        uuid=uuid,
        exclude=exclude,
        gpu_brand=gpu_brand,
        environment=os.environ,
    )
    try:
        with closing(Inventory()) as inventory:
            picked = Picker(inventory, ClaimFolder()).pick(request)
    except GpusUnavailableError:
        return []
    _warn(request, picked)
    return [request.name(gpu) for gpu in picked.chosen]


def claim_gpus(
    n: int,
    *,
    wait: bool = False,
    wait_seconds: float | None = None,
    seconds: float | None = None,
    max_used_percent: float | None = None,
    max_utilization: float | None = None,
    min_free: int | str | None = None,
    max_temperature: float | None = None,
    allow: str | Sequence[str] = (),
    order: str | None = None,
    uuid: bool = False,
    exclude: str | Sequence[str | int] = (),
    gpu_brand: str | Sequence[str] | None = None,
) -> AbstractContextManager[list[str]]:
    """Claim free GPUs for the time of a ``with`` block, so that no other claim gives them to anybody else.

    The claim ends with the block, with the process, or when its time is up. It binds everybody who picks GPUs with
    gpu-tracker on this machine, and nobody else.

    :param n: How many GPUs, exactly.
    :param wait: Wait until so many are free.
    :param wait_seconds: Wait so long at most.
    :param seconds: End the claim after so many seconds even where the block goes on; None: not before the block ends.
    :returns: A context manager; the block gets the list of indices, or of UUIDs, in the order asked for. All other
        parameters are those of :func:`available_gpus`. The environment is not changed.
    :raises gpu_tracker.errors.GpusUnavailableError: On entering: fewer are free, and waiting is not wanted, cannot
        help, or took too long. Its ``reasons`` say why.
    :raises gpu_tracker.errors.ClaimsError: On entering: claims cannot be recorded.
    :raises ValueError: A parameter has a value that cannot be used.
    :raises gpu_tracker.errors.GpuError: On entering: the driver does not work.
    """
    request = make_request(
        max_used_percent=max_used_percent,
        max_utilization=max_utilization,
        min_free=min_free,
        max_temperature=max_temperature,
        allow=allow,
        count=check_count('n', n),
        order=order,
        uuid=uuid,
        exclude=exclude,
        gpu_brand=gpu_brand,
        environment=os.environ,
    )
    check_seconds('seconds', seconds)
    longest = check_seconds('wait_seconds', wait_seconds)
    waiting = Waiting(longest) if wait or longest is not None else None
    return _Claim(request, seconds, waiting)


def _warn(request: Request, picked: Picked) -> None:
    """Warn where an index may mean another GPU to CUDA than it does here."""
    if picked.uncounted and not request.by_uuid:
        text = f'{picked.uncounted} cannot be read: CUDA may count the others without it; uuid=True is certain'
        warnings.warn(text, stacklevel=3)


class _Claim:
    """GPUs that are claimed while a block runs; one object may be used for several blocks, one after the other."""

    def __init__(self, request: Request, seconds: float | None, waiting: Waiting | None) -> None:
        self._request = request
        self._seconds = seconds
        self._waiting = waiting
        self._picker: Picker | None = None

    def __enter__(self) -> list[str]:
        if self._picker is not None:
            raise TrackerStateError('these GPUs are claimed already: every block needs a claim_gpus() of its own')
        try:
            with closing(Inventory()) as inventory:
                self._picker = Picker(inventory, ClaimFolder())
                terms = Terms(os.getpid(), self._seconds, purpose(sys.argv))
                picked = self._picker.pick(self._request, terms, self._waiting)
            _warn(self._request, picked)
        except BaseException:
            self.__exit__()
            raise
        return [self._request.name(gpu) for gpu in picked.chosen]

    def __exit__(self, *exception: object) -> None:
        if self._picker is not None:
            self._picker.release()
        self._picker = None
