"""The programs atop and atopsar in a test's own network, and what they print of GPUs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from typing import TYPE_CHECKING, NamedTuple, Self

from support.programs import need_program
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from support.own_network import OwnNetwork

# Label, host, Unix time, date, time and length of the interval stand in front of everything.
_GPU_LINE = re.compile(r'GPU \S+ \d+ \S+ \S+ \d+ (.*)')
_PROCESS_LINE = re.compile(r'PRE \S+ \d+ \S+ \S+ \d+ (\d+) \(.*\) (.*)')
_END = 'SEP'


class AtopSample(NamedTuple):
    """What atop prints after an interval."""

    gpus: list[str]
    """A GPU's number, bus, type, busy, memory busy, size and use of its memory, samples, and the three sums."""
    processes: dict[int, str]
    """By process ID, its state, its state on GPUs, their number and bits, busy, memory busy, memory, the sum of that,
    samples."""


class _Program:
    """A program that runs until the end of the block, which it has to reach without a complaint.

    It takes a sample when it is told to, and so none before all is as the test wants it.
    """

    def __init__(self, network: OwnNetwork, *words: str) -> None:
        need_program(words[0])
        self._process = network.start(
            *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {'LC_ALL': 'C'}
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            _, errors = self._process.communicate(timeout=TIMEOUT)
            assert (self._process.returncode, errors) == (0, '')

    def _take_sample(self) -> None:
        self._process.send_signal(signal.SIGUSR1)

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, 'it printed no more'
        return line.removesuffix('\n')


class Atop(_Program):
    """``atop`` in its manner for other programs; the first of its samples, at once, is of the time since the boot.

    :param count: How many samples it takes.
    """

    def __init__(self, network: OwnNetwork, count: int) -> None:
        super().__init__(network, 'atop', '-k', '-P', 'GPU,PRE', '0', str(count))
        self._is_first = True

    def sample(self) -> AtopSample:
        """Have it take the next sample, and return that."""
        if not self._is_first:
            self._take_sample()
        self._is_first = False
        sample = AtopSample([], {})
        while (line := self._line()) != _END:
            if gpu := _GPU_LINE.fullmatch(line):
                sample.gpus.append(gpu[1])
            elif process := _PROCESS_LINE.fullmatch(line):
                sample.processes[int(process[1])] = process[2]
        return sample


class Atopsar(_Program):
    """``atopsar -g`` with lines also of GPUs that do nothing, each with its time.

    :param count: How many samples it takes.
    :param gpus: How many GPUs there are.
    """

    def __init__(self, network: OwnNetwork, count: int, gpus: int) -> None:
        super().__init__(network, 'atopsar', '-aSx', '-g', '0', str(count))
        self._gpus = gpus
        self.head = ''
        while not self.head.startswith('busaddr'):
            self.head = self._row()

    def sample(self) -> list[str]:
        """Have it take the next sample, and return the rows of the table for it."""
        self._take_sample()
        return [self._row() for _ in range(self._gpus)]

    def _row(self) -> str:
        """Return a line without the time, and with one blank between two columns."""
        return ' '.join(self._line().split()[1:])
