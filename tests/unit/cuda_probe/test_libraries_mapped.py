"""Which files of a process hold probed functions, told from a folder like /proc."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cuda_probe.binaries.file_systems import FileSystems
from gpu_tracker.cuda_probe.cuda_api import Library
from gpu_tracker.cuda_probe.libraries import FileOnDisk, MappedFiles, code_file, libraries_of, mapped_files
from support.cuda.mounts import Mounts
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

PID = 42
ANY = (Library.RUNTIME, Library.DRIVER)
CODE, DATA = 'r-xp', 'rw-p'


class Proc:
    """The folder of one process, whose root is another folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.process = path / str(PID)
        self.root = path / 'container'
        (self.process / 'map_files').mkdir(parents=True)
        self.root.mkdir()
        (self.process / 'root').symlink_to(self.root)
        self.maps = ''
        self.runs('/usr/bin/python3')

    def runs(self, shown: str, file: Path | None = None) -> None:
        """Have it run a program; a link of the kernel leads to the file, wherever its name does."""
        link = self.process / 'exe'
        link.unlink(missing_ok=True)
        link.symlink_to(file or self.file(shown))

    def file(self, path: str) -> Path:
        inside = self.root / path.lstrip('/')
        inside.parent.mkdir(parents=True, exist_ok=True)
        inside.write_bytes(os.fsencode(path))
        return inside

    def mapped(self, path: str, rights: str = CODE, begin: int = 0x7F00_0000_0000, *, there: bool = True) -> None:
        if there:
            self.file(path)
        self.maps += f'{begin:08x}-{begin + 0x1000:08x} {rights} 00000000 08:01 123456 {" " * 20}{path}\n'

    def found(self) -> list[tuple[str, tuple[Library, ...]]]:
        """Return what is found beside the program: where the process sees it, and what it is."""
        self.write()
        return [(file.shown, file.libraries) for file in mapped_files(PID, str(self.path)).files[1:]]

    def write(self) -> None:
        (self.process / 'maps').write_bytes(os.fsencode(self.maps))


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


@pytest.mark.parametrize(
    ('name', 'libraries'),
    [
        ('libcudart.so', (Library.RUNTIME,)),
        ('libcudart.so.12', (Library.RUNTIME,)),
        ('libcudart.so.13.0.88', (Library.RUNTIME,)),
        ('libcudart-d0da41ae.so.11.0', (Library.RUNTIME,)),  # as wheels bundle it
        ('libcuda.so.1', (Library.DRIVER,)),
        ('libcuda.so.570.86.10', (Library.DRIVER,)),
        ('libc.so.6', (Library.LIBC,)),
        ('libc-2.31.so', (Library.LIBC,)),
        ('libc.musl-x86_64.so.1', (Library.LIBC,)),
        ('ld-musl-x86_64.so.1', (Library.LIBC, Library.LOADER)),
        ('ld-linux-x86-64.so.2', (Library.LOADER,)),
        ('ld-linux-aarch64.so.1', (Library.LOADER,)),
        ('ld-2.31.so', (Library.LOADER,)),
        ('libcudart_static.a', ()),
        ('libcudadevrt.so', ()),
        ('libcudnn.so.9', ()),
        ('mylibcudart.so', ()),
        ('libcurl.so.4', ()),
        ('libcap.so.2', ()),
        ('python3.11', ()),
        ('', ()),
    ],
)
def test_what_a_name_tells(name: str, libraries: tuple[Library, ...]) -> None:
    assert libraries_of(name) == libraries


def test_libraries_that_are_mapped_as_code_are_found_through_the_process_root(proc: Proc) -> None:
    proc.mapped('/lib/libc.so.6')
    proc.mapped('/usr/lib/libm.so.6')
    proc.mapped('/opt/cuda/libcudart.so.12')
    proc.mapped('/data/libcuda.so.1', DATA)
    assert proc.found() == [
        ('/lib/libc.so.6', (Library.LIBC,)),
        ('/usr/lib/libm.so.6', ANY),
        ('/opt/cuda/libcudart.so.12', (Library.RUNTIME,)),
    ]
    inside = mapped_files(PID, str(proc.path)).files[3]
    assert inside.path == f'{proc.path}/42/root/opt/cuda/libcudart.so.12'
    status = os.stat(proc.root / 'opt/cuda/libcudart.so.12')
    assert inside.identity == (status.st_dev, status.st_ino)
    assert inside.modified == status.st_mtime_ns


def test_the_executable_comes_first_and_may_have_the_runtime_linked_in(proc: Proc) -> None:
    proc.write()
    (program,) = mapped_files(PID, str(proc.path)).files
    assert program.path == f'{proc.path}/42/exe'
    assert program.shown == str(proc.root / 'usr/bin/python3')
    assert program.libraries == (Library.RUNTIME,)


def test_a_library_of_any_name_may_export_cudas_functions_unless_it_is_known_to_have_none(proc: Proc) -> None:
    proc.mapped('/opt/libframework.so')
    proc.mapped('/usr/lib/libcuda.so.1')
    assert proc.found() == [('/opt/libframework.so', ANY), ('/usr/lib/libcuda.so.1', (Library.DRIVER,))]
    known = {file.mapped for file in mapped_files(PID, str(proc.path)).files if file.mapped is not None}
    assert known == {FileOnDisk(os.makedev(8, 1), 123456)}
    assert [file.shown for file in mapped_files(PID, str(proc.path), without_functions=known).files[1:]] == []


def test_a_loader_that_is_run_as_the_program_is_both(proc: Proc) -> None:
    proc.runs('/lib/ld-linux-x86-64.so.2')
    proc.mapped('/lib/ld-linux-x86-64.so.2')
    proc.write()
    (program,) = mapped_files(PID, str(proc.path)).files
    assert program.libraries == (Library.RUNTIME, Library.LOADER)


@pytest.mark.parametrize(
    'path',
    [
        '/opt/my cuda  12/libcudart.so.12',
        '/opt/(deleted) files/libcudart.so.12',
        '/opt/naïve/libcudart.so.12',
        os.fsdecode(b'/opt/\xff\xfe/libcudart.so.12'),
        '/opt/a\rb/libcudart.so.12',
    ],
)
def test_names_are_taken_as_they_are(proc: Proc, path: str) -> None:
    proc.mapped(path)
    assert proc.found() == [(path, (Library.RUNTIME,))]


def test_a_line_break_in_a_name_is_read_as_the_kernel_writes_it(proc: Proc) -> None:
    proc.file('/opt/a\nb/libcudart.so.12')
    proc.mapped('/opt/a\\012b/libcudart.so.12', there=False)
    assert proc.found() == [('/opt/a\nb/libcudart.so.12', (Library.RUNTIME,))]


def test_a_library_that_was_replaced_is_reached_through_its_mapping(proc: Proc) -> None:
    old = proc.file('/kept')
    (proc.process / 'map_files' / '400000-401000').symlink_to(old)
    proc.file('/opt/libcudart.so.12')
    proc.mapped('/opt/libcudart.so.12 (deleted)', begin=0x400000, there=False)
    assert proc.found() == [('/opt/libcudart.so.12', (Library.RUNTIME,))]
    assert mapped_files(PID, str(proc.path)).files[1].identity.inode == old.stat().st_ino


def test_a_program_that_was_removed_is_reached_through_the_process(proc: Proc) -> None:
    removed = proc.file('/tmp/a.out (deleted)')
    proc.runs('', removed)
    proc.write()
    (program,) = mapped_files(PID, str(proc.path)).files
    assert program.shown == str(proc.root / 'tmp/a.out')
    assert program.identity.inode == removed.stat().st_ino


def test_a_file_that_is_mapped_twice_is_told_once(proc: Proc) -> None:
    proc.mapped('/lib/libcudart.so.12')
    proc.mapped('/lib/libcudart.so.12', begin=0x7F00_0000_4000)
    os.link(proc.root / 'lib/libcudart.so.12', proc.root / 'lib/libcudart.so')
    proc.mapped('/lib/libcudart.so', begin=0x7F00_0000_8000, there=False)
    assert proc.found() == [('/lib/libcudart.so.12', (Library.RUNTIME,))]


def test_what_is_no_file_is_left_out(proc: Proc) -> None:
    proc.mapped('[vdso]', there=False)
    proc.mapped('', there=False)
    proc.mapped('/lib/libcudart.so.11', there=False)
    (proc.root / 'lib' / 'libcudart.so.12').mkdir(parents=True)
    proc.mapped('/lib/libcudart.so.12', there=False)
    os.mkfifo(proc.root / 'lib' / 'libcudart.so.13')
    proc.mapped('/lib/libcudart.so.13', there=False)
    proc.maps += 'a line of another kernel\n\n'
    assert proc.found() == []


def test_a_process_that_is_gone_has_no_files(proc: Proc) -> None:
    assert mapped_files(43, str(proc.path)).files == ()
    proc.mapped('/lib/libcudart.so.12')
    proc.write()
    (proc.process / 'exe').unlink()  # a zombie has none
    assert mapped_files(PID, str(proc.path)).files == ()


def test_a_cuda_library_that_cannot_be_reached_is_named_with_the_reason(proc: Proc) -> None:
    proc.mapped('/lib/libcudart.so.12', there=False)
    proc.mapped('/lib/libother.so', begin=0x7F00_0000_4000, there=False)
    proc.write()
    mapped = mapped_files(PID, str(proc.path))
    assert [file.shown for file in mapped.files] == [str(proc.root / 'usr/bin/python3')]
    ((file, problem),) = mapped.out_of_reach
    assert file == '/lib/libcudart.so.12'
    assert problem.startswith('it is not to be found where the process sees it')


def test_what_ended_meanwhile_has_nothing_out_of_reach(proc: Proc) -> None:
    proc.mapped('/lib/libcudart.so.12', there=False)
    proc.write()

    class Ending(FileSystems):
        def answers(self, *_: object) -> bool:
            (proc.process / 'exe').unlink()
            return True

    assert mapped_files(PID, str(proc.path), Ending()) == MappedFiles(())


def test_files_on_a_file_system_that_does_not_answer_are_left_alone(proc: Proc) -> None:
    proc.mapped('/mnt/libcudart.so.12')
    proc.maps = proc.maps.replace('08:01', '00:2f')
    proc.mapped('/lib/libcuda.so.1', begin=0x7F00_0000_4000)
    proc.mapped('/mnt/libother.so', begin=0x7F00_0000_8000)
    proc.maps = proc.maps.replace('08:01 123456                     /mnt', '00:2f 123456                     /mnt')
    proc.write()
    asked, never = [], threading.Event()

    def read(path: str) -> None:
        asked.append(path)
        if '/mnt/' in path:
            never.wait()

    mapped = mapped_files(PID, str(proc.path), Mounts('/mnt/', read))
    assert [file.shown for file in mapped.files] == [str(proc.root / 'usr/bin/python3'), '/lib/libcuda.so.1']
    assert mapped.out_of_reach == (('/mnt/libcudart.so.12', 'its file system does not answer'),)
    eventually(lambda: len(asked) == 2)
    never.set()


def test_this_process_has_a_c_library_and_a_loader() -> None:
    mapped = mapped_files(os.getpid()).files
    assert {Library.LIBC, Library.LOADER} <= {library for file in mapped for library in file.libraries}


def test_a_file_is_known_by_what_it_is_and_not_by_its_name(tmp_path: Path) -> None:
    (tmp_path / 'a').touch()
    (tmp_path / 'b').symlink_to('a')
    first, second = (code_file(str(tmp_path / name), name, ()) for name in 'ab')
    assert first is not None
    assert second is not None
    assert first.identity == second.identity
    assert code_file(str(tmp_path / 'c'), 'c', ()) is None
    assert code_file(str(tmp_path), 'folder', ()) is None
