"""What is known of program runs from notices of the kernel and from a recorded /proc."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from gpu_tracker.cuda_probe.binaries.cache import BinaryCache
from gpu_tracker.cuda_probe.devices.host_gpus import HostGpu, HostGpus, PhysicalGpu
from gpu_tracker.cuda_probe.engine.kernel_layout import Notice, NoticeKind
from gpu_tracker.cuda_probe.program_runs import Programs
from support.simulated_proc import stat_line

if TYPE_CHECKING:
    from pathlib import Path

VISIBLE = 'CUDA_VISIBLE_DEVICES'
HOST = HostGpus(tuple(HostGpu(PhysicalGpu(f'GPU-{n}', 'nvidia', 'Model A', '570', minor=n)) for n in (0, 1)))
PARENT, CHILD = 1, 1_000_001
"""Numbers of program runs; the process ID of each is 100 more."""


class Machine:
    """Processes that hold two GPUs open, and what is known of their programs."""

    def __init__(self, proc: Path) -> None:
        self.proc = proc
        self.programs = Programs(BinaryCache(None), str(proc))
        self.programs.set_gpus(HOST)
        self._time = 1000

    def process(self, number: int, environ: bytes = b'HOME=/root\0', command: bytes = b'train\0') -> None:
        folder = self.proc / str(number + 100)
        for name in ('fd', 'root/dev'):
            (folder / name).mkdir(parents=True, exist_ok=True)
        for gpu in ('nvidia0', 'nvidia1'):
            (folder / 'root/dev' / gpu).touch()
            (folder / 'fd' / gpu[-1]).unlink(missing_ok=True)
            (folder / 'fd' / gpu[-1]).symlink_to(f'/dev/{gpu}')
        (folder / 'stat').write_text(stat_line(number + 100, 1))
        (folder / 'environ').write_bytes(environ)
        (folder / 'cmdline').write_bytes(command)
        (folder / 'maps').touch()

    def notice(self, kind: NoticeKind, number: int = PARENT, **fields: Any) -> Notice:
        self._time += 10
        values = {'address': 0, 'value': 0, 'name': '', 'text': None} | fields
        return Notice(time=self._time, process=number, pid=number + 100, kind=kind, **values)

    def sets(self, value: str, number: int = PARENT, *, name: str = VISIBLE, overwrite: bool = True) -> None:
        notice = self.notice(NoticeKind.VARIABLE, number, name=name, text=value, address=int(not overwrite))
        self.programs.changed_variable(notice)

    def removes(self, number: int = PARENT, name: str = VISIBLE) -> None:
        self.programs.changed_variable(self.notice(NoticeKind.VARIABLE, number, name=name))

    def puts(self, text: str, number: int = PARENT) -> None:
        self.programs.changed_variable(self.notice(NoticeKind.VARIABLE, number, text=text))

    def forks(self, parent: int = PARENT, child: int = CHILD) -> None:
        self.programs.forked(self.notice(NoticeKind.FORK, child, address=parent))

    def first_gpu(self, number: int = PARENT) -> str | None:
        """Have a program call CUDA for the first time; return what its device 0 is."""
        self.programs.called(self.notice(NoticeKind.FIRST_CALL, number))
        gpu = self.programs.gpu_of(number, 0)
        return None if gpu is None else gpu.uuid


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    machine.process(PARENT)
    return machine


def test_a_program_that_has_not_called_is_not_known(machine: Machine) -> None:
    assert machine.programs.get(PARENT) is None
    assert machine.programs.gpu_of(PARENT, 0) is None


def test_the_variables_that_it_was_started_with_count(machine: Machine) -> None:
    machine.process(PARENT, b'CUDA_VISIBLE_DEVICES=1\0')
    assert machine.first_gpu() == 'GPU-1'


def test_what_it_sets_before_its_first_call_counts_and_what_it_sets_later_does_not(machine: Machine) -> None:
    machine.sets('0')
    machine.sets('1')
    assert machine.first_gpu() == 'GPU-1'
    machine.sets('0')
    assert machine.programs.gpu_of(PARENT, 0) == HOST.gpus[1].gpu


def test_a_variable_that_is_removed_is_not_set(machine: Machine) -> None:
    machine.process(PARENT, b'CUDA_VISIBLE_DEVICES=1\0')
    machine.removes()
    assert machine.first_gpu() == 'GPU-0'


@pytest.mark.parametrize(
    ('environ', 'gpu'),
    [
        (b'CUDA_VISIBLE_DEVICES=1\0', 'GPU-1'),
        (b'HOME=/\0', 'GPU-0'),
        (b'a title that was written over them', None),
    ],
)
def test_setting_without_overwriting_takes_what_is_there(machine: Machine, environ: bytes, gpu: str | None) -> None:
    machine.process(PARENT, environ)
    machine.sets('0', overwrite=False)
    assert machine.first_gpu() == gpu


def test_setting_without_overwriting_takes_what_was_set_or_removed_meanwhile(machine: Machine) -> None:
    machine.process(PARENT, b'CUDA_VISIBLE_DEVICES=0\0')
    machine.removes()
    machine.sets('1', overwrite=False)
    machine.sets('0', overwrite=False)
    assert machine.first_gpu() == 'GPU-1'


@pytest.mark.parametrize(
    ('text', 'gpu'),
    [
        ('CUDA_VISIBLE_DEVICES=1', 'GPU-1'),
        ('CUDA_VISIBLE_DEVICES=1=0', 'GPU-1'),
        ('CUDA_VISIBLE_DEVICES=', None),  # it has no GPU
        ('CUDA_VISIBLE_DEVICES', 'GPU-0'),  # removes it
        ('CUDA_VISIBLE_DEVICES_OLD=0', 'GPU-1'),
        ('', 'GPU-1'),
    ],
)
def test_putenv_takes_both_in_one_text(machine: Machine, text: str, gpu: str | None) -> None:
    machine.process(PARENT, b'CUDA_VISIBLE_DEVICES=1\0')
    machine.puts(text)
    assert machine.first_gpu() == gpu


def test_a_child_has_the_variables_of_its_parent_as_they_were_at_the_fork(machine: Machine) -> None:
    machine.process(CHILD)
    machine.sets('1')
    machine.forks()
    machine.sets('0')
    machine.sets('0', CHILD, name='CUDA_DEVICE_ORDER')
    assert machine.first_gpu(CHILD) == 'GPU-1'
    assert machine.first_gpu(PARENT) == 'GPU-0'


def test_a_new_program_of_a_process_was_started_with_its_own_variables(machine: Machine) -> None:
    machine.process(PARENT, b'CUDA_VISIBLE_DEVICES=1\0')
    machine.sets('0')
    machine.process(CHILD, b'CUDA_VISIBLE_DEVICES=1\0')
    machine.programs.executed(machine.notice(NoticeKind.EXEC, CHILD, address=PARENT))
    assert machine.first_gpu(CHILD) == 'GPU-1'


def test_a_program_that_has_ended_leaves_its_variables_to_nobody(machine: Machine) -> None:
    machine.sets('1')
    machine.programs.ended(machine.notice(NoticeKind.END))
    machine.process(CHILD)
    machine.forks()
    assert machine.first_gpu(CHILD) == 'GPU-0'


def test_of_a_program_that_ran_before_it_is_not_known_what_it_had_changed_nor_of_its_children(machine: Machine) -> None:
    machine.process(CHILD)
    machine.programs.runs_already(PARENT, PARENT + 100)  # its memory cannot be read here
    machine.forks()
    assert machine.first_gpu() is None
    assert machine.first_gpu(CHILD) is None


def test_gpus_that_the_driver_tells_late_are_known_of_all_programs(machine: Machine) -> None:
    machine.programs.set_gpus(HostGpus())
    assert machine.first_gpu() is None
    machine.programs.set_gpus(HOST)
    assert machine.programs.gpu_of(PARENT, 1) == HOST.gpus[1].gpu


@pytest.mark.parametrize(
    ('words', 'command'),
    [
        (b'python\0train.py\0--name=a b\0', 'python train.py --name=a b'),
        (b'prog\0\0x\0', 'prog  x'),
        (b'ray::train\0\0\0\0\0', 'ray::train'),
        (b'\xff\0', '\udcff'),
        (b'x' * 5000, 'x' * 4096),
        (b'', None),
    ],
)
def test_the_command_is_what_it_was_started_with(machine: Machine, words: bytes, command: str | None) -> None:
    machine.process(PARENT, command=words)
    machine.first_gpu()
    run = machine.programs.get(PARENT)
    assert run is not None
    assert run.command == command


def test_a_child_that_ended_before_it_was_looked_at_has_the_command_of_its_parent(machine: Machine) -> None:
    machine.first_gpu()
    machine.forks()
    machine.programs.called(machine.notice(NoticeKind.FIRST_CALL, CHILD))
    run = machine.programs.get(CHILD)
    assert run is not None
    assert run.command == 'train'
    assert machine.programs.gpu_of(CHILD, 0) is None


def test_a_handle_is_told_by_the_name_that_it_was_asked_for_by_also_before_the_first_call(machine: Machine) -> None:
    machine.programs.named_kernel(machine.notice(NoticeKind.KERNEL_NAME, address=0x7000, text='axpy'))
    machine.first_gpu()
    machine.programs.named_kernel(machine.notice(NoticeKind.KERNEL_NAME, address=0x8000, text='gemm'))
    run = machine.programs.get(PARENT)
    assert run is not None
    assert [run.kernel(handle).name for handle in (0x7000, 0x8000)] == ['axpy', 'gemm']
    assert run.kernel(0x7000).symbol == 'axpy'


def test_a_handle_of_a_host_function_is_told_as_that_function(machine: Machine) -> None:
    machine.programs.named_kernel(machine.notice(NoticeKind.KERNEL_NAME, address=0x7000, value=0x5000))
    machine.first_gpu()
    run = machine.programs.get(PARENT)
    assert run is not None
    assert run.kernel(0x7000) == run.kernel(0x5000)


def test_a_handle_without_an_address_is_none(machine: Machine) -> None:
    machine.programs.named_kernel(machine.notice(NoticeKind.KERNEL_NAME, address=0, text='axpy'))
    machine.first_gpu()
    run = machine.programs.get(PARENT)
    assert run is not None
    assert run.handles == {}


def test_what_was_forgotten_is_not_known_any_more(machine: Machine) -> None:
    machine.first_gpu()
    machine.programs.forget(PARENT)
    machine.programs.forget(PARENT)
    assert machine.programs.get(PARENT) is None


def test_no_more_is_remembered_of_programs_that_never_call_than_there_is_room_for(machine: Machine) -> None:
    for number in range(2, 16_386):
        machine.sets('1', number)
    machine.sets('1')
    machine.process(2)
    machine.process(4)
    assert machine.first_gpu() == 'GPU-1'
    assert machine.first_gpu(2) == 'GPU-0'  # the one that was told first is forgotten
    assert machine.first_gpu(4) == 'GPU-1'


def test_a_program_without_names_because_it_ended_too_soon_says_so(machine: Machine) -> None:
    machine.programs.called(machine.notice(NoticeKind.FIRST_CALL))
    run = machine.programs.get(PARENT)
    assert run is not None
    assert run.kernel(0x5000).name == '0x5000'
    assert not run.image.has_unread_kernels
    shutil.rmtree(machine.proc / '101')
    assert run.kernel(0x5000).name == '0x5000'
    assert run.image.has_unread_kernels
