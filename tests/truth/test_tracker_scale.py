"""Long runs and large trees: the sampler's memory does not grow, and a thousand processes are all counted."""

from __future__ import annotations

import json
import subprocess

import pytest

from support.tracked_program import Samplers, answer, run, start, status_of

SLACK = 256
"""Kilobytes by which the sampler's memory may vary: a few pages of its heap and of its stack."""


def test_the_memory_of_the_sampler_does_not_grow_with_the_number_of_samples():
    samplers = Samplers()
    program = """
import time
import gpu_tracker as gput
with gput.Tracker(sleep_time=0.001) as tracker:
    for samples in (800, 3000):  # the windows of maxima are full after the first
        while tracker._run.session.evidence()['samples'] < samples:
            time.sleep(0.01)
        print('sampled', flush=True)
        input()
"""
    with start(program, env=samplers.environment, stdin=subprocess.PIPE) as tracked:
        sizes = []
        for _ in range(2):
            assert tracked.stdout.readline() == 'sampled\n'
            sizes.append(status_of(samplers.only(), 'VmRSS'))
            tracked.stdin.write('\n')
            tracked.stdin.flush()
    assert sizes[1] - sizes[0] <= SLACK


def test_processes_that_come_and_go_leave_nothing_in_the_sampler():
    samplers = Samplers()
    program = """
import os
import gpu_tracker as gput

def churn(number):
    for _ in range(number):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)

with gput.Tracker(sleep_time=0.001):
    for number in (1800, 600):  # its heap and its buffers have their sizes after the first
        churn(number)
        print('churned', flush=True)
        input()
"""
    with start(program, env=samplers.environment, stdin=subprocess.PIPE) as tracked:
        sizes, tables = [], []
        for _ in range(2):
            assert tracked.stdout.readline() == 'churned\n'
            sampler = samplers.only()
            sizes.append(status_of(sampler, 'VmRSS'))
            tables.append(status_of(sampler, 'FDSize'))  # grows where descriptors are left open
            tracked.stdin.write('\n')
            tracked.stdin.flush()
    assert sizes[1] - sizes[0] <= SLACK
    assert tables[1] == tables[0]


# Children that share everything with their parent, and wait until it closes the pipe.
THOUSAND = """
import json, os, sys
import gpu_tracker as gput
count = int(sys.argv[1])
reading, writing = os.pipe()
for _ in range(count):
    if os.fork() == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
"""


def can_fork(count: int) -> bool:
    """Tell whether this user may have so many processes more."""
    found = run(f"""
import resource
soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
print(hard == resource.RLIM_INFINITY or hard > {count} + 500)
""").stdout
    return found == 'True\n'


def test_a_thousand_processes_are_counted():
    if not can_fork(1000):
        pytest.skip('needs root, or a limit of 1500 processes')
    threads, combined, main, descendants, marked = answer(
        THOUSAND
        + """
with gput.Tracker(sleep_time=0.1, ram_unit='bytes') as tracker:
    pass
os.close(writing)
for _ in range(count):
    os.wait()
usage = tracker.resource_usage
ram = usage.max_ram
print(json.dumps([usage.cpu_utilization.descendants_n_threads,
                  ram.combined.total_rss, ram.main.total_rss, ram.descendants.total_rss,
                  list(tracker.sampling.lower_bounds)]))
""",
        1000,
    )
    assert threads == 1000
    assert 0 < descendants <= combined
    assert main < descendants or 'max_ram.descendants.total_rss' in marked


def test_a_limit_on_the_overhead_holds_for_a_thousand_processes_that_all_work():
    if not can_fork(1000):
        pytest.skip('needs root, or a limit of 1500 processes')
    program = """
import json, logging, os, signal, sys, time
import gpu_tracker as gput
logging.basicConfig(stream=sys.stdout, format='%(message)s')
children = []
for _ in range(1000):
    children.append(os.fork())
    if children[-1] == 0:
        while True:
            time.sleep(0.5)

def sampler_seconds():
    return time.clock_gettime(~tracker._run.session.pid << 3 | 2)

limit = float(sys.argv[1])
tracker = gput.Tracker(sleep_time=0.05, max_overhead_percent=limit or None)
tracker.start()
used, begun = sampler_seconds(), time.monotonic()
is_done = False
while not is_done:
    time.sleep(0.05)
    spent, passed = sampler_seconds() - used, time.monotonic() - begun
    totals = tracker._run.session.evidence()
    if limit:
        is_done = totals['record']['is_limited'] and totals['record']['skipped'] > 10
    else:  # twice as much as the limit of the other run allows
        is_done = spent > 2 * 0.01 * (10 + passed)
tracker.stop()
for child in children:
    os.kill(child, signal.SIGKILL)
sampling = tracker.sampling
ram = tracker.resource_usage.max_ram
sampled = tracker._run.totals['seconds']
print(json.dumps([
    spent, passed, sampled, sampling.samples, sampling.skipped, sampling.mean_interval, ram.descendants.total_rss
]))
"""
    *_, free = run(program, 0).stdout.splitlines()
    warning, limited = run(program, 1).stdout.splitlines()
    spent_without_limit, _, _, samples_without_limit, *_ = json.loads(free)
    spent, passed, sampled, samples, skipped, mean_interval, descendants = json.loads(limited)
    # What ten seconds allow is there from the start; and one sample may cost more than the one before.
    assert spent < 0.01 * (10 + passed) + max(0.06, 3 * spent_without_limit / samples_without_limit)
    assert warning == (
        'Samples are skipped, because max_overhead_percent (1) does not suffice for one every 0.05 s: '
        'peaks between them may be missed, and RAM of several processes may be too low.'
    )
    assert samples + skipped == pytest.approx(2 + sampled / 0.05, abs=6)  # with the first one and the last one
    assert skipped > 10
    assert mean_interval > 0.05
    assert descendants > 0
