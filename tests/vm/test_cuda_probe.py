"""The probe of CUDA calls on the kernel of the virtual machine, which is older than most: Linux 6.1 in Debian 12."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.compiled import require_compiler
from support.cuda_stand_in import StandIn
from support.vm import VirtualMachine

if TYPE_CHECKING:
    from collections.abc import Iterator

LIBBPF = Path('/usr/lib/x86_64-linux-gnu/libbpf.so.1')
SCRIPT = """
    alloc a 1000; launches 300 axpy default 2 1 1 256 1 1; threads 2 { launches 50 gemm default 1 1 1 2 1 1 }
    fail_launch; sync default; fork { launch plain default 1 1 1 1 1 1 }; reap; free a
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder that the machine has too: its /tmp is its own."""
    with tempfile.TemporaryDirectory(dir='/var/tmp') as made:
        yield Path(made)


def test_calls_are_counted_on_the_kernel_of_the_machine(folder: Path, kernel: Path, tmp_path: Path) -> None:
    require_compiler()
    if not LIBBPF.exists():
        pytest.skip("needs libbpf, Debian's package libbpf1")
    fake = StandIn(folder)
    program, libraries = str(fake.program()), [str(fake.runtime), str(fake.driver)]
    with VirtualMachine(tmp_path, kernel, [str(LIBBPF), program, *libraries]) as machine:
        options = [f'--library={path}' for path in libraries]
        words = ['gpu-tracker', 'probe', '--json', '--output=/tmp/report.json', *options, '--', program, SCRIPT]
        done = machine.run(words, environment={'CUDA_STAND_IN_TRUTH': '/tmp'})
        assert done.code == 0, done.errors
        report = json.loads(machine.read('/tmp/report.json'))
    assert 'problem' not in report, report
    first, child = sorted(report['processes'], key=lambda process: process['pid'])
    assert (first['launches'], child['launches']) == (400, 1)
    assert (first['memory_max_bytes'], first['frees'], first['synchronisations']) == (1000, 1, 1)
    assert [failure['count'] for failure in first['failures']] == [1]
