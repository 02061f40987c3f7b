"""The kernels of an executable, a library, a fatbin or a cubin, read from it as they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.binaries.code_index import CodeIndex
from gpu_tracker.cuda_probe.binaries.demangling import demangle
from gpu_tracker.cuda_probe.binaries.kernel import Kernel
from gpu_tracker.cuda_probe.binaries.region import MemoryRegion, OpenFile

if TYPE_CHECKING:
    import os

    from gpu_tracker.cuda_probe.binaries.region import Region


def read_binary(path: str | os.PathLike[str]) -> CudaBinary:
    """Return the kernels of the file ``path``: an executable or library, a ``.cubin`` or a ``.fatbin``.

    Little is read before a kernel is asked for. A file that cannot be read has no kernels, and says why in ``problem``.
    The file is kept open until the result and its ``kernels`` are dropped.
    """
    try:
        return CudaBinary(OpenFile(path))
    except OSError as error:
        return CudaBinary(MemoryRegion(b''), f'not readable: {error.strerror}')


class CudaBinary:
    """The kernels of one file.

    ``kernels`` has them by the mangled names in the device code. The first look at it searches all code for names; a
    kernel's figures are read when it is taken from there.
    """

    def __init__(self, region: Region, problem: str | None = None) -> None:
        self._index = CodeIndex(region)
        self._problem = problem
        self.kernels: Mapping[str, Kernel] = _Kernels(self._index)

    @property
    def problem(self) -> str | None:
        """What could not be read, in words, as far as it was looked at; None where all could."""
        if self._problem is None:
            self._index.by_symbol()
        return self.problem_so_far

    @property
    def problem_so_far(self) -> str | None:
        """The same, without looking at anything for it."""
        return self._problem or self._index.problem

    def kernel_of(self, host_symbol: str) -> Kernel | None:
        """Return the kernel that the program launches as the function ``host_symbol``, None where there is none.

        Static kernels and those of unnamed namespaces have another name there than in the device code.
        """
        symbol = self._index.symbol_of(host_symbol)
        return None if symbol is None else self.kernels[symbol]


class _Kernels(Mapping[str, Kernel]):
    """The kernels of a file, each read when it is asked for."""

    def __init__(self, index: CodeIndex) -> None:
        self._index = index

    def __getitem__(self, symbol: str) -> Kernel:
        if symbol not in self._index.by_symbol():
            raise KeyError(symbol)
        return Kernel(symbol, demangle(symbol), self._index.variants(symbol))

    def __contains__(self, symbol: object) -> bool:
        return symbol in self._index.by_symbol()

    def __iter__(self) -> Iterator[str]:
        return iter(self._index.by_symbol())

    def __len__(self) -> int:
        return len(self._index.by_symbol())
