"""Figures of what a made-up kernel tells, look by look."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cuda_probe.binaries.cache import BinaryCache
from gpu_tracker.cuda_probe.collecting import Collector
from gpu_tracker.cuda_probe.cuda_api import Library
from gpu_tracker.cuda_probe.devices.host_gpus import HostGpus
from gpu_tracker.cuda_probe.engine.attaching import Refused
from gpu_tracker.cuda_probe.engine.kernel_layout import Notice, NoticeKind, Overflow
from gpu_tracker.cuda_probe.libraries import code_file
from gpu_tracker.cuda_probe.limits import Limits
from gpu_tracker.cuda_probe.program_runs import Programs
from support.cuda import cuda_events
from support.cuda.fake_engine import FakeEngine

if TYPE_CHECKING:
    from pathlib import Path

SECOND = 1_000_000_000
PID = 4242


class Machine:
    """A collector of a kernel that is made up, and a /proc with one process, whose files are plain ones."""

    def __init__(self, folder: Path, limits: Limits | None = None) -> None:
        self.now = 0
        self.engine = FakeEngine()
        self.folder = folder
        self.process = folder / str(PID)
        self.process.mkdir()
        (self.process / 'root').symlink_to('/')
        self.program = self.file('python')
        (self.process / 'exe').symlink_to(self.program)
        (self.process / 'maps').touch()
        self.engine.without_functions.add(self.program)
        self.programs = Programs(BinaryCache(None), str(folder))
        self.engine.clock = lambda: self.now
        self.collector = Collector(self.engine, self.programs, limits or Limits(), lambda: self.now, str(folder))

    def file(self, name: str) -> str:
        path = self.folder / name
        path.write_text(name)
        return str(path)

    def loads(self, name: str) -> str:
        path = self.file(name)
        with open(self.process / 'maps', 'a', encoding='utf-8') as maps:
            maps.write(f'7f0000000000-7f0000001000 r-xp 00000000 08:01 1 {path}\n')
        return path

    def tells(self, kind: int, number: int = 1, pid: int = PID, name: str = '') -> None:
        self.engine.notices.append(Notice(self.now, 0, 0, number, pid, kind, name, None))

    def poll(self, now: int) -> None:
        self.now = now
        self.collector.poll(now)

    def notes(self) -> tuple[str, ...]:
        return self.collector.notes.all()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_windows_are_closed_each_second_and_add_up(machine: Machine) -> None:
    collector = machine.collector
    machine.engine.events = [cuda_events.launch(SECOND // 10), cuda_events.sync(3 * SECOND // 10)]
    machine.poll(SECOND // 2)
    assert (collector.notes.events, collector.sums.nanoseconds) == (2, 0)
    machine.poll(SECOND)
    assert collector.sums.nanoseconds == SECOND
    assert collector.sums.processes[1].busy == SECOND // 5
    machine.poll(SECOND + SECOND // 2)
    assert collector.sums.nanoseconds == SECOND
    machine.poll(5 * SECOND)  # it slept long
    assert collector.sums.nanoseconds == 5 * SECOND
    machine.poll(5 * SECOND + SECOND // 2)
    assert collector.sums.nanoseconds == 5 * SECOND


def test_a_report_closes_a_window_between(machine: Machine) -> None:
    machine.engine.events = [cuda_events.launch(SECOND // 10)]
    machine.poll(SECOND // 5)
    machine.collector.close_window(SECOND // 5)
    assert machine.collector.sums.processes[1].busy == SECOND // 10
    machine.poll(SECOND)
    assert machine.collector.sums.processes[1].busy == 9 * SECOND // 10


def test_a_program_whose_end_was_lost_as_an_event_is_ended_by_its_notice(machine: Machine) -> None:
    machine.engine.events = [cuda_events.launch(SECOND // 10)]
    machine.poll(SECOND // 5)
    machine.now = SECOND // 2
    machine.tells(NoticeKind.END)
    machine.poll(SECOND // 2)
    machine.poll(SECOND)
    machine.poll(2 * SECOND)
    run = machine.collector.sums.processes[1]
    assert (run.has_ended, run.busy) == (True, 4 * SECOND // 10)


def test_notices_of_kinds_that_are_not_known_are_passed_over(machine: Machine) -> None:
    machine.tells(99)
    machine.tells(NoticeKind.FIRST_CALL)
    machine.poll(1)
    assert machine.programs.get(1) is not None


def test_programs_that_have_ended_leave_the_kernel_and_stay_in_the_report(machine: Machine) -> None:
    for number in range(1, 66):
        machine.engine.has(number, ended=number)
    machine.engine.has(100)
    machine.poll(SECOND - 1)
    assert len(machine.engine.processes) == 66
    machine.poll(SECOND)
    assert list(machine.engine.processes) == [100]
    runs = machine.collector.runs()
    assert [run.process.process for run in runs] == [*range(1, 66), 100]
    assert runs[0].devices[0].launches == 1
    assert machine.notes() == ()


def test_past_the_bound_the_first_to_end_are_left_out_and_told(tmp_path: Path) -> None:
    machine = Machine(tmp_path, Limits(ended=10))
    for number in range(1, 71):
        machine.engine.has(number, ended=number)
        machine.tells(NoticeKind.FIRST_CALL, number)
    machine.poll(SECOND)
    assert [run.process.process for run in machine.collector.runs()] == [*range(61, 71)]
    assert machine.programs.get(60) is None
    assert machine.programs.get(61) is not None
    assert machine.notes() == ('Ended programs not reported: 60. The limit "ended" allows no more programs.',)


def test_what_found_no_room_and_the_graphs_are_told(machine: Machine) -> None:
    machine.engine.has(1)
    machine.engine.processes[1] = machine.engine.processes[1]._replace(graph_launches=5, unknown_graph_launches=3)
    machine.engine.overflows = tuple(int(place == Overflow.FAILURE) for place in Overflow)
    machine.collector.runs()
    assert machine.notes() == (
        'Failed calls not reported: 1. The limit "failures" allows no more kinds of failures.',
        (
            'Launches of CUDA graphs with unknown kernels: 3. The graphs were made before the probe '
            'started, or in a way that the probe does not see. Their kernels are missing in all figures.'
        ),
    )


@pytest.mark.parametrize('kind', [NoticeKind.LIBRARIES, NoticeKind.EXEC])
def test_a_library_that_is_loaded_is_attached_to_and_it_is_told_how_late(machine: Machine, kind: NoticeKind) -> None:
    path = machine.loads('libcudart.so.12')
    machine.tells(kind)
    machine.poll(3_000_000)
    assert path in machine.engine.attached.values()
    (text,) = machine.notes()
    assert text.startswith(f'{path} was attached to 3 ms after process 4242 began to load it: ')
    machine.tells(kind)
    machine.poll(SECOND)
    assert machine.notes() == (text,)


def test_files_that_no_process_uses_any_more_are_let_go(machine: Machine) -> None:
    path = machine.loads('libcudart.so.12')
    machine.tells(NoticeKind.LIBRARIES)
    machine.poll(3_000_000)
    machine.engine.few_files = 0
    machine.engine.followed = [4242]
    machine.poll(2 * SECOND)
    assert path in machine.engine.attached.values()
    machine.engine.followed = []
    machine.poll(30 * SECOND)
    assert path in machine.engine.attached.values()  # it is looked once a minute
    machine.poll(63 * SECOND)
    assert machine.engine.attached == {}


def test_many_notices_of_one_process_are_one_look_at_its_files(machine: Machine) -> None:
    machine.loads('libcudart.so.12')
    machine.tells(NoticeKind.LIBRARIES)
    machine.now = 2_000_000
    machine.tells(NoticeKind.LIBRARIES)
    machine.poll(5_000_000)
    (text,) = machine.notes()
    assert ' 5 ms after ' in text  # from the first


@pytest.mark.parametrize('name', ['libc.so.6', 'ld-linux-x86-64.so.2'])
def test_a_c_library_that_is_attached_to_late_is_no_call_that_was_lost(machine: Machine, name: str) -> None:
    path = machine.loads(name)
    machine.tells(NoticeKind.LIBRARIES)
    machine.poll(1)
    assert path in machine.engine.attached.values()
    assert machine.notes() == ()


def test_a_library_without_the_functions_loses_none(machine: Machine) -> None:
    machine.engine.without_functions.add(machine.loads('libcudart.so.12'))
    machine.tells(NoticeKind.LIBRARIES)
    machine.poll(1)
    assert machine.notes() == ()


def test_a_file_that_is_refused_is_told_once_and_the_others_are_attached_to(machine: Machine) -> None:
    refused, path = machine.loads('libcudart.so.11'), machine.loads('libcuda.so.1')
    machine.engine.unwelcome.add(refused)
    for _ in range(2):
        machine.tells(NoticeKind.LIBRARIES)
        machine.poll(1)
    assert path in machine.engine.attached.values()
    assert machine.notes()[0] == f'{refused} could not be probed: Operation not permitted.'
    assert len(machine.notes()) == 2


def test_a_library_that_cannot_be_reached_is_in_a_note(machine: Machine) -> None:
    path = machine.loads('libcudart.so.12')
    os.unlink(path)
    for _ in range(2):
        machine.tells(NoticeKind.LIBRARIES)
        machine.poll(1)
    (note,) = machine.notes()
    assert note.startswith(f'{path} could not be probed: it is not to be found where the process sees it, and ')


def test_a_program_that_ran_before_is_told_to_have_where_it_may_have_called(machine: Machine) -> None:
    machine.collector.attach_running(1, PID)
    assert machine.notes() == ()
    machine.loads('libcudart.so.12')
    machine.collector.attach_running(1, PID)
    (text,) = machine.notes()
    assert text.startswith('Process 4242 ran before the probe: ')


def test_a_program_that_ran_before_and_whose_library_is_refused_is_followed_all_the_same(machine: Machine) -> None:
    machine.engine.unwelcome.add(machine.loads('libcudart.so.12'))
    machine.collector.attach_running(1, PID)
    assert machine.notes() == (f'{machine.folder}/libcudart.so.12 could not be probed: Operation not permitted.',)


def test_a_process_that_is_gone_is_nothing_to_tell(machine: Machine) -> None:
    machine.tells(NoticeKind.FIRST_CALL, 2, pid=4243)
    machine.poll(1)
    machine.collector.attach_running(3, 4244)
    assert machine.notes() == ()


def test_a_program_that_is_gone_before_its_libraries_are_seen_is_told_once_by_its_name(machine: Machine) -> None:
    for _ in range(2):
        machine.tells(NoticeKind.LIBRARIES, pid=4243, name='sort')
        machine.poll(1)
    machine.tells(NoticeKind.EXEC, 2, pid=4244, name='sort')
    machine.tells(NoticeKind.LIBRARIES, 3, pid=4245, name='train')
    machine.engine.has(4)  # its calls are seen
    machine.tells(NoticeKind.LIBRARIES, 4, pid=4246)
    machine.poll(2)
    machine.collector.runs()
    (text,) = machine.notes()
    assert text == (
        'Programs that ended before the probe found their libraries: sort (2), train. The report has their calls only '
        'of libraries that the probe knew before, as with --library=PATH.'
    )


@pytest.mark.parametrize('number', [errno.ENOENT, errno.ESRCH])
def test_a_process_that_ends_while_it_is_looked_at_is_nothing_to_tell(machine: Machine, number: int) -> None:
    def end() -> None:
        raise OSError(number, os.strerror(number))

    machine.engine.while_attaching[machine.loads('libcudart.so.12')] = end
    machine.tells(NoticeKind.LIBRARIES)
    machine.poll(1)
    assert machine.notes() == ()


def test_files_that_were_refused_from_the_start_are_told(machine: Machine) -> None:
    file = code_file(machine.file('libcudart.so.12'), '/lib/libcudart.so.12', (Library.RUNTIME,))
    assert file is not None
    machine.collector.report_refused([Refused(file, OSError(errno.EIO, os.strerror(errno.EIO)))])
    assert machine.notes() == ('/lib/libcudart.so.12 could not be probed: Input/output error.',)


@pytest.mark.parametrize(
    'problem', ['the driver has not answered for 30 seconds', 'the driver has not answered for 30 seconds.']
)
def test_why_gpus_are_not_known_is_told_in_a_sentence(machine: Machine, problem: str) -> None:
    machine.collector.set_gpus(HostGpus(problem=problem))
    assert machine.notes() == ('Which GPU a call went to is not known: the driver has not answered for 30 seconds.',)


def test_what_is_loaded_while_a_new_loader_is_attached_to_is_found(machine: Machine) -> None:
    loader = machine.loads('ld-linux-x86-64.so.2')
    machine.engine.while_attaching[loader] = lambda: machine.loads('libcudart.so.12')
    machine.tells(NoticeKind.EXEC)
    machine.poll(1)
    assert f'{machine.folder}/libcudart.so.12' in machine.engine.attached.values()


def test_a_library_of_any_name_is_attached_to(machine: Machine) -> None:
    path = machine.loads('libengine.so')
    machine.tells(NoticeKind.LIBRARIES)
    machine.poll(0)
    assert path in machine.engine.attached.values()
    assert machine.notes() == ()


def opens(machine: Machine, *files: str) -> None:
    (machine.process / 'fd').mkdir()
    for number, file in enumerate(files):
        (machine.process / 'fd' / str(number)).symlink_to(file)
    machine.engine.followed = [PID]


@pytest.mark.parametrize(
    ('files', 'library', 'is_noted'),
    [
        (('/dev/null', '/dev/nvidia0'), 'libengine.so', True),
        (('/dev/nvidiactl', '/dev/nvidia-uvm'), 'libnvidia-ml.so.1', True),
        (('/dev/nvidiactl', '/dev/nvidia0'), 'libnvidia-ml.so.1', False),  # as nvidia-smi
        (('/dev/null',), 'libengine.so', False),
    ],
)
def test_a_process_that_uses_the_driver_and_has_nothing_to_attach_to_is_noted(
    machine: Machine, files: tuple[str, ...], library: str, is_noted: bool
) -> None:
    machine.engine.without_functions.add(machine.loads(library))
    opens(machine, *files)
    machine.poll(SECOND)
    machine.poll(2 * SECOND)
    text = (
        "Process 4242 has NVIDIA's device files open, but no file with CUDA functions that could be found. Its CUDA "
        'calls, if any, are in no figure here. Name the file that has the functions: --library=PATH.'
    )
    assert machine.notes() == ((text,) if is_noted else ())


def test_a_process_that_uses_the_driver_through_an_attached_library_is_not_noted(machine: Machine) -> None:
    machine.loads('libcuda.so.1')
    opens(machine, '/dev/nvidia0')
    machine.poll(SECOND)
    assert machine.notes() == ()
