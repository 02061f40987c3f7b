"""CUDA calls: what the probe has seen of the tracked processes; part of the result where it is asked for."""

from __future__ import annotations

from gpu_tracker.resources.resource import Resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.cuda_usage import CUDAUsage
    from gpu_tracker.report import Totals, Units
    from gpu_tracker.resources.context import Context
    from gpu_tracker.resources.resource import Message
    from gpu_tracker.resources.section import OpenSection, SectionReader, Target

_GROUP = 'gpu_tracker.sources'
"""The group of entry points; each returns a :class:`gpu_tracker.resources.section.Section`."""
_NAME = 'cuda'
_LONGEST_END = 2.0
"""Seconds that the end of a run waits for the probe: nothing tells later what that has not told by then."""


class Cuda(Resource):
    """The figures that the probe's thread has published last."""

    def __init__(self, reader: SectionReader) -> None:
        self._reader = reader

    def follow(self, main: int | None, descendants: frozenset[int]) -> None:
        """Hand the pids of the tree to the probe's thread."""
        self._reader.members(descendants if main is None else descendants | {main})

    def sample(self, now: float, kind: str) -> None:
        """Do nothing: the probe's thread reads once a second."""

    def request_last(self) -> None:
        """Ask the thread for its last reading."""
        self._reader.finish(0.0)

    def wait_for_last(self) -> None:
        """Wait for that reading."""
        self._reader.finish(_LONGEST_END)

    def totals(self) -> dict[str, object]:
        """Return the fields of :class:`gpu_tracker.cuda_usage.CUDAUsage` in base units, or why there are none."""
        return self._reader.result()

    def take_messages(self) -> list[Message]:
        """Return why the probe cannot be used, or does not answer."""
        return self._reader.take_messages()


def open_resource(context: Context) -> Cuda:
    """Return the probe of the tree, which is attached before a command that is held back runs."""
    from gpu_tracker.resources.entry_points import load  # noqa: PLC0415 - most runs have none
    from gpu_tracker.resources.section import Target  # noqa: PLC0415 - as above

    root = context.tree.root.pid
    command, folder = context.config['command'] or ((), '')
    target = Target(root, frozenset(context.tree.members) - {root}, command, folder)
    return Cuda(open_reader(lambda: load(_GROUP, _NAME), target))


def open_reader(find: Callable[[], OpenSection], target: Target) -> SectionReader:
    """Return the thread that reads what ``find`` returns the opener of."""
    from gpu_tracker.cuda_usage import cuda_usage  # noqa: PLC0415 - as above
    from gpu_tracker.resources.section import SectionReader  # noqa: PLC0415 - most runs have none

    reader = SectionReader(_NAME, lambda found: cuda_usage(found, 'bytes'))
    reader.open(find, target)
    return reader


def usage_of(totals: Totals, wanted: Units) -> dict[str, CUDAUsage]:
    """Return the section ``cuda`` of the result."""
    from gpu_tracker.cuda_usage import cuda_usage  # noqa: PLC0415 - most runs have none

    return {'cuda': cuda_usage(totals['cuda'], wanted.gpu_ram)}
