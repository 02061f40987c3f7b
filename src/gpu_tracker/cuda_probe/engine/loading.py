"""The BPF object that was compiled with the wheel, loaded into the kernel with its maps and programs."""

from __future__ import annotations

import ctypes
import errno
from importlib import resources
from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.engine.layout import EVENT_BYTES, INDEX, MAPS, NOTICE_BYTES, SETTINGS
from gpu_tracker.cuda_probe.engine.libbpf import KernelMap, error_of
from gpu_tracker.cuda_probe.engine.ring import Ring
from gpu_tracker.cuda_probe.engine.system_calls import BPF_TRACE_UPROBE_MULTI, MACHINE, is_supported
from gpu_tracker.errors import ProbeUnavailableError

if TYPE_CHECKING:
    from gpu_tracker.cuda_probe.limits import Limits

_NOTICES_BYTES = 1 << 22
_FIRST_NUMBER = 1_000_000
"""Program runs that the kernel numbers have higher numbers than those that :meth:`.engine.Engine.follow` numbers."""
_TRACERS = ('forked', 'executed', 'exited')


class LoadedObject:
    """The probe's programs and maps in the kernel.

    :param library: libbpf.
    :param contents: The object file.
    :param multi: Load the programs for links to many functions, which kernels have since 6.6.
    :raises OSError: The kernel has refused it.
    :raises gpu_tracker.errors.ProbeUnavailableError: It is no object file.
    """

    def __init__(self, library: ctypes.CDLL, contents: bytes, limits: Limits, *, multi: bool) -> None:
        self._library = library
        self._links: list[int] = []
        self._contents = ctypes.create_string_buffer(contents, len(contents))  # libbpf reads it until it is closed
        self._object = library.bpf_object__open_mem(self._contents, len(contents), None)
        if not self._object:
            raise ProbeUnavailableError(
                'CUDA calls cannot be probed: the compiled probe in this installation of gpu-tracker is damaged; '
                'install gpu-tracker anew.'
            )
        try:
            self._load(limits, multi=multi)
            self.maps = {name: self._map(name, *sizes) for name, sizes in MAPS.items()}
            self._set_up(limits.ring_bytes // 2)
            self.events = Ring.mapped(self.handle('events'), limits.ring_bytes, EVENT_BYTES)
            self.notices = Ring.mapped(self.handle('notices'), _NOTICES_BYTES, NOTICE_BYTES)
        except BaseException:
            library.bpf_object__close(self._object)
            raise

    def trace(self) -> None:
        """Begin to follow forks, execs and exits; processes that were named before are followed from now on.

        :raises OSError: The kernel has refused it.
        """
        for name in _TRACERS:
            link = self._library.bpf_program__attach(self._program(name))
            if not link:
                raise error_of(None)
            self._links.append(link)

    def program(self, name: str) -> int:
        """Return the descriptor of a program."""
        return int(self._library.bpf_program__fd(self._program(name)))

    def handle(self, name: str) -> int:
        """Return the descriptor of a map."""
        return int(self._library.bpf_map__fd(self._library.bpf_object__find_map_by_name(self._object, name.encode())))

    def close(self) -> None:
        """Take everything out of the kernel."""
        self.events.close()
        self.notices.close()
        for link in self._links:
            self._library.bpf_link__destroy(link)
        self._links.clear()
        self._library.bpf_object__close(self._object)

    def _load(self, limits: Limits, *, multi: bool) -> None:
        for name in ('enter', 'leave'):
            if multi:
                self._library.bpf_program__set_expected_attach_type(self._program(name), BPF_TRACE_UPROBE_MULTI)
        for name, entries in map_entries(limits).items():
            found = self._library.bpf_object__find_map_by_name(self._object, name.encode())
            self._library.bpf_map__set_max_entries(found, entries)
        result = self._library.bpf_object__load(self._object)
        if result != 0:
            raise error_of(result)

    def _set_up(self, half_a_ring: int) -> None:
        settings = self.maps['settings']
        settings.put(INDEX.pack(0), SETTINGS.pack(_FIRST_NUMBER, 0, 0, half_a_ring))
        if self._library.bpf_prog_test_run_opts(self.program('find_level'), _run_options()) != 0:
            raise OSError(errno.EOPNOTSUPP, 'the kernel does not tell its PID namespaces')

    def _program(self, name: str) -> int:
        return int(self._library.bpf_object__find_program_by_name(self._object, name.encode()))

    def _map(self, name: str, key_size: int, value_size: int) -> KernelMap:
        return KernelMap(self._library, self.handle(name), key_size, value_size)


def map_entries(limits: Limits) -> dict[str, int]:
    """Return how many entries each map holds, and how many bytes each ring."""
    return {
        'followed': limits.followed,
        'processes': limits.processes,
        'devices': limits.processes * 4,
        'allocations': limits.allocations,
        'kernels': limits.kernels,
        'streams': limits.streams,
        'contexts': limits.processes * 4,
        'threads': limits.threads,
        'failures': limits.failures,
        'events': limits.ring_bytes,
        'notices': _NOTICES_BYTES,
    }


def _run_options() -> ctypes.Array[ctypes.c_char]:
    """Return a struct bpf_test_run_opts that says nothing but its size: the first of its members."""
    size = 80
    return ctypes.create_string_buffer(size.to_bytes(8, 'little'), size)


def read_object() -> bytes:
    """Return the object file.

    :raises gpu_tracker.errors.ProbeUnavailableError: There is none for this machine.
    """
    if not is_supported():
        raise ProbeUnavailableError(
            f'CUDA calls cannot be probed: the probe is made for x86-64 and aarch64, and this machine is {MACHINE}.'
        )
    file = resources.files('gpu_tracker.cuda_probe') / 'bpf' / f'probe_{MACHINE}.bpf.o'
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise ProbeUnavailableError(
            'CUDA calls cannot be probed: this installation of gpu-tracker was built without clang and has no probe; '
            'install clang and build it anew.'
        ) from None
