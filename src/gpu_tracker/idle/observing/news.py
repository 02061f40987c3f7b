"""What is to be told of the looks: each thing once, and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from gpu_tracker.idle.gpu_id import GpuId

_MOST_NAMED = 3
_NO_GPU = 'there is no GPU at the moment'
_NONE_WATCHED = 'none of the GPUs that are watched is there at the moment'
_IN_CONTAINER = (
    'in this container, which has process IDs of its own, processes outside it cannot be seen: they make a GPU busy '
    'only by its memory and utilization, where thresholds are set for them'
)


class News:
    """Keeps what was told, and what is to be told."""

    def __init__(self) -> None:
        self._messages: list[str] = []
        self._told: set[str] = set()
        self._problem: str | None = None
        self._claims_problem: str | None = None
        self._gpus: frozenset[GpuId] | None = None
        self._watched: frozenset[GpuId] = frozenset()
        self._lack: str | None = None

    def take(self) -> list[str]:
        """Return what was not taken yet."""
        messages, self._messages = self._messages, []
        return messages

    def tell_of_container(self) -> None:
        """Tell that this is a container with process IDs of its own."""
        self._once('container', _IN_CONTAINER)

    def tell_of_unseen(self, pids: Collection[int], *, is_root: bool, has_driver: bool) -> None:
        """Tell that there are processes whose descriptors cannot be read, the first time only.

        :param pids: Which ones; they are named where they are few.
        :param is_root: Whether this is root, whom containers and services may deny the right.
        :param has_driver: Whether a driver tells who uses GPUs.
        """
        what = f'{len(pids)} processes'
        if len(pids) <= _MOST_NAMED:
            what = f'process{"" if len(pids) == 1 else "es"} {", ".join(map(str, sorted(pids)))}'
        why = 'cannot be read, even by root here' if is_root else 'can be read by root only'
        rest = 'only the GPU driver tells what is used there' if has_driver else 'no use of a GPU is seen there'
        self._once('unseen', f'the descriptors of {what} {why}: {rest}')

    def tell_of_driver(self, problem: str | None) -> None:
        """Tell of a problem of the driver when it begins, and when it has ended."""
        if problem != self._problem:
            self._messages.append('the GPU driver works again' if problem is None else problem)
        self._problem = problem

    def tell_of_claims(self, problem: str | None) -> None:
        """Report why claims on GPUs cannot be read when that begins, and when it has ended."""
        if problem != self._claims_problem:
            self._messages.append('claims on GPUs are known again' if problem is None else problem)
        self._claims_problem = problem

    def tell_of_gpus(self, there: Collection[GpuId], watched: Collection[GpuId]) -> None:
        """Tell which of the watched GPUs have come or gone, and where there is none.

        :param there: All GPUs.
        :param watched: Those of them that are watched, which a new configuration may change without any being gone.
        """
        gpus = frozenset(there)
        if self._gpus is not None:
            gone = sorted(self._watched - gpus, key=_place)
            appeared = sorted(frozenset(watched) - self._gpus, key=_place)
            self._messages += [f'GPU {gpu} has gone' for gpu in gone] + [f'GPU {gpu} has appeared' for gpu in appeared]
        lack = None if watched else _NONE_WATCHED if there else _NO_GPU
        if lack is not None and lack != self._lack:
            self._messages.append(lack)
        self._gpus, self._watched, self._lack = gpus, frozenset(watched), lack

    def _once(self, what: str, text: str) -> None:
        if what not in self._told:
            self._told.add(what)
            self._messages.append(text)


def _place(gpu: GpuId) -> tuple[int, int]:
    return gpu.number, -1 if gpu.mig is None else gpu.mig
