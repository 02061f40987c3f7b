"""Memory that the usual files in /proc do not show: the first thread has ended, or the process may not be read."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.programs import need_program
from support.truth import MEGABYTE, command, need_root, tracked
from support.truth.figures import wrong_ram

if TYPE_CHECKING:
    from collections.abc import Iterator

TRACKER = "gput.Tracker(sleep_time=0.05, ram_unit='bytes', time_unit='seconds')"
AS_NOBODY = (
    *('setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'),
    *('--inh-caps=-all,+dac_read_search,+dac_override', '--ambient-caps=-all,+dac_read_search,+dac_override'),
)
"""The right to search folders is for an interpreter that only root may reach."""
WITHOUT_RIGHTS = 'setpriv --inh-caps=-all --ambient-caps=-all sh -c \'exec "$@"\' sh'
"""Starts a program with the rights of an ordinary user: exec is called by a shell that has no others any more."""


@pytest.fixture(scope='module')
def elder() -> Iterator[str]:
    need_root()
    need_program('cc', 'setpriv')
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0o711)  # noqa: S103 - another user starts it
    path = f'{folder}/elder'
    source = Path(__file__).parents[1] / 'support' / 'truth' / 'elder.c'
    subprocess.run(['cc', '-O1', '-Wall', '-Wextra', '-Werror', '-pthread', '-o', path, str(source)], check=True)
    os.chmod(path, 0o711)  # noqa: S103 - and may not read it
    yield path
    shutil.rmtree(folder)


@pytest.mark.parametrize('children', [0, 3])
def test_a_process_whose_first_thread_has_ended_is_read_by_another_thread(elder: str, children: int) -> None:
    run = tracked(
        f"""
        with {TRACKER} as tracker:
            words = [sys.argv[1], '120', sys.argv[2], 'ends']
            process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            pids = [int(word) for word in process.stdout.readline().split()]
            truth = frames(pids)
            settle(tracker, 0.05)
            process.communicate()
        report(tracker, truth=truth)
        """,
        elder,
        children,
    )
    assert run['truth']['descendants'] > (120 + 12 * children) * MEGABYTE
    assert wrong_ram(run, run['truth'], is_seen=True) == []
    assert run['ram']['descendants']['private_rss'] is not None


@pytest.mark.parametrize('first_thread', ['waits', 'ends'])
def test_a_command_that_may_not_be_read_has_at_least_its_largest_process(elder: str, first_thread: str) -> None:
    run = command(
        *('--st=0.05', '--memory-limit=300MB', '-e'),
        f'sleep 1 | {WITHOUT_RIGHTS} {elder} 100 4 {first_thread}',
        before=AS_NOBODY,
    )
    mark = int(run['stdout'].splitlines()[1])
    truth = mark + 4 * 10 * MEGABYTE  # what each child has written to is its own
    assert mark > 100 * MEGABYTE
    assert mark <= run['ram']['combined']['total_rss'] <= 1.02 * truth + 10 * MEGABYTE
    assert {'max_ram.combined.total_rss', 'max_ram.descendants.total_rss'} <= {*run['marked']}
    assert 'belong to another user' in run['stderr']
