"""A probe from its opening to its end, with an engine that is made up."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cuda_probe.cuda_api import Library
from gpu_tracker.cuda_probe.engine.attaching import Refused
from gpu_tracker.cuda_probe.libraries import code_file
from gpu_tracker.cuda_probe.probe_session import Probe
from gpu_tracker.errors import ParameterError, ProbeUnavailableError, TrackerStateError
from support.cuda import cuda_events
from support.cuda.compiled_files import library
from support.cuda.fake_engine import FakeEngine
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from gpu_tracker.cuda_probe.libraries import CodeFile
    from gpu_tracker.cuda_probe.limits import Limits

NOT_OPEN = r'^The probe is not open: call open\(\) first\.$'
CLOSED = r'^The probe is closed\.$'


class Made:
    """Makes engines, and keeps what they were made with."""

    def __init__(self) -> None:
        self.engine = FakeEngine()
        self.first: list[str] = []
        self.kinds: list[str | None] = []

    def __call__(self, limits: Limits, first: Sequence[CodeFile], kind: str | None) -> FakeEngine:
        self.first = [file.path for file in first]
        self.kinds.append(kind)
        return self.engine


@pytest.fixture
def made() -> Made:
    return Made()


@pytest.fixture
def probe(made: Made) -> Iterator[Probe]:
    probe = Probe(make_engine=made)
    probe.open()
    yield probe
    probe.close()


@contextlib.contextmanager
def nothing_left_open() -> Iterator[None]:
    before = set(os.listdir('/proc/self/fd'))
    yield
    eventually(lambda: set(os.listdir('/proc/self/fd')) <= before)  # threads of other tests may be about to end


def test_a_probe_that_is_not_open_does_nothing(made: Made) -> None:
    probe = Probe(make_engine=made)
    for use in (probe.start, probe.report, probe.finish, lambda: probe.follow(os.getpid())):
        with pytest.raises(TrackerStateError, match=NOT_OPEN):
            use()
    probe.close()
    assert made.kinds == []


def test_a_probe_is_opened_once(probe: Probe, made: Made) -> None:
    with pytest.raises(TrackerStateError, match=r'^The probe was already opened: make a new Probe\.$'):
        probe.open()
    probe.close()
    with pytest.raises(TrackerStateError, match=r'^The probe was already opened: make a new Probe\.$'):
        probe.open()
    assert made.kinds == [None]


def test_closing_again_is_fine_and_the_last_report_stays(probe: Probe, made: Made) -> None:
    made.engine.has(7)
    probe.close()
    made.engine.has(8)
    probe.close()
    assert made.engine.closed == 1
    report = probe.report()
    assert [process.run for process in report.processes] == [7]
    assert report.engine == 'made up'
    assert probe.finish() is report


def test_what_happens_after_the_finish_is_in_no_report(probe: Probe, made: Made) -> None:
    made.engine.has(7)
    last = probe.finish()
    made.engine.has(8)
    assert probe.report() is last
    assert [process.run for process in last.processes] == [7]
    assert made.engine.closed == 0


def test_a_closed_probe_follows_nothing_more(probe: Probe, made: Made) -> None:
    probe.close()
    for use in (probe.start, lambda: probe.follow(os.getpid())):
        with pytest.raises(TrackerStateError, match=CLOSED):
            use()
    assert made.engine.followed == []


def test_everything_is_closed_at_the_end(made: Made) -> None:
    with nothing_left_open():
        probe = Probe(make_engine=made)
        probe.open()
        made.engine.handles()
        probe.close()


def test_everything_is_closed_also_where_the_last_report_cannot_be_made(made: Made) -> None:
    with nothing_left_open():
        probe = Probe(make_engine=made)
        probe.open()
        made.engine.problem = OSError(errno.ENOMEM, 'no memory')
        with pytest.raises(OSError, match='no memory'):
            probe.close()
    assert made.engine.closed == 1
    probe.close()
    with pytest.raises(TrackerStateError, match=CLOSED):
        probe.report()


def test_where_there_is_no_engine_nothing_is_open() -> None:
    def refuse(limits: Limits, first: Sequence[CodeFile], kind: str | None) -> FakeEngine:
        raise ProbeUnavailableError('CUDA calls cannot be probed: a right is missing.')

    with nothing_left_open():
        probe = Probe(make_engine=refuse)
        with pytest.raises(ProbeUnavailableError, match='a right is missing'):
            probe.open()
        probe.close()
        with pytest.raises(TrackerStateError, match=NOT_OPEN):
            probe.report()


def test_named_libraries_are_the_first_to_be_attached_to(tmp_path: Path, made: Made) -> None:
    path = str(library(tmp_path / 'runtime.so'))
    probe = Probe(libraries=[path], engine='perf', make_engine=made)
    probe.open()
    probe.close()
    assert made.first[0] == path
    assert made.kinds == ['perf']
    assert path in made.engine.attached.values()


@pytest.mark.parametrize(
    ('problem', 'accepted'),
    [
        ('unwelcome', 'a file that can be probed (Operation not permitted)'),
        ('without_functions', 'a file with functions of the CUDA runtime or driver'),
    ],
)
def test_a_named_library_that_cannot_be_probed_leaves_nothing_open(
    tmp_path: Path, made: Made, problem: str, accepted: str
) -> None:
    (tmp_path / 'a.so').touch()
    path = str(tmp_path / 'a.so')
    getattr(made.engine, problem).add(path)
    with nothing_left_open():
        made.engine.handles()
        with pytest.raises(ParameterError) as refusal:
            Probe(libraries=[path], make_engine=made).open()
    assert str(refusal.value) == f'libraries must be {accepted}, not {path!r}'
    assert made.engine.closed == 1


@pytest.mark.parametrize('name', ['none.so', '.'])
def test_a_named_library_has_to_be_a_file(tmp_path: Path, made: Made, name: str) -> None:
    with pytest.raises(ParameterError, match=r'^libraries must be the path of a file, not '):
        Probe(libraries=[str(tmp_path / name)], make_engine=made).open()
    assert made.kinds == []


def test_another_engine_is_refused() -> None:
    accepted = r"^engine must be 'uprobe\.session' or 'uprobe\.multi' or 'perf', not 'ptrace'$"
    with pytest.raises(ParameterError, match=accepted):
        Probe(engine='ptrace')


def test_a_process_is_followed_with_what_it_has_started_again_or_not(probe: Probe, made: Made) -> None:
    words = [sys.executable, '-c', 'import subprocess; print(subprocess.Popen(["cat"]).pid, flush=True); input()']
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        probe.follow(parent.pid)
        probe.follow(parent.pid)
        assert sorted(made.engine.followed) == sorted([parent.pid, child])
        parent.communicate('\n')


def test_a_process_that_finds_no_room_is_told(probe: Probe, made: Made) -> None:
    made.engine.room = 0
    made.engine.without_functions.add(sys.executable)
    probe.follow(os.getpid())
    assert (
        f'Process {os.getpid()} is not followed: more processes run than the limit "followed" allows.'
        in probe.report().notes
    )


def test_a_process_that_has_ended_and_was_not_waited_for_is_not_followed(probe: Probe, made: Made) -> None:
    with subprocess.Popen(['true']) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        probe.follow(ended.pid)
        assert made.engine.followed == []


def test_a_process_that_is_gone_is_not_followed(probe: Probe) -> None:
    with subprocess.Popen(['true']) as gone:
        pass
    with pytest.raises(ProcessLookupError):
        probe.follow(gone.pid)


def test_what_was_refused_from_the_start_is_in_the_notes(tmp_path: Path, made: Made) -> None:
    (tmp_path / 'a').touch()
    file = code_file(str(tmp_path / 'a'), '/lib/libcudart.so', (Library.RUNTIME,))
    assert file is not None
    made.engine.refused = (Refused(file, OSError(errno.EIO, os.strerror(errno.EIO))),)
    probe = Probe(make_engine=made)
    probe.open()
    probe.close()
    assert probe.report().notes == ('/lib/libcudart.so could not be probed: Input/output error.',)


def test_events_are_taken_while_it_runs_and_until_the_end(probe: Probe, made: Made) -> None:
    probe.start()
    made.engine.events.append(cuda_events.launch(1))
    eventually(lambda: not made.engine.events)
    assert probe.report().events == 1
    made.engine.events.append(cuda_events.launch(2))
    probe.close()
    assert probe.report().events == 2
