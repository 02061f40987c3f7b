"""The reason for which the kernel has refused the probe, in one sentence that names what is missing."""

from __future__ import annotations

import errno
import os
import platform

from gpu_tracker.cuda_probe.engine.attaching import MULTI
from gpu_tracker.errors import ProbeUnavailableError

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
        return f'the kernel does not tell its types ({types}): it was built without CONFIG_DEBUG_INFO_BTF.'
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
    wanted = _CAPABILITIES if kind == MULTI else {'CAP_SYS_ADMIN': _CAP_SYS_ADMIN}
    return [name for name, bit in wanted.items() if not has >> bit & 1]
