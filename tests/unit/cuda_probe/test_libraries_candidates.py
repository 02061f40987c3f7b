"""Which libraries a program may load that is about to be started, told from folders made for it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cuda_probe.cuda_api import Library
from gpu_tracker.cuda_probe.libraries import candidates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

RUNTIME = 'libcudart.so.12'
WHEEL = f'lib/python3.11/site-packages/nvidia/cuda_runtime/lib/{RUNTIME}'


class Machine:
    """A folder with libraries and programs."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file(self, path: str, mode: int = 0o644) -> str:
        made = self.path / path
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(path)
        made.chmod(mode)
        return str(made)

    def program(self, path: str) -> str:
        return self.file(path, 0o755)

    def found(
        self, environment: Mapping[str, str] | None = None, command: Sequence[str] = (), folders: Sequence[str] = ()
    ) -> list[str]:
        """Return what is found inside, in order."""
        system = [str(self.path / folder) for folder in folders]
        files = candidates(environment or {}, command, system)
        inside = f'{self.path}/'
        return [file.path.removeprefix(inside) for file in files if file.path.startswith(inside)]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_libraries_of_the_system_are_found_in_folders_that_are_patterns(machine: Machine) -> None:
    for path in ('cuda-12/lib/libcudart.so.12.4', 'cuda-13/lib/libcudart.so.13', 'lib/libcuda.so.1', 'lib/libm.so.6'):
        machine.file(path)
    assert machine.found(folders=['cuda*/lib', 'lib', 'none']) == [
        'cuda-12/lib/libcudart.so.12.4',
        'cuda-13/lib/libcudart.so.13',
        'lib/libcuda.so.1',
    ]


def test_one_file_with_several_names_is_found_once(machine: Machine) -> None:
    machine.file('lib/libcudart.so.12.4')
    (machine.path / 'lib' / RUNTIME).symlink_to('libcudart.so.12.4')
    (machine.path / 'lib' / 'libcudart.so').symlink_to(RUNTIME)
    assert machine.found(folders=['lib']) == ['lib/libcudart.so']


def test_the_folders_of_the_loader_come_first(machine: Machine) -> None:
    machine.file(f'[mine]/{RUNTIME}')
    machine.file('my files/libcuda.so.1')
    machine.file('lib/libcudart.so.13')
    searched = f'{machine.path}/[mine]::{machine.path}/my files;/nowhere'
    assert machine.found({'LD_LIBRARY_PATH': searched}, folders=['lib']) == [
        f'[mine]/{RUNTIME}',
        'my files/libcuda.so.1',
        'lib/libcudart.so.13',
    ]


@pytest.mark.parametrize(
    ('variable', 'path'),
    [
        ('VIRTUAL_ENV', WHEEL),
        ('VIRTUAL_ENV', 'lib/python3.12/site-packages/nvidia/cu13/lib/libcudart.so.13'),
        ('VIRTUAL_ENV', 'lib64/python3.11/site-packages/torch/lib/libcudart-d0da41ae.so.11.0'),
        ('CONDA_PREFIX', 'lib/libcudart.so.12'),
        ('CUDA_HOME', 'lib64/libcudart.so.12'),
        ('CUDA_PATH', 'targets/x86_64-linux/lib/libcudart.so.12'),
    ],
)
def test_prefixes_in_the_environment_are_searched(machine: Machine, variable: str, path: str) -> None:
    machine.file(f'a [new] prefix/{path}')
    environment = {variable: f'{machine.path}/a [new] prefix', 'CONDA_PREFIX_1': '/x', 'CUDA_PATH_V12': ''}
    assert machine.found(environment) == [f'a [new] prefix/{path}']
    assert machine.found({variable: ''}) == []


@pytest.mark.parametrize(
    'path',
    [
        WHEEL,
        'lib/python3/dist-packages/nvidia/cuda_runtime/lib/libcudart.so.12',
        'local/lib/python3.11/dist-packages/nvidia/cuda_runtime/lib/libcudart.so.12',  # pip on Debian, as root
        f'bin/{RUNTIME}',
        f'lib/{RUNTIME}',
    ],
)
def test_the_prefix_of_a_program_is_searched(machine: Machine, path: str) -> None:
    program = machine.program('usr/bin/python3')
    machine.file(f'usr/{path}')
    assert machine.found(command=[program, 'train.py']) == [f'usr/{path}', 'usr/bin/python3']
    assert machine.found({'PATH': f'/nowhere:{machine.path}/usr/bin'}, ['python3']) == [
        f'usr/{path}',
        'usr/bin/python3',
    ]


def test_a_virtual_environments_python_is_searched_where_it_stands_and_where_it_leads(machine: Machine) -> None:
    machine.program('usr/bin/python3.11')
    (machine.path / 'venv/bin').mkdir(parents=True)
    (machine.path / 'venv/bin/python').symlink_to('../../usr/bin/python3.11')
    machine.file(f'venv/{WHEEL}')
    machine.file(f'usr/lib/{RUNTIME}')
    found = machine.found(command=[f'{machine.path}/venv/bin/python'])
    assert found == [f'venv/{WHEEL}', f'usr/lib/{RUNTIME}', 'venv/bin/python']


@pytest.mark.parametrize(
    'line',
    [
        'train --epochs=3',
        'cd /tmp && train',
        'X=1 train; echo done',
        '(train&)',
        'train|tee log',
        'sleep 1\ntrain\n',
        "'train' it",
        '"train" #1',
        'train "that does not close',
    ],
)
def test_the_programs_of_a_shells_line_are_searched(machine: Machine, line: str) -> None:
    machine.program('bin/train')
    assert machine.found({'PATH': f'{machine.path}/bin'}, ['sh', '-c', line]) == ['bin/train']


def test_a_program_whose_name_has_blanks_is_one(machine: Machine) -> None:
    program = machine.program('bin/my program')
    assert machine.found(command=[program]) == ['bin/my program']


def test_what_cannot_be_run_is_no_program(machine: Machine) -> None:
    plain = machine.file('bin/data')
    assert machine.found(command=[plain, str(machine.path / 'bin'), str(machine.path / 'none'), '', '-c']) == []


def test_preloaded_libraries_are_found_by_their_paths(machine: Machine) -> None:
    first, second = machine.file('a/libcudart.so.11'), machine.file('b/libcuda.so.1')
    assert machine.found({'LD_PRELOAD': f'{first}:{second} libm.so.6'}) == ['a/libcudart.so.11', 'b/libcuda.so.1']


def test_files_are_told_as_what_their_names_say_and_programs_as_having_the_runtime(machine: Machine) -> None:
    machine.file('lib/libcuda.so.1')
    program = machine.program('bin/train')
    found = {file.path: file.libraries for file in candidates({}, [program], [str(machine.path / 'lib')])}
    assert found[str(machine.path / 'lib/libcuda.so.1')] == (Library.DRIVER,)
    assert found[program] == (Library.RUNTIME,)


def test_no_more_are_told_than_are_worth_it(machine: Machine) -> None:
    for number in range(70):
        machine.file(f'lib/libcudart.so.{number:03}')
    assert machine.found(folders=['lib']) == [f'lib/libcudart.so.{number:03}' for number in range(64)]


def test_a_program_among_thousands_of_words_is_found_where_it_is_among_the_first(machine: Machine) -> None:
    program = machine.program('bin/train')
    late = machine.program('bin/late')
    assert machine.found(command=[program, *(f'{number}.jpg' for number in range(5000)), late]) == ['bin/train']


def test_the_c_library_and_the_loader_of_this_process_are_always_among_them() -> None:
    found = candidates({}, folders=())
    assert {library for file in found for library in file.libraries} == {Library.LIBC, Library.LOADER}
    assert all(os.path.exists(file.path) for file in found)
