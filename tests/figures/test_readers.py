"""The portable reader against the direct one, the machine's figures against psutil's, and a launcher that is large."""

from __future__ import annotations

import json

import psutil
import pytest

from gpu_tracker.resources.context import open_system
from support.truth import MEGABYTE, tracked

PROGRAM = """
wait, let_go = gate()
block = fill(100 * MEGABYTE)
with gput.Tracker(sleep_time=0.1, ram_unit='bytes', time_unit='seconds') as tracker:
    process = subprocess.Popen([sys.executable, '-c', '''if True:
        import time, sys
        block = bytearray(b"1") * 200_000_000
        while time.process_time() < 0.4: pass
        print("ready", flush=True)
        sys.stdin.read()
    '''], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    burn(0.3)
    process.stdout.readline()
    until(tracker, lambda seen: seen['ram']['descendants'][0] and seen['ram']['descendants'][0] > 200 * MEGABYTE)
    process.stdin.close()
    process.stdout.close()
    used = os.wait4(process.pid, 0)[2]
    process.returncode = 0
report(tracker, truth=used.ru_utime + used.ru_stime)
"""


def test_both_readers_agree() -> None:
    direct = tracked(PROGRAM, GPU_TRACKER_READER='proc')
    portable = tracked(PROGRAM, GPU_TRACKER_READER='psutil')
    for run in (direct, portable):
        assert run['cpu']['main'] == pytest.approx(0.3, abs=0.1)
        assert run['cpu']['descendants'] == pytest.approx(run['truth'], rel=0.15)
        assert 100 * MEGABYTE < run['ram']['main']['total_rss'] < 130 * MEGABYTE
        assert 200 * MEGABYTE < run['ram']['descendants']['total_rss'] < 230 * MEGABYTE
        assert run['usage']['cpu_utilization']['main_n_threads'] == 1
        assert 1 <= run['usage']['cpu_utilization']['descendants_n_threads'] <= 2
    assert direct['ram']['main']['private_rss'] > 100 * MEGABYTE
    for group in ('main', 'descendants', 'combined'):
        assert portable['ram'][group]['private_rss'] is portable['ram'][group]['shared_rss'] is None


@pytest.mark.parametrize(('reader', 'size'), [('proc', 0.0), ('psutil', None)])
def test_a_program_without_children_has_no_descendants_as_far_as_that_is_known(reader: str, size: float | None) -> None:
    run = tracked(
        """
        with gput.Tracker(sleep_time=0.05, ram_unit='bytes', time_unit='seconds') as tracker:
            pass
        report(tracker)
        """,
        GPU_TRACKER_READER=reader,
    )
    assert run['ram']['descendants'] == {'total_rss': size, 'private_rss': size, 'shared_rss': size}
    assert run['cpu']['descendants'] == 0.0


def busy_seconds() -> float:
    """Return for how long all cores of the machine were busy, together."""
    times = psutil.cpu_times()
    return sum(times) - times.idle - times.iowait - times.guest - times.guest_nice - times.steal


@pytest.mark.parametrize('reader', ['proc', 'psutil'])
def test_the_machine_is_what_psutil_says(reader: str) -> None:
    system = open_system(reader)
    before, busy_before = psutil.virtual_memory(), busy_seconds()
    ram, busy = system.ram(), system.cpu()
    busy_after, after = busy_seconds(), psutil.virtual_memory()
    assert system.ram_capacity == before.total
    assert 0.9 * min(before.used, after.used) <= ram <= 1.1 * max(before.used, after.used)
    assert system.cores == psutil.cpu_count()
    assert busy_before - 2 <= busy <= busy_after + 2


def test_a_command_started_by_a_large_program_has_its_own_size(tmp_path: object) -> None:
    run = tracked(
        """
        block = fill(500 * MEGABYTE)
        subprocess.run([sys.executable, '-m', 'gpu_tracker', '-f', 'json', '--ru=bytes', '--tu=seconds',
                        '-o', sys.argv[1], '-e', 'sleep 0.2'], check=True, stdout=sys.stderr)
        print(json.dumps(None))
        """,
        tmp_path / 'report',
    )
    assert run is None
    usage = json.loads((tmp_path / 'report').read_text())
    assert 0 < usage['max_ram']['main']['total_rss'] < 5 * MEGABYTE
    assert usage['max_ram']['descendants']['total_rss'] == 0
