"""The words in which Slurm, Kubernetes and Docker are asked for memory, cores, GPUs and time."""

from __future__ import annotations

import math
from dataclasses import dataclass

_MEBIBYTE = 2**20
_MEBIBYTES_IN_GIBIBYTE = 1024
_ROUNDED_TO = 100
"""Mebibytes."""
_GIBIBYTES_FROM = 10
"""Larger sizes are whole gibibytes."""


@dataclass(frozen=True, slots=True)
class Words:
    """The options of a batch system. Those with a number have ``{}`` in its place; empty: there is none.

    :ivar memory: Asks for memory.
    :ivar memory_limit: Sets the limit of memory.
    :ivar mebibytes: The unit of mebibytes.
    :ivar gibibytes: The unit of gibibytes.
    """

    memory: str
    memory_limit: str
    mebibytes: str
    gibibytes: str
    cores: str
    gpus: str
    time: str = ''


BATCH_SYSTEMS = {
    'slurm': Words('--mem={}', '--mem={}', 'M', 'G', '--cpus-per-task={}', '--gpus={}', '--time={}'),
    'kubernetes': Words(
        'resources.requests.memory: {}',
        'resources.limits.memory: {}',
        'Mi',
        'Gi',
        'resources.requests.cpu: {}',
        'nvidia.com/gpu: {}',
    ),
    'docker': Words('--memory={}', '--memory={}', 'm', 'g', '--cpus={}', '--gpus={}'),
}


def rounded_memory(size: float) -> int:
    """Return a size rounded up to a number that people write: 100 MiB, from 10 GiB on 1 GiB."""
    mebibytes = math.ceil(size / _MEBIBYTE)
    is_large = mebibytes >= _GIBIBYTES_FROM * _MEBIBYTES_IN_GIBIBYTE
    step = _MEBIBYTES_IN_GIBIBYTE if is_large or mebibytes % _MEBIBYTES_IN_GIBIBYTE == 0 else _ROUNDED_TO
    return math.ceil(mebibytes / step) * step * _MEBIBYTE


def memory_text(size: int, words: Words) -> str:
    """Return a size of :func:`rounded_memory` as the batch system writes it."""
    gibibytes, rest = divmod(size // _MEBIBYTE, _MEBIBYTES_IN_GIBIBYTE)
    return f'{size // _MEBIBYTE}{words.mebibytes}' if rest else f'{gibibytes}{words.gibibytes}'


def time_text(seconds: float) -> str:
    """Return a time as Slurm writes it."""
    minutes = math.ceil(seconds / 60)
    return f'{minutes // 60:02d}:{minutes % 60:02d}:00'
