"""Which file tells of the hosts, and in which form."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gpu_tracker.fleet.config.cluster import ONLY_THIS_MACHINE, Cluster, ClusterError
from gpu_tracker.fleet.config.nvgpu_file import read_nvgpu_file
from gpu_tracker.fleet.config.toml_file import read_toml_file

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = 'NVGPU_CLUSTER_CFG'
"""Names a file for nvgpu, whose ``AGENTS`` hold here as well."""

_LONGEST = 4 * 2**20
"""Bytes: enough for tens of thousands of hosts."""


def read_cluster(option: str | None, environment: Mapping[str, str] = os.environ) -> Cluster:
    """Return the hosts of a file; where none is given, those of nvgpu's variable, and without it this machine.

    A file whose name ends in ``.toml`` is TOML, every other one is nvgpu's. Relative paths start from the working
    folder, in the variable as well: Flask would take them from the folder that nvgpu is installed in.

    :param option: The value of ``--config``; None: it was not given.
    :raises ClusterError: The file cannot be read, or something in it cannot be used.
    """
    if option is not None:
        return _read(option, '--config')
    path = environment.get(VARIABLE)
    return _read(path, VARIABLE) if path else ONLY_THIS_MACHINE  # an empty variable is none, as in Flask


def _read(path: str, source: str) -> Cluster:
    try:
        with open(path, 'rb') as file:
            content = file.read(_LONGEST + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise ClusterError(f'{source}: cannot read {path!r}: {reason}') from None
    if len(content) > _LONGEST:
        raise ClusterError(f'{source}: {path!r} is larger than {_LONGEST // 2**20} MiB: it is not a list of hosts')
    return read_toml_file(path, content) if path.endswith('.toml') else read_nvgpu_file(path, content)
