"""Notes on what is missing or inexact in a report, a sentence each."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.engine.kernel_layout import Overflow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_tracker.cuda_probe.libraries import CodeFile

_MOST = 50
_BOUNDS = {
    Overflow.NOTICE: 'Loaded libraries, names and variables of programs that the probe missed: {:,}. Too many came at '
    'once.',
    Overflow.FOLLOWED: 'Processes not followed: {:,}. More processes ran at once than the limit "followed" allows.',
    Overflow.PROCESS: 'Threads ignored: {:,}. More programs called CUDA than the limit "processes" allows.',
    Overflow.DEVICE: 'Calls ignored: {:,}. Pairs of program and GPU exceeded four times the limit "processes".',
    Overflow.ALLOCATION: 'Allocations beyond the limit "allocations": {:,}. The probe may have missed their frees.',
    Overflow.KERNEL: 'Launches without the name of their kernel: {:,}. The limit "kernels" allows no more kernels.',
    Overflow.STREAM: 'Launches on streams beyond the limit "streams": {:,}. More streams were used than reported.',
    Overflow.THREAD: 'Calls ignored: {:,}. More threads called CUDA at once than the limit "threads" allows.',
    Overflow.FAILURE: 'Failed calls not reported: {:,}. The limit "failures" allows no more kinds of failures.',
    Overflow.PEAK: 'Updates of max memory that the probe missed: {:,}. Max memory may be too low.',
    Overflow.GRAPH: 'CUDA graphs whose kernels are not counted: {:,}. The limit "graphs" allows no more graphs.',
    Overflow.GRAPH_NODE: 'Nodes of CUDA graphs that are counted without the name of their kernel: {:,}. CUDA graphs '
    'had more kernels than sixteen times the limit "graphs".',
}
_MORE = f'There are more notes: only the first {_MOST} are reported.'
_GRAPHS = (
    'Launches of CUDA graphs with unknown kernels: {:,}. The graphs were made before the probe started, or in a way '
    'that the probe does not see. Their kernels are missing in all figures.'
)
_LOST = (
    'Events that came too fast to be read: {:,} of {:,}. Active time, used cores and the time of kernels lack '
    'these events. Counts and bytes are complete.'
)
_TOO_SOON = (
    'Programs that ended before the probe found their libraries: {}. The report has their calls only of libraries that '
    'the probe knew before, as with --library=PATH.'
)
_MOST_NAMES = 10
_LEFT_OUT = 'Ended programs not reported: {:,}. The limit "ended" allows no more programs.'


class Notes:
    """Collects what users have to know of the figures."""

    def __init__(self) -> None:
        self._sentences: dict[object, str] = {}
        self._is_full = False
        self.too_soon: tuple[str, ...] = ()
        """The names of program runs that ended before the libraries that they have loaded could be seen."""
        self.overflows: tuple[int, ...] = ()
        """See :attr:`gpu_tracker.cuda_probe.kernel_data.Totals.overflows`."""
        self.events = 0
        """Events that were taken."""
        self.unknown_graph_launches = 0
        """CUDA graphs that were launched, and whose kernels are not known."""
        self.left_out = 0
        """Program runs that have ended and are in no report."""

    @property
    def events_lost(self) -> int:
        """Events that found no room."""
        return self.overflows[Overflow.EVENT] if self.overflows else 0

    def add(self, text: str, about: object = None) -> None:
        """Add a sentence, once.

        :param about: What the sentence is about. Of several about the same only the first is kept. None: a sentence is
            added unless there is one of the same words.
        """
        about = text if about is None else about
        if about in self._sentences or len(self._sentences) < _MOST:
            self._sentences.setdefault(about, text)
        else:
            self._is_full = True

    def ran_before(self, pid: int) -> None:
        """Report that a process ran before the probe was there."""
        self.add(
            f'Process {pid} ran before the probe: what it had done until then is not reported, and memory that it had '
            'allocated counts neither as in use nor as freed. Which GPU a thread uses is known when it chooses one.'
        )

    def attached_late(self, pid: int, file: str, nanoseconds: int) -> None:
        """Report that a library could be called before it was attached to.

        :param nanoseconds: How long it could be, as the first notice of it says; later ones were on their way already.
        """
        self.add(
            f'{file} was attached to {nanoseconds / 1e6:.0f} ms after process {pid} began to load it: what it has '
            f'called until then is not reported. To lose nothing, name it before: --library={file}.',
            about=(pid, file),
        )

    def not_probed(self, file: CodeFile, error: OSError) -> None:
        """Report that a file could not be attached to."""
        self.add(f'{file.shown} could not be probed: {error.strerror}.')

    def out_of_reach(self, file: str, problem: str) -> None:
        """Report that a CUDA library which a process has mapped cannot be read.

        :param problem: Why, in words.
        """
        self.add(f'{file} could not be probed: {problem}.')

    def not_read(self, file: str, problem: str) -> None:
        """Report that CUDA code could not be read.

        :param problem: Why, in words.
        """
        self.add(f'Of kernels in {file} registers, code size and memory may be missing: {problem}.')

    def not_named(self) -> None:
        """Report that programs ended so soon that their kernels have no names."""
        self.add('Some kernels are shown as an address: their program ended before its symbols could be read.')

    def runtime_hidden(self, file: CodeFile) -> None:
        """Report that a program has the runtime linked in where it cannot be attached to."""
        self.add(
            f'{file.shown} has the CUDA runtime linked in, without its symbols: of its calls only those are seen that '
            "it makes of the driver, by the driver's names."
        )

    def nothing_attached(self, pid: int) -> None:
        """Report that a process uses the driver, and that its CUDA calls, if it makes any, cannot be seen."""
        self.add(
            f"Process {pid} has NVIDIA's device files open, but no file with CUDA functions that could be found. Its "
            'CUDA calls, if any, are in no figure here. Name the file that has the functions: --library=PATH.',
            about=('nothing attached', pid),
        )

    def not_seen(self, pid: int) -> None:
        """Report that it cannot be seen which libraries a process has."""
        self.add(
            f'Which libraries process {pid} has loaded cannot be read: that takes its user and its rights, or root.'
        )

    def not_followed(self, pid: int) -> None:
        """Report that there was no room to follow a process."""
        self.add(f'Process {pid} is not followed: more processes run than the limit "followed" allows.')

    def all(self) -> tuple[str, ...]:
        """Return all sentences."""
        counted = zip(Overflow, self.overflows, strict=False)
        bounds = (_BOUNDS[bound].format(count) for bound, count in counted if count and bound in _BOUNDS)
        more = (_MORE,) if self._is_full else ()
        return (*self._sentences.values(), *more, *bounds, *self._counted())

    def _counted(self) -> Iterator[str]:
        if self.too_soon:
            counts = Counter(self.too_soon)
            names = [name if count == 1 else f'{name} ({count:,})' for name, count in counts.most_common(_MOST_NAMES)]
            if len(counts) > _MOST_NAMES:
                names.append('others')
            yield _TOO_SOON.format(', '.join(names))
        if self.unknown_graph_launches:
            yield _GRAPHS.format(self.unknown_graph_launches)
        if self.events_lost:
            yield _LOST.format(self.events_lost, self.events + self.events_lost)
        if self.left_out:
            yield _LEFT_OUT.format(self.left_out)
