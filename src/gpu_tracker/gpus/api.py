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
    """Return all GPUs of this machine in PCI bus order. The list has no MIG devices.

    :returns: One dictionary for each GPU. ``index`` is a string such as ``0`` for an NVIDIA GPU or ``amd:0`` for an AMD
        GPU. The other keys are ``type`` (product name), ``uuid``, ``mem_total`` and ``mem_used`` in MiB, and
        ``mem_used_percent``. Without a GPU driver, the list is empty.
    :raises gpu_tracker.errors.GpuError: if the GPU driver does not work.
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
    """Return the free GPUs, like the command ``gpu-tracker available``: a list of indices or UUIDs, as strings.

    By default, a free GPU has a utilization below 5 %, at most 20 % of its memory in use, and no programs except
    display servers. GPUs that are claimed, or hidden by a variable such as ``CUDA_VISIBLE_DEVICES``, are not free.

    :param max_used_percent: A free GPU uses at most this percentage of its memory. If you do not also set
        ``max_utilization``, programs and utilization are not checked.
    :param limit: Return at most this many GPUs.
    :param max_utilization: Highest utilization of a free GPU, in percent.
    :param min_free: Free memory that a GPU must have: bytes, or a text such as ``'10GB'``.
    :param max_temperature: Highest temperature of a free GPU, in degrees Celsius.
    :param allow: Names of programs that may run on a free GPU.
    :param order:  ``'index'``, ``'free'`` (most free memory first) or ``'power'`` (highest power limit first). The
        default is ``'free'``, or ``'index'`` if utilization is not checked.
    :param uuid: Return UUIDs, not indices, and MIG devices instead of their GPU.
    :param exclude: GPUs to leave out: indices, UUIDs or beginnings of UUIDs. ``5:0`` is MIG device 0 of GPU 5.
    :param gpu_brand: GPU vendors to choose from, as in :class:`~gpu_tracker.Tracker`.
    :raises ValueError: if a parameter has an invalid value.
    :raises gpu_tracker.errors.ClaimsError: if the claims cannot be read.
    :raises gpu_tracker.errors.GpuError: if the GPU driver does not work.
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
    """Claim free GPUs for a ``with`` block. gpu-tracker gives claimed GPUs to no other program until the block ends.

    In ``with claim_gpus(1) as gpus``, ``gpus`` is a list of indices or UUIDs. Set ``CUDA_VISIBLE_DEVICES`` yourself.
    :func:`available_gpus` explains the other parameters and errors.

    :param n: Number of GPUs to claim.
    :param wait: Wait until ``n`` GPUs are free.
    :param wait_seconds: Wait at most this many seconds.
    :param seconds: End the claim after this many seconds.
    :raises gpu_tracker.errors.GpusUnavailableError: if too few GPUs are free.
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
            raise TrackerStateError('this claim_gpus() is already in use: call claim_gpus() again for each with block')
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
