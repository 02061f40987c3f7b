"""Who is on a GPU: the lists of its processes and of those of its MIG devices, merged by process."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pynvml

from gpu_tracker.gpus.nvidia.calls import COMPUTE, GRAPHICS, merge, mig_devices, name_instance

if TYPE_CHECKING:
    from ctypes import c_void_p

    from gpu_tracker.gpus.nvidia.calls import Calls
    from gpu_tracker.gpus.reading import ProcessMemory

_NO_SUCH_LIST = {pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}
"""How GPUs answer that do not have one of the lists, and drivers that are older than its second version."""


class Listing(NamedTuple):
    """What the lists that a GPU supports say."""

    memory: dict[int, int | None] | None
    """The ID of each process -> its bytes, None where unknown. None: there is no list."""
    computing: set[int]
    """The processes that compute."""
    drawing: set[int]
    """The processes that draw."""
    kinds: set[int]
    """Which lists there are: COMPUTE, GRAPHICS."""


class ProcessLists:
    """The lists of one GPU. One that it does not support is not asked for again until ``forget``."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._unsupported: set[tuple[bool, int]] = set()

    def forget(self) -> None:
        """Ask for all lists again: the GPU has been opened anew, or its MIG mode has changed."""
        self._unsupported.clear()

    def read(self, handle: c_void_p, *, is_divided: bool) -> Listing:
        """Return the processes of a GPU, each once.

        :param is_divided: Whether it is in MIG mode. Then its MIG devices list its processes, where the GPU does not
            tell them to this user too.
        :raises pynvml.NVMLError: The processes are not known.
        """
        listed: tuple[set[int], set[int]] = (set(), set())
        kinds: set[int] = set()
        parts = []
        for _, part in mig_devices(handle) if is_divided else ():
            in_part = self._of(part, listed, kinds, is_part=True)
            if in_part:
                name_instance(part, in_part)
            parts.append(in_part)
        try:
            whole = self._of(handle, listed, kinds, is_part=False)
        except pynvml.NVMLError:
            if not any(in_part is not None for in_part in parts):
                raise
            whole = None
        entries = merge(whole, parts)
        return Listing(None if entries is None else _sums(entries), listed[COMPUTE], listed[GRAPHICS], kinds)

    def _of(
        self, handle: c_void_p, listed: tuple[set[int], set[int]], kinds: set[int], *, is_part: bool
    ) -> list[ProcessMemory] | None:
        """Return what both lists of a GPU or a MIG device say, None where it has neither; add to what is known of all.

        :raises pynvml.NVMLError: A list that there is cannot be had.
        """
        entries: list[ProcessMemory] | None = None
        for kind in (COMPUTE, GRAPHICS):
            if (is_part, kind) in self._unsupported:
                continue
            try:
                found = self._calls.listed(kind, handle)
            except pynvml.NVMLError as error:
                if error.value not in _NO_SUCH_LIST:
                    raise
                self._unsupported.add((is_part, kind))
                continue
            kinds.add(kind)
            listed[kind].update([entry.pid for entry in found])
            entries = found if entries is None else entries + found
        return entries


def _sums(entries: list[ProcessMemory]) -> dict[int, int | None]:
    """Return what each process has in all MIG instances together, as far as that is known."""
    sums: dict[int, int | None] = {}
    for entry in entries:
        known = sums.get(entry.pid)
        sums[entry.pid] = entry.memory if known is None else known + (entry.memory or 0)
    return sums
