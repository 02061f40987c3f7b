"""The kernels of an executable, a library, a fatbin or a cubin, read as they are asked for.

A kernel has to exist in every SM version of its source file (CUDA's programming guide forbids anything else), so the
names of one cubin, the smallest, are those of the whole fatbin: of a large library about an eighth is unpacked to find
names, and then the one fatbin that has the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.binaries import elf64, fatbin
from gpu_tracker.cuda_probe.binaries.cubin import Cubin, Kernel
from gpu_tracker.cuda_probe.binaries.demangling import common_name, demangle
from gpu_tracker.cuda_probe.binaries.fatbin import LARGEST_PAYLOAD, Image, Packing, Payload, unpacked
from gpu_tracker.cuda_probe.binaries.region import MemoryRegion, NotReadableError, OpenFile, PartOfRegion

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from gpu_tracker.cuda_probe.binaries.cubin import KernelVariant
    from gpu_tracker.cuda_probe.binaries.region import Region

SECTIONS = ('.nv_fatbin', '__nv_relfatbin')
"""Where the fatbins of a program stand: code that runs, and with -rdc=true what it was linked from."""
_MOST_FATBINS = 1 << 17  # libcublasLt.so has about 3,000
_MOST_CUBINS = 1 << 19
_MOST_UNPACKED = 32 << 30  # bytes that are unpacked in search of names, in all
_MOST_NAMES = 256 << 20  # bytes
_MOST_COPIES = 8  # of one template's instance, one in each source file that uses it


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

    ``kernels`` has them by the mangled names in the device code. The first access searches all code for names; a
    kernel's figures are read when it is taken from there.
    """

    def __init__(self, region: Region, problem: str | None = None) -> None:
        self._index = CodeIndex(region)
        self._problem = problem
        self.kernels: Mapping[str, Kernel] = _Kernels(self._index)

    @property
    def problem(self) -> str | None:
        """What could not be read, in words; None where all could."""
        if self._problem is None:
            self._index.by_symbol()
        return self.problem_so_far

    @property
    def problem_so_far(self) -> str | None:
        """The same, without reading anything for it."""
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


class _FatbinInFile:
    """A fatbin and the section that it stands in."""

    __slots__ = ('images', 'region')

    def __init__(self, region: Region, images: tuple[Image, ...]) -> None:
        self.region = region
        self.images = images


class CodeIndex:
    """The kernels in a file's fatbins; nothing is read before something is asked for."""

    def __init__(self, region: Region) -> None:
        self._region = region
        self._by_symbol: dict[str, list[_FatbinInFile]] | None = None
        self._by_common_name: dict[str, str | None] = {}
        self._last: tuple[Region, Payload, bytes] | None = None
        self.problem: str | None = None
        """What could not be read, the first thing of it that was met; None while nothing was."""

    def by_symbol(self) -> Mapping[str, object]:
        """Return a mapping whose keys are the kernels' names in the device code."""
        if self._by_symbol is None:
            self._by_symbol = {}
            self._read_names(self._by_symbol)
            self._last = None
        return self._by_symbol

    def symbol_of(self, host_symbol: str) -> str | None:
        """Return the device code's name of a kernel that the program calls so.

        None where there is none, and where kernels of several files have it, so that it is ambiguous.
        """
        if host_symbol in self.by_symbol():
            return host_symbol
        return self._by_common_name.get(common_name(host_symbol))

    def variants(self, symbol: str) -> tuple[KernelVariant, ...]:
        """Return the kernel's figures for each SM version, the lowest first."""
        self.by_symbol()
        found: set[KernelVariant] = set()
        for code in (self._by_symbol or {}).get(symbol, []):
            for image in code.images:
                try:
                    cubin = self._cubin(code.region, image)
                    found.update(cubin.variants(frozenset([symbol]), image.sm or cubin.sm, image.feature).values())
                except NotReadableError as error:
                    self._note(str(error))
        self._last = None
        return tuple(sorted(found, key=lambda variant: (variant.sm, variant.feature, variant.code_size or 0)))

    def _note(self, problem: str) -> None:
        self.problem = self.problem or f'not readable: {problem}'

    def _read_names(self, by_symbol: dict[str, list[_FatbinInFile]]) -> None:
        unpacked_bytes = 0
        name_bytes = 0
        for code in self._fatbins():
            image = min(code.images, key=lambda image: (image.payload.unpacked_size, image.start))
            unpacked_bytes += image.payload.unpacked_size
            try:
                for symbol in self._cubin(code.region, image).symbols():
                    name_bytes += len(symbol)
                    if unpacked_bytes > _MOST_UNPACKED or name_bytes > _MOST_NAMES:
                        self._note('it has more code than is searched')
                        return
                    self._add_kernel(by_symbol, symbol, code)
            except NotReadableError as error:
                self._note(str(error))

    def _add_kernel(self, by_symbol: dict[str, list[_FatbinInFile]], symbol: str, code: _FatbinInFile) -> None:
        copies = by_symbol.setdefault(symbol, [])
        if not copies:
            name = common_name(symbol)
            self._by_common_name[name] = None if name in self._by_common_name else symbol
        # What is not linked yet has other figures: it counts where there is nothing else, in object files.
        if len(copies) < _MOST_COPIES and not (copies and copies[0].region is not code.region):
            copies.append(code)

    def _fatbins(self) -> Iterator[_FatbinInFile]:
        try:
            only_ptx = True
            number = cubins = 0
            if (cubin := self._as_cubin()) is not None:
                yield cubin
                return
            for region in self._code_regions():
                for found in fatbin.fatbins(region):
                    number += 1
                    cubins += len(found.images)
                    if number > _MOST_FATBINS or cubins > _MOST_CUBINS:
                        self._note('it has more code than is searched')
                        return
                    if found.cut:
                        self._note('its code is cut short')
                    only_ptx = only_ptx and found.has_ptx
                    if found.images:
                        only_ptx = False
                        yield _FatbinInFile(region, found.images)
            if number and only_ptx:
                self._note('it has only PTX, which the driver compiles when the program runs')
        except NotReadableError as error:
            self._note(str(error))

    def _as_cubin(self) -> _FatbinInFile | None:
        """Return the file as the one cubin that it is, None where it is something else."""
        if self._region.read(0, len(fatbin.MAGIC)) == fatbin.MAGIC or elf64.Elf(self._region).machine != elf64.EM_CUDA:
            return None
        payload = Payload(0, self._region.size, Packing.NONE, self._region.size)
        return _FatbinInFile(self._region, (Image(sm=0, feature='', payload=payload, start=0, size=self._region.size),))

    def _code_regions(self) -> Iterator[Region]:
        """Yield what holds fatbins."""
        region = self._region
        if region.read(0, len(fatbin.MAGIC)) == fatbin.MAGIC:
            yield region
            return
        for section in elf64.Elf(region).sections():
            if section.name in SECTIONS and section.kind != elf64.SHT_NOBITS:
                yield PartOfRegion(region, section.offset, section.size)

    def _cubin(self, region: Region, image: Image) -> Cubin:
        payload = image.payload
        if payload.packing is Packing.NONE:
            return Cubin(PartOfRegion(region, payload.offset + image.start, image.size))
        if payload.size > LARGEST_PAYLOAD:
            raise NotReadableError(f'an entry of {payload.size} bytes is too large')
        # Cubins that are compressed together are unpacked once, not once for each.
        if self._last is None or self._last[:2] != (region, payload):
            contents = unpacked(region.read(payload.offset, payload.size), payload.packing, payload.unpacked_size)
            self._last = (region, payload, contents)
        return Cubin(MemoryRegion(self._last[2][image.start : image.start + image.size]))
