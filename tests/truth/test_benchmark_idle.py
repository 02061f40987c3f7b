"""That the benchmark of the monitor of idle GPUs can be run, and leaves nothing behind."""

import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from benchmarks import idle_cost, idle_noticing, idle_units, idle_yield
from benchmarks.environments import Environment
from benchmarks.idle import PART
from benchmarks.idle_cost import FUSER_EACH, SCAN_EACH, Scene
from benchmarks.idle_monitors import monitor
from benchmarks.idle_noticing import RIGHTS, ROW, Way
from benchmarks.idle_watchers import FANOTIFY_FID, INOTIFY, SCAN, RefusedError, watcher
from benchmarks.idle_yield import PEER, TOLD, Case
from benchmarks.peers import FUSER, OURS
from benchmarks.results import Results
from benchmarks.running import PROGRAMS
from benchmarks.session import FailedError, Session

from support.compiled import require_compiler
from support.waiting import eventually

OURSELVES = Environment(OURS.name, Path(sys.executable).parent.parent, '6')
FILES = (None, None)
"""No device nodes: other tests have theirs, and a node's number is the same everywhere."""
HAS_FUSER = shutil.which('fuser') is not None


@pytest.fixture
def session():
    environments = {OURS.name: OURSELVES}
    if HAS_FUSER:
        environments[FUSER.name] = Environment(FUSER.name, Path('/usr'), '23')
    return Session([], environments, Results(), None, quick=True)


def kinds_of(results):
    """Return what there are figures of, by row and peer."""
    kinds = {}
    for figure in results.figures:
        assert figure.part == PART
        kinds.setdefault((figure.row, figure.peer), set()).add(figure.kind)
    return kinds


def has_ended(pid):
    """Tell whether a process of ours is a zombie."""
    return Path(f'/proc/{pid}/stat').read_text().rpartition(') ')[2][0] == 'Z'


def test_each_monitor_yields_in_each_round(session):
    idle_yield.measure(session, PART, [Case('sleep', ('sleep', 'infinity'), 1, 0.2, 20, 3, *FILES)])
    who = {TOLD, PEER} if HAS_FUSER else {TOLD}
    assert session.results.gaps == []
    assert kinds_of(session.results) == {('sleep', one): {'seconds'} for one in who}
    assert all(len(session.results.rounds(PART, 'sleep', one, 'seconds')) == 2 for one in who)


def test_a_monitor_that_has_ended_gives_its_last_words(tmp_path):
    with (
        pytest.raises(FailedError, match=r'^the monitor has ended with 125 and said: .*interval_seconds'),
        monitor(OURSELVES, tmp_path, '[defaults]\ninterval_seconds=never\n', uuid.uuid4().hex) as pid,
    ):
        eventually(lambda: has_ended(pid))


def test_a_peer_whose_looks_take_longer_than_the_interval_goes_on(tmp_path):
    looks = tmp_path / 'looks'
    fuser = tmp_path / 'fuser'
    fuser.write_text(f'#!/bin/sh\necho >> {looks}\n')
    fuser.chmod(0o755)
    program = [sys.executable, '-I', str(PROGRAMS / 'fuser_monitor.py'), '0', 'device']
    with subprocess.Popen(program, env={'PATH': str(tmp_path)}) as peer:
        try:
            eventually(lambda: looks.exists() and len(looks.read_bytes()) >= 3)
        finally:
            peer.kill()


def test_each_scene_has_its_figures(session):
    require_compiler()
    small = [
        Scene('nothing', processes=9, ours_only=False, window=0.1, warm_up=0),
        Scene('a program', processes=9, working=2, programs=1, driver=True, window=0.1, warm_up=0),
    ]
    idle_cost.measure(session, PART, small)
    assert session.results.gaps == []
    monitor = {'monitor', 'cpu', 'processes'}
    held = {f'monitor: {kind}' for kind in ('peak', 'pss')}
    below = {f'{role}{kind}' for role in ('guardians', 'samplers') for kind in ('', ': peak', ': pss')}
    expected = {
        ('nothing', OURS.name): monitor | held,
        ('nothing', FUSER_EACH): monitor,
        ('nothing', SCAN_EACH): monitor,
        ('a program', OURS.name): monitor | held | below | {'driver'},
    }
    if not HAS_FUSER:
        del expected['nothing', FUSER_EACH]
    assert kinds_of(session.results) == expected


def test_each_way_of_being_told_has_its_figures(session):
    ways = [Way('inotify', INOTIFY, 3, quiet=0.1, device=None), Way('looks', SCAN, 1, 0.1, quiet=0.1, device=None)]
    idle_noticing.measure(session, PART, ways)
    assert session.results.gaps == []
    told = {'median', 'smallest', 'largest', 'quiet'}
    assert kinds_of(session.results) == {
        (RIGHTS, 'inotify'): {'refused'},
        (RIGHTS, 'looks'): {'refused'},
        (ROW, 'inotify'): told | {'cpu'},
        (ROW, 'looks'): told,
    }
    assert session.results.rounds(PART, RIGHTS, 'inotify', 'refused') == {0: 0.0}


def test_a_program_that_ends_after_each_unit_has_a_share_of_the_time(session):
    idle_units.measure(session, PART, [0.2], least_window=2.5)
    assert session.results.gaps == []
    (share,) = session.results.rounds(PART, idle_units.ROW, OURS.name, '0.2').values()
    assert 0 < share < 0.5  # a second or more lies between two runs


def test_a_way_that_the_kernel_refuses_says_so(tmp_path):
    with (
        pytest.raises(RefusedError, match=r'^No such file or directory$') as refused,
        watcher(OURSELVES, FANOTIFY_FID, [str(tmp_path / 'none')]),
    ):
        pass
    assert refused.value.number == 2
