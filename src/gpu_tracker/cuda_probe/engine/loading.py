"""The BPF object in the kernel with its maps and rings, and the reason for which the kernel has refused it."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.engine.attaching import MULTI, PERF, SESSION
from gpu_tracker.cuda_probe.engine.kernel_layout import EVENT_BYTES, INDEX, MAPS, NOTICE_BYTES, SETTINGS, Ring
from gpu_tracker.cuda_probe.engine.libbpf import (
    BPF_TRACE_UPROBE_MULTI,
    BPF_TRACE_UPROBE_SESSION,
    MACHINE,
    KernelMap,
    error_of,
    is_supported,
)
from gpu_tracker.errors import ProbeUnavailableError

if TYPE_CHECKING:
    from gpu_tracker.cuda_probe.limits import Limits

_CAPABILITIES = {'CAP_PERFMON': 38, 'CAP_BPF': 39}
_CAP_SYS_ADMIN = 21
_TYPES_OF_THE_KERNEL = '/sys/kernel/btf/vmlinux'


def explain(
    error: OSError, kind: str, own: str = '/proc/self', types: str = _TYPES_OF_THE_KERNEL
) -> ProbeUnavailableError:
    """Return the error that users see where the kernel has answered ``error`` to the engine of that kind.

    :param own: The folder of this process in /proc.
    :param types: The file with the kernel's types.
    """
    return ProbeUnavailableError(f'CUDA calls cannot be probed: {_reason(error, kind, own, types)}')


def _reason(error: OSError, kind: str, own: str, types: str) -> str:
    if error.errno in {errno.EPERM, errno.EACCES}:
        return _missing_right(error, kind, own)
    if not os.path.exists(types):
        return f'the kernel does not show its types ({types}): it was built without CONFIG_DEBUG_INFO_BTF.'
    if error.errno in {errno.EINVAL, errno.EOPNOTSUPP, errno.ENOENT, errno.ENOSYS}:
        return f'Linux {platform.release()} lacks what it needs ({error.strerror}): Linux 5.15 with uprobes, or later.'
    return f'{error.strerror}.'


def _missing_right(error: OSError, kind: str, own: str) -> str:
    try:
        status = _status(own)
        missing = _missing_capabilities(int(status['CapEff'], 16), kind)
        user = int(status['Uid'].split()[1])
    except (OSError, KeyError):
        return f'{error.strerror}: run it as root.'  # no /proc
    if missing:
        what = ' and '.join(missing)
        if user != 0:
            return f'this process lacks {what}; run it as root, or give it {_these(missing)}.'
        return f'this process is root without {what}, as in a container: start that with {_these(missing)}.'
    if _is_in_user_namespace(own):
        return 'this process is root in a user namespace alone, as in a rootless container; run it as root outside.'
    return (
        f'the kernel refuses it ({error.strerror}) though the capabilities are there: a filter of system calls, as '
        'containers have, or lockdown(7).'
    )


def _these(missing: list[str]) -> str:
    return 'this capability' if len(missing) == 1 else 'these capabilities'


def _is_in_user_namespace(own: str) -> bool:
    """Return whether the users here are not all users of the machine, see user_namespaces(7)."""
    try:
        with open(f'{own}/uid_map', encoding='ascii') as file:
            return file.read().split() != ['0', '0', '4294967295']
    except OSError:
        return False  # a kernel without them


def _status(own: str) -> dict[str, str]:
    """Return what the kernel says of this process, see proc_pid_status(5)."""
    with open(f'{own}/status', encoding='ascii', errors='replace') as file:
        return dict(line.split(':', 1) for line in file if ':' in line)


def _missing_capabilities(has: int, kind: str) -> list[str]:
    """Return the names of the capabilities that are needed beside those in ``has``.

    CAP_SYS_ADMIN stands for both others; attaching by perf events needs it on kernels since 6.16.
    """
    if has >> _CAP_SYS_ADMIN & 1:
        return []
    wanted = _CAPABILITIES if kind != PERF else {'CAP_SYS_ADMIN': _CAP_SYS_ADMIN}
    return [name for name, bit in wanted.items() if not has >> bit & 1]


_NOTICES_BYTES = 1 << 22
_FIRST_NUMBER = 1_000_000
"""Program runs that the kernel numbers have higher numbers than those that :meth:`.engine.Engine.follow` numbers."""
_ATTACH_TYPES = {SESSION: BPF_TRACE_UPROBE_SESSION, MULTI: BPF_TRACE_UPROBE_MULTI}
_TRACERS = ('forked', 'executed', 'exited')


class LoadedObject:
    """The probe's programs and maps in the kernel.

    :param library: libbpf.
    :param contents: The object file.
    :param kind: How its programs are to be attached.
    :raises OSError: The kernel has refused it.
    :raises gpu_tracker.errors.ProbeUnavailableError: It is no object file.
    """

    def __init__(self, library: ctypes.CDLL, contents: bytes, limits: Limits, kind: str) -> None:
        self._library = library
        self._links: list[int] = []
        self._contents = ctypes.create_string_buffer(contents, len(contents))  # libbpf reads it until it is closed
        self._object = library.bpf_object__open_mem(self._contents, len(contents), None)
        if not self._object:
            raise ProbeUnavailableError(
                'CUDA calls cannot be probed: the compiled probe in this installation of gpu-tracker is damaged; '
                'reinstall gpu-tracker.'
            )
        try:
            self._load(limits, kind)
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

    def check_threads(self) -> None:
        """Have each thread read its entry in the map ``followed`` again, at its next call."""
        self._run('check_again')

    def close(self) -> None:
        """Take everything out of the kernel."""
        self.events.close()
        self.notices.close()
        for link in self._links:
            self._library.bpf_link__destroy(link)
        self._links.clear()
        self._library.bpf_object__close(self._object)

    def _load(self, limits: Limits, kind: str) -> None:
        for name in ('either', 'enter', 'leave'):
            program = self._program(name)
            self._library.bpf_program__set_autoload(program, (name == 'either') == (kind == SESSION))
            if kind in _ATTACH_TYPES:
                self._library.bpf_program__set_expected_attach_type(program, _ATTACH_TYPES[kind])
        for name, entries in map_entries(limits).items():
            found = self._library.bpf_object__find_map_by_name(self._object, name.encode())
            self._library.bpf_map__set_max_entries(found, entries)
        result = self._library.bpf_object__load(self._object)
        if result != 0:
            raise error_of(result)

    def _set_up(self, half_a_ring: int) -> None:
        settings = self.maps['settings']
        settings.put(INDEX.pack(0), SETTINGS.pack(_FIRST_NUMBER, 0, 0, half_a_ring, 0, 0, 1))
        if not self._run('find_level'):
            raise OSError(errno.EOPNOTSUPP, 'the probe cannot read the PID namespaces of this kernel')

    def _run(self, program: str) -> bool:
        return int(self._library.bpf_prog_test_run_opts(self.program(program), _run_options())) == 0

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
        'graphs': limits.graphs,
        'graph_handles': limits.graphs * 2,
        'graph_nodes': limits.graphs * 16,
        'capturing': limits.streams,
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
    try:
        # Beside this module: importlib.resources would cost 2 MB, and 10 ms.
        with open(os.path.join(os.path.dirname(__file__), os.pardir, 'bpf', f'probe_{MACHINE}.bpf.o'), 'rb') as file:
            return file.read()
    except FileNotFoundError:
        raise ProbeUnavailableError(
            'CUDA calls cannot be probed: a file of this installation of gpu-tracker is missing; reinstall gpu-tracker.'
        ) from None
