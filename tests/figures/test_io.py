"""I/O against what the kernel tells who waits for a process, see getrusage(2)."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from support.truth import MEGABYTE, environment, tracked

if TYPE_CHECKING:
    from pathlib import Path

BLOCK = 512
"""Bytes of one unit of ru_inblock and ru_oublock."""

WORK = """
import os, subprocess, sys, time
folder = sys.argv[1]
def write(name, megabytes):
    with open(f'{folder}/{name}', 'wb') as file:
        for _ in range(megabytes):
            file.write(bytes(1_000_000))
        file.flush()
        os.fsync(file.fileno())
write('kept', 7)
write('removed', 3)
os.unlink(f'{folder}/removed')
for number in range(6):  # most live between two samples
    subprocess.run([sys.executable, '-S', '-c', f'open("{folder}/{number}", "wb").write(bytes(1_000_000))'], check=True)
if os.fork() == 0:
    write('copy', 2)
    time.sleep(0.3)
    os._exit(0)
os.wait()
"""

WAIT = """
import json, os, subprocess, sys
process = subprocess.Popen([sys.executable, '-c', sys.argv[1], sys.argv[2]])
_, status, used = os.wait4(process.pid, 0)
assert status == 0
fields = ('ru_inblock', 'ru_oublock', 'ru_minflt', 'ru_majflt')
print(json.dumps({name: getattr(used, name) for name in fields}))
"""


def test_a_command_and_all_that_it_starts_have_what_the_kernel_tells_its_parent(tmp_path: Path) -> None:
    report = tmp_path / 'report'
    run = subprocess.run(
        [
            *(sys.executable, '-m', 'gpu_tracker', '--st=0.1', '--sections=io', '--ru=bytes', '-f', 'json'),
            *('-o', report, '--', sys.executable, '-c', WAIT, WORK, tmp_path),
        ],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    truth = json.loads(run.stdout)
    io = json.loads(report.read_text())['io']
    of_work = io['descendants']
    assert of_work['written'] == pytest.approx(truth['ru_oublock'] * BLOCK, abs=4096)
    assert of_work['read'] == pytest.approx(truth['ru_inblock'] * BLOCK, abs=4096)
    assert of_work['minor_page_faults'] == pytest.approx(truth['ru_minflt'], abs=2)
    assert of_work['major_page_faults'] == truth['ru_majflt']
    assert 18 * MEGABYTE <= of_work['written_by_calls'] < 18.01 * MEGABYTE
    assert io['main']['written'] == 0
    assert io['combined']['written'] == of_work['written']
    assert io['combined']['voluntary_context_switches'] > 8  # it has waited for eight processes


def test_a_program_that_tracks_itself_has_what_it_has_written_itself_apart_from_its_children(tmp_path: Path) -> None:
    run = tracked(
        """
        import resource
        def used():
            own, of_children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
            return own.ru_oublock, own.ru_nvcsw, of_children.ru_oublock, of_children.ru_minflt
        tracker = gput.Tracker(sleep_time=0.1, ram_unit='bytes', sections=['io'])
        before = used()
        with tracker:
            before = used()
            with open(sys.argv[1] + '/own', 'wb') as file:
                file.write(bytes(5_000_000))
            for number in range(3):
                subprocess.run(['dd', 'if=/dev/zero', f'of={sys.argv[1]}/{number}', 'bs=1M', 'count=2'], check=True,
                               stderr=subprocess.DEVNULL)
            after = used()
        print(json.dumps([tracker.to_json()['io'], before, after]))
        """,
        tmp_path,
    )
    io, before, after = run
    own, switches, of_children, faults = (now - then for now, then in zip(after, before, strict=True))
    assert io['main']['written'] == own * BLOCK
    assert io['descendants']['written'] == of_children * BLOCK
    assert io['main']['written_by_calls'] == pytest.approx(5_000_000, abs=20_000)
    assert io['descendants']['written_by_calls'] == pytest.approx(6 << 20, abs=1000)
    assert io['descendants']['minor_page_faults'] == pytest.approx(faults, abs=2)
    assert io['main']['voluntary_context_switches'] == pytest.approx(switches, abs=20)
    assert io['descendants']['voluntary_context_switches'] is None


def test_the_last_moments_of_a_command_count(tmp_path: Path) -> None:
    report = tmp_path / 'report'
    command = f'import time; time.sleep(0.8); open("{tmp_path}/file", "wb").write(bytes(4_096_000))'
    subprocess.run(
        [
            *(sys.executable, '-m', 'gpu_tracker', '--st=10', '--sections=io', '--ru=bytes', '--tu=s', '-f', 'json'),
            *('-o', report, '--', sys.executable, '-c', command),
        ],
        env=environment(),
        check=True,
    )
    usage = json.loads(report.read_text())
    main = usage['io']['main']
    assert main['written_by_calls'] == 4_096_000
    # The file system's own blocks count as well; behind some there is no storage.
    assert main['written'] == 0 or 4_096_000 <= main['written'] < 4_200_000
    # Since the sample before, which is not that of the start, and over half a second at least.
    assert 4_096_000 / usage['compute_time']['time'] < main['max_written_by_calls_per_second'] <= 4_096_000 / 0.5
