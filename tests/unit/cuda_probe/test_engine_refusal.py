"""What users read where the kernel does not let them probe."""

from __future__ import annotations

import errno
import os
import platform
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cuda_probe.engine.attaching import MULTI, PERF
from gpu_tracker.cuda_probe.engine.loading import explain

if TYPE_CHECKING:
    from pathlib import Path

NONE, ALL = 0, (1 << 41) - 1
PERFMON, BPF, SYS_ADMIN = 1 << 38, 1 << 39, 1 << 21
OF_ALL_USERS = '         0          0 4294967295\n'


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Return a folder that tells of an ordinary user's process."""
    return told(tmp_path, NONE)


def told(folder: Path, capabilities: int, user: int = 1000, users: str = OF_ALL_USERS) -> Path:
    status = f'Name:\tpython: 3\nUid:\t{user}\t{user}\t{user}\t{user}\nCapEff:\t{capabilities:016x}\n'
    (folder / 'status').write_text(status)
    (folder / 'uid_map').write_text(users)
    (folder / 'types').touch()
    return folder


def said(number: int, own: Path, kind: str = MULTI) -> str:
    return str(explain(OSError(number, os.strerror(number)), kind, str(own), str(own / 'types')))


@pytest.mark.parametrize(
    ('capabilities', 'kind', 'missing'),
    [
        (NONE, MULTI, 'CAP_PERFMON and CAP_BPF; run it as root, or give it these capabilities.'),
        (BPF, MULTI, 'CAP_PERFMON; run it as root, or give it this capability.'),
        (PERFMON, MULTI, 'CAP_BPF; run it as root, or give it this capability.'),
        (BPF | PERFMON, PERF, 'CAP_SYS_ADMIN; run it as root, or give it this capability.'),
    ],
)
@pytest.mark.parametrize('number', [errno.EPERM, errno.EACCES])
def test_the_missing_capabilities_are_named(
    tmp_path: Path, capabilities: int, kind: str, missing: str, number: int
) -> None:
    own = told(tmp_path, capabilities)
    assert said(number, own, kind) == f'CUDA calls cannot be probed: this process lacks {missing}'


def test_root_in_a_container_is_told_what_to_start_the_container_with(tmp_path: Path) -> None:
    own = told(tmp_path, ALL & ~(SYS_ADMIN | BPF | PERFMON), user=0)
    assert said(errno.EPERM, own) == (
        'CUDA calls cannot be probed: this process is root without CAP_PERFMON and CAP_BPF, as in a container: start '
        'that with these capabilities.'
    )


def test_root_of_a_user_namespace_is_told_that_it_is_none(tmp_path: Path) -> None:
    own = told(tmp_path, ALL, user=0, users='         0       1000          1\n')
    assert said(errno.EPERM, own) == (
        'CUDA calls cannot be probed: this process is root in a user namespace alone, as in a rootless container; run '
        'it as root outside.'
    )


@pytest.mark.parametrize('capabilities', [ALL, SYS_ADMIN, BPF | PERFMON])
def test_a_refusal_in_spite_of_all_rights_says_what_may_forbid_it(tmp_path: Path, capabilities: int) -> None:
    assert said(errno.EPERM, told(tmp_path, capabilities, user=0)) == (
        'CUDA calls cannot be probed: the kernel refuses it (Operation not permitted) though the capabilities are '
        'there: a filter of system calls, as containers have, or lockdown(7).'
    )


def test_without_proc_the_kernels_own_word_is_told(tmp_path: Path) -> None:
    assert said(errno.EPERM, tmp_path) == ('CUDA calls cannot be probed: Operation not permitted: run it as root.')


def test_a_kernel_without_its_types_is_named_with_the_option_it_lacks(own: Path) -> None:
    (own / 'types').unlink()
    assert said(errno.ESRCH, own) == (
        f'CUDA calls cannot be probed: the kernel does not show its types ({own}/types): it was built without '
        'CONFIG_DEBUG_INFO_BTF.'
    )


@pytest.mark.parametrize('number', [errno.EINVAL, errno.EOPNOTSUPP, errno.ENOENT, errno.ENOSYS])
def test_an_old_kernel_is_told_which_would_do(own: Path, number: int) -> None:
    assert said(number, own) == (
        f'CUDA calls cannot be probed: Linux {platform.release()} lacks what it needs ({os.strerror(number)}): '
        'Linux 5.15 with uprobes, or later.'
    )


def test_anything_else_is_told_in_the_words_of_the_kernel(own: Path) -> None:
    assert said(errno.ENOMEM, own) == 'CUDA calls cannot be probed: Cannot allocate memory.'
