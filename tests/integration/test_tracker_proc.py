"""The tracker where /proc is missing, or is not that of the program's own PID namespace."""

from __future__ import annotations

import re

from support.claims.claim_actors import tool
from support.tracked_program import answer, as_root, run

STARTED = """
import os, sys
import gpu_tracker as gput
tracker = gput.Tracker(ram_unit='bytes')
try:
    tracker.start()
except RuntimeError as error:
    print(error)
    print(repr(tracker))
else:
    tracker.stop()
    print(tracker.resource_usage.max_ram.main)
"""
MOUNT_THERE = (
    ' Mount one of this namespace over it, as unshare --mount-proc does: mount -t proc proc /proc. '
    'See "gpu-tracker explain proc".'
)


def refusal(*words: str, then: str = '') -> str:
    """Return why no tracker could be started behind ``words``, with N in place of process IDs."""
    error, state = run(STARTED + then, words=tool(*words)).stdout.splitlines()
    assert state == 'State: NEW'
    return re.sub(r'(this process, |as )\d+', r'\1N', error)


@as_root
def test_an_older_proc_in_a_pid_namespace_is_not_taken_for_its_own():
    assert refusal('unshare', '--pid', '--fork') == (
        '/proc is that of another PID namespace: it has this process, N, as N.' + MOUNT_THERE
    )


@as_root
def test_a_proc_in_which_the_program_is_not():
    script = 'unshare --pid --fork mount -t proc proc /proc && exec "$@"'
    assert refusal('unshare', '--mount', 'sh', '-c', script, 'sh') == (
        '/proc is that of another PID namespace: it does not have this process, N.' + MOUNT_THERE
    )


@as_root
def test_no_proc():
    error = refusal('unshare', '--mount', 'sh', '-c', 'umount --lazy /proc && exec "$@"', 'sh')
    assert error == (
        '/proc is not mounted, so no process can be measured. Mount it: mount -t proc proc /proc. '
        'See "gpu-tracker explain proc".'
    )


@as_root
def test_a_program_whose_children_are_in_another_namespace_keeps_that():
    """The first of them is process 1 there: its end would be the end of the namespace."""
    starts_another = 'import subprocess\nsubprocess.run(["true"], check=True)\n'
    assert refusal('unshare', '--pid', then=starts_another) == (
        'What this process, N, starts gets into another PID namespace, so nothing that it starts can measure it. '
        'Start it inside that namespace, as unshare --fork does. See "gpu-tracker explain proc".'
    )


@as_root
def test_a_proc_of_processes_alone_costs_the_figures_of_the_machine_only():
    main, capacity, system, system_cpu = answer(
        """
import json
import gpu_tracker as gput
with gput.Tracker(ram_unit='bytes') as tracker:
    data = b'x' * 30_000_000
ram, cpu = tracker.resource_usage.max_ram, tracker.resource_usage.cpu_utilization
print(json.dumps([ram.main.total_rss, ram.system_capacity, ram.system, cpu.system.mean_sum_percent]))
""",
        words=tool('unshare', '--mount', 'sh', '-c', 'mount -t proc -o subset=pid proc /proc && exec "$@"', 'sh'),
    )
    assert main > 30_000_000
    assert (capacity, system, system_cpu) == (None, None, None)
