"""Orphans: processes whose parent has ended, beside what they know of themselves."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from support.programs import need_program
from support.truth import MEGABYTE, command, tracked
from support.truth.figures import wrong_cpu, wrong_ram

if TYPE_CHECKING:
    from pathlib import Path

TRACKER = "gput.Tracker(sleep_time=0.05, ram_unit='bytes', time_unit='seconds')"
NOT_ITS_LEADER = ['sh', '-c', '"$@"; exit', 'sh']
"""Starts a program in a process group that another process leads."""
BURNING = """
import os, sys, time
block = bytearray(b'1') * 90_000_000
while time.process_time() < 0.4:
    pass
with open('/proc/self/status') as lines:
    mark = next(int(line.split()[1]) * 1024 for line in lines if line.startswith('VmHWM:'))
with open(sys.argv[1], 'w') as file:
    file.write(f'{mark} {time.process_time()}')
os.rename(sys.argv[1], sys.argv[1] + '.done')
"""


def run_orphan(way: str, folder: Path, *, before: list[str]) -> dict[str, object]:
    """Track a program that leaves an orphan behind at once, and waits until that has ended."""
    need_program('setpriv', 'setsid')
    run = tracked(
        f"""
        way, script, path = sys.argv[1:]
        words = [sys.executable, '-c', script, path]
        def orphan():
            if way == 'copy':
                sys.argv[1:] = [path]
                exec(script, {{}})
            elif way == 'exec':
                os.execv(words[0], words)
            else:
                os.execvp('setsid', ['setsid', *words])
        with {TRACKER} as tracker:
            os.waitpid(child(lambda: child(orphan)), 0)
            eventually(lambda: os.path.exists(path + '.done'))
        mark, used = open(path + '.done').read().split()
        report(tracker, mark=int(mark), used=float(used), main=status(os.getpid(), 'VmHWM'))
        """,
        way,
        BURNING,
        f'{folder}/{way}',
        before=before,
    )
    assert run['mark'] > 90 * MEGABYTE
    assert run['used'] >= 0.4
    return run


@pytest.mark.parametrize('way', ['copy', 'exec', 'setsid and exec'])
@pytest.mark.parametrize('is_leader', [True, False])
def test_an_orphan_of_a_program_that_tracks_itself_counts_or_the_figures_are_marked(
    way: str, is_leader: bool, tmp_path: Path
) -> None:
    without_right = ['setpriv', '--inh-caps=-net_admin', '--bounding-set=-net_admin']
    run = run_orphan(way, tmp_path, before=[*without_right, *([] if is_leader else NOT_ITS_LEADER)])
    lowest = {'main': 0, 'descendants': run['mark'], 'combined': run['mark']}
    highest = {'main': run['main'], 'descendants': run['mark'], 'combined': run['mark'] + run['main']}
    if way == 'copy':
        highest = {group: size + run['main'] for group, size in highest.items()}
    assert wrong_ram(run, lowest, highest, may_be_unknown=True) == []
    assert wrong_cpu(run, {'descendants': run['used']}, slack=0.1) == []
    of_ram, of_cpu = ({path for path in run['marked'] if path.startswith(kind)} for kind in ('max_ram', 'cpu'))
    assert of_ram or not of_cpu  # what is missed has used both


@pytest.mark.parametrize('waits', [True, False])
def test_members_that_end_with_their_pid_namespace_keep_their_time(waits: bool, tmp_path: Path) -> None:
    need_program('unshare')
    if command('--st=1', '-e', 'unshare -Urpf --mount-proc true || echo refused')['stdout']:
        pytest.skip('this machine lets nobody make a PID namespace')
    path = f'{tmp_path}/used'
    worker = f"""
import time
block = bytearray(b'1') * 70_000_000
while time.process_time() < 0.5:
    pass
open({path!r}, 'w').write(str(time.process_time()))
time.sleep(60)
"""
    init = f"""
import os, subprocess, sys, time
subprocess.Popen([sys.executable, '-c', {worker!r}])
while not os.path.exists({path!r}) or not os.path.getsize({path!r}):
    time.sleep(0.01)
time.sleep(0.3 if {waits} else 0)
os._exit(0)
"""
    words = ['unshare', '-Urpf', '--mount-proc', sys.executable, '-c', init]
    run = command('--st=0.05', '--', 'sh', '-c', '"$@"; exit 0', 'sh', *words)
    used = float((tmp_path / 'used').read_text())
    assert used >= 0.5
    # Beside the worker there are unshare and init, an interpreter.
    assert wrong_cpu(run, {'descendants': used}, {'descendants': used + 0.3}) == []
    assert run['ram']['descendants']['total_rss'] > 70 * MEGABYTE
