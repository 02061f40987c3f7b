"""What a program notices of the tracker: its imports, its forks, its descriptors; and short blocks are measured."""

from __future__ import annotations

import pytest

from support.tracked_program import BURN, answer, environment, run

HEAVY = """
import sys

def heavy():
    return sorted({'psutil', 'pynvml', 'dataclasses', 'json', 'logging', 'subprocess'} & set(sys.modules))
"""


def test_the_measured_program_imports_nothing_heavy():
    assert run(
        HEAVY
        + """
import gpu_tracker as gput
print(heavy())
tracker = gput.Tracker()
tracker.start()
print(heavy())
tracker.stop()
print(heavy())
"""
    ).stdout.splitlines() == ['[]', '[]', '[]']


@pytest.mark.parametrize(('way', 'status'), [('raise KeyError', 1), ('sys.exit(7)', 7)])
def test_a_forked_child_that_leaves_the_block_does_not_stop_its_parents_tracker(way: str, status: int):
    found = answer(f"""
import json, os, sys
import gpu_tracker as gput
with gput.Tracker() as tracker:
    child = os.fork()
    if child == 0:
        sys.stderr.close()
        {way}
    _, status = os.waitpid(child, 0)
    seen = os.waitstatus_to_exitcode(status)
    state = repr(tracker)
print(json.dumps([seen, state, tracker.resource_usage.max_ram.main.total_rss > 0]))
""")
    assert found == [status, 'State: STARTED', True]


def test_a_forked_child_that_stops_its_parents_tracker_is_told_so():
    lines = run("""
import os
import gpu_tracker as gput
parent = os.getpid()
with gput.Tracker() as tracker:
    if os.fork() == 0:
        try:
            tracker.stop()
        except RuntimeError as error:
            print(str(error).replace(str(parent), 'PARENT'), flush=True)
        os._exit(0)
    os.wait()
print(tracker.state.name)
""").stdout.splitlines()
    assert lines == ['This tracker was started by process PARENT; only that one can stop it.', 'STOPPED']


@pytest.mark.figures
def test_a_block_shorter_than_an_interval_has_true_ram_cpu_and_time():
    used, reported, rss, rss_truth, inner, seconds, sampled, outer = answer(
        BURN
        + """
import json, os, time
import gpu_tracker as gput
tracker = gput.Tracker(sleep_time=1000, ram_unit='bytes', time_unit='seconds')
data = b'x' * 50_000_000
before = time.monotonic()
tracker.start()
start = time.monotonic()
used = time.process_time()
burn(0.3)
more = b'x' * 100_000_000
used = time.process_time() - used
inner = time.monotonic() - start
with open('/proc/self/statm') as statm:
    truth = int(statm.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')
tracker.stop()
outer = time.monotonic() - before
usage = tracker.resource_usage
sampled = tracker._run.totals['seconds']  # from the first sample to the last, which may be late on a busy machine
reported = usage.cpu_utilization.main.mean_sum_percent / 100 * sampled
figures = [used, reported, usage.max_ram.main.total_rss, truth, inner, usage.compute_time.time, sampled, outer]
print(json.dumps(figures))
"""
    )
    assert reported == pytest.approx(used, rel=0.15)
    assert rss == pytest.approx(rss_truth, rel=0.02)
    assert inner <= seconds <= outer
    assert inner <= sampled <= outer


def test_a_tracker_leaves_no_descriptor_and_no_child_behind():
    assert (
        answer("""
import json, os
import gpu_tracker as gput
def state():
    return sorted(os.listdir('/proc/self/fd'))
before = state()
for _ in range(3):
    with gput.Tracker():
        pass
try:
    gput.Tracker(gpu_uuids=['GPU-unknown']).start()
except ValueError:
    pass
try:
    os.wait()
except ChildProcessError:
    print(json.dumps(state() == before))
""")
        is True
    )


@pytest.mark.parametrize(
    'variables',
    [
        {
            'PYTHONWARNINGS': 'error',
            'PYTHONDEVMODE': '1',
            'PYTHONSTARTUP': '/nonexistent',
            'PYTHONSAFEPATH': '1',
            'PYTHONNOUSERSITE': '1',
        },
        {
            'PYTHONIOENCODING': 'utf-16',
            'PYTHONUTF8': '0',
            'LC_ALL': 'C',
            'PYTHONMALLOC': 'debug',
            'PYTHONHASHSEED': '1',
            'PYTHONOPTIMIZE': '2',
        },
        {
            'PYTHONPROFILEIMPORTTIME': '1',
            'PYTHONVERBOSE': '1',
            'PYTHONINSPECT': '1',
            'PYTHONUNBUFFERED': '1',
            'PYTHONFAULTHANDLER': '1',
        },
    ],
    ids=['warnings and paths', 'encoding and memory', 'verbosity'],
)
def test_variables_of_the_interpreter_do_not_matter_to_the_sampler(variables: dict[str, str]):
    program = """
import gpu_tracker as gput
with gput.Tracker() as tracker:
    pass
print(tracker.resource_usage.max_ram.main.total_rss > 0)
"""
    output = run(program, env=environment(variables), encoding=variables.get('PYTHONIOENCODING', 'utf-8')).stdout
    assert output == 'True\n'


def test_a_long_search_path_does_not_block_the_start():
    assert (
        run("""
import sys
import gpu_tracker as gput
sys.path += [f'/nonexistent/{number:0100}' for number in range(5000)]
with gput.Tracker() as tracker:
    pass
print(tracker.state.name)
""").stdout
        == 'STOPPED\n'
    )


def test_a_program_that_prints_into_its_closed_standard_error_does_not_disturb_the_sampler():
    found = answer("""
import json, logging, os
import gpu_tracker as gput
records = []
handler = logging.Handler(logging.WARNING)
handler.emit = records.append
logging.getLogger().addHandler(handler)
os.close(0)
os.close(2)
with gput.Tracker() as tracker:
    for handle in (0, 2):
        try:
            os.write(handle, b'S' * 100)
        except OSError:
            pass
print(json.dumps([len(records), tracker.resource_usage.max_ram.main.total_rss > 0]))
""")
    assert found == [0, True]
