"""The variables of processes that ran before anybody looked at them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cuda_probe.devices import environment
from support.gpus.gpu_machine import NO_SUCH_PROCESS
from support.programs import need_program
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VISIBLE = 'CUDA_VISIBLE_DEVICES'
ORDER = 'CUDA_DEVICE_ORDER'

_CHANGES = """
import os
os.environ['CUDA_VISIBLE_DEVICES'] = '3'
os.environ['CUDA_DEVICE_ORDER'] = 'PCI_BUS_ID'
os.environ.pop('CUDA_DEVICE_ORDER') if {removes} else None
print('ready', flush=True)
input()
"""
_IN_C = """
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
    setenv("CUDA_VISIBLE_DEVICES", "5", 1);
    puts("ready");
    fflush(stdout);
    return getchar();
}
"""


@contextlib.contextmanager
def running(*words: str, **variables: str) -> Iterator[int]:
    usual = {name: value for name, value in os.environ.items() if name not in {VISIBLE, ORDER}}
    settings = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE, 'text': True}
    with subprocess.Popen(words, env=usual | variables, **settings) as process:
        try:
            assert process.stdout.readline() == 'ready\n'
            yield process.pid
        finally:
            process.communicate('\n', timeout=TIMEOUT)


@pytest.mark.parametrize(('removes', 'left'), [(False, {ORDER: 'PCI_BUS_ID'}), (True, {})])
def test_what_a_program_has_changed_since_its_start_is_found(removes: bool, left: dict[str, str]) -> None:
    with running(sys.executable, '-ISc', _CHANGES.format(removes=removes), **{VISIBLE: '0,1'}) as pid:
        assert environment.initial_variables(pid) == {VISIBLE: '0,1'}
        assert environment.current_variables(pid) == {VISIBLE: '3'} | left
        assert environment.running_variables(pid) == {VISIBLE: '3'} | left


@pytest.mark.parametrize('options', [(), ('-static',), ('-no-pie',)])
def test_programs_of_all_kinds_are_read(tmp_path: Path, options: tuple[str, ...]) -> None:
    need_program('cc')
    (tmp_path / 'change.c').write_text(_IN_C)
    subprocess.run(['cc', '-o', 'change', 'change.c', *options], cwd=tmp_path, check=True)
    with running(str(tmp_path / 'change')) as pid:
        assert environment.current_variables(pid) == {VISIBLE: '5'}


def test_a_process_that_is_not_there_tells_nothing() -> None:
    assert environment.current_variables(NO_SUCH_PROCESS) is None
    assert environment.running_variables(NO_SUCH_PROCESS) is None


@pytest.mark.parametrize(
    ('initial', 'current', 'may_have_begun', 'expected'),
    [
        ({}, {VISIBLE: '1'}, False, {VISIBLE: '1'}),
        ({}, {VISIBLE: '1'}, True, None),
        ({VISIBLE: '1'}, {VISIBLE: '1'}, True, {VISIBLE: '1'}),
        ({VISIBLE: '1'}, None, False, None),
        (None, {VISIBLE: '1'}, False, {VISIBLE: '1'}),
        (None, {VISIBLE: '1'}, True, None),
    ],
)
def test_a_change_counts_only_where_cuda_cannot_have_begun_before_it(
    initial: dict[str, str] | None,
    current: dict[str, str] | None,
    may_have_begun: bool,
    expected: dict[str, str] | None,
) -> None:
    assert environment.variables_of_cuda(initial, current, may_have_begun=may_have_begun) == expected
