"""Files are attached to once, whatever they are called, with the functions that they have."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cuda_probe.cuda_api import Library
from gpu_tracker.cuda_probe.engine.attaching import AttachedFiles
from gpu_tracker.cuda_probe.libraries import CodeFile, code_file
from support.cuda.compiled_files import LIBRARY, library, offsets

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpu_tracker.cuda_probe.engine.attaching import ProbePoint

RENAMED = """
int cudaStreamQuery(void *stream) { return 0; }
extern int cudaStreamQuery_ptsz(void *stream) __attribute__((alias("cudaStreamQuery")));
int cuStreamQuery(void *stream) { return 1; }
"""


class Attacher:
    """Takes note of what is attached, and refuses what it is told to."""

    def __init__(self) -> None:
        self.attached: list[tuple[str, dict[str, int]]] = []
        self.refused: set[str] = set()
        self.open: dict[int, str] = {}
        """What is attached, by descriptor."""

    def attach(self, path: str, places: Sequence[ProbePoint]) -> list[int]:
        if path in self.refused:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        self.attached.append((path, {place.function.symbol: place.offset for place in places}))
        handle = len(self.attached)
        self.open[handle] = path
        return [handle]

    def detach(self, handles: list[int]) -> None:
        for handle in handles:
            del self.open[handle]


@pytest.fixture
def attacher() -> Attacher:
    return Attacher()


@pytest.fixture
def files(attacher: Attacher) -> AttachedFiles:
    return AttachedFiles(attacher)


def at(path: Path, *libraries: Library) -> CodeFile:
    file = code_file(str(path), f'/shown/{path.name}', libraries or (Library.RUNTIME,))
    assert file is not None
    return file


def test_a_library_is_attached_to_where_its_functions_begin(
    tmp_path: Path, attacher: Attacher, files: AttachedFiles
) -> None:
    path = library(tmp_path / 'a.so')
    assert files.attach(at(path)) == 3
    names = 'cudaMalloc', 'cudaFree', 'cudaSetDevice'
    assert attacher.attached == [(str(path), {name: place for name in names for place in offsets(path, name)[name]})]


def test_it_is_attached_to_once_whatever_it_is_called(tmp_path: Path, attacher: Attacher, files: AttachedFiles) -> None:
    path = library(tmp_path / 'a.so')
    (tmp_path / 'b.so').symlink_to(path)
    assert files.is_new(at(path))
    assert [files.attach(at(tmp_path / name)) for name in ('a.so', 'b.so')] == [3, 3]
    assert not files.is_new(at(tmp_path / 'b.so'))
    assert len(attacher.attached) == 1
    os.utime(path)
    assert files.attach(at(path)) == 3
    assert len(attacher.attached) == 1


def test_only_functions_of_the_libraries_that_a_file_is_are_taken(
    tmp_path: Path, attacher: Attacher, files: AttachedFiles
) -> None:
    path = library(tmp_path / 'a.so', RENAMED)
    assert files.attach(at(path, Library.DRIVER)) == 1
    assert set(attacher.attached[0][1]) == {'cuStreamQuery'}


def test_a_function_with_two_names_is_attached_to_once(
    tmp_path: Path, attacher: Attacher, files: AttachedFiles
) -> None:
    path = library(tmp_path / 'a.so', RENAMED)
    assert files.attach(at(path, Library.RUNTIME, Library.DRIVER)) == 2
    assert set(attacher.attached[0][1]) == {'cudaStreamQuery', 'cuStreamQuery'}


def test_a_file_without_such_functions_is_read_again_when_it_has_changed(
    tmp_path: Path, attacher: Attacher, files: AttachedFiles
) -> None:
    path = tmp_path / 'a.so'
    path.write_text('not yet')
    os.utime(path, ns=(1, 1))
    assert files.attach(at(path)) == 0
    assert not files.is_new(at(path))
    path.write_bytes(library(tmp_path / 'made.so', LIBRARY).read_bytes())
    assert files.is_new(at(path))
    assert files.attach(at(path)) == 3
    assert len(attacher.attached) == 1


def test_what_was_refused_is_not_tried_again_unless_it_has_changed_or_is_reached_in_another_way(
    tmp_path: Path, attacher: Attacher, files: AttachedFiles
) -> None:
    path = library(tmp_path / 'a.so')
    os.utime(path, ns=(1, 1))
    (tmp_path / 'b.so').symlink_to(path)
    attacher.refused.add(str(path))
    for _ in range(2):
        with pytest.raises(PermissionError, match='Operation not permitted'):
            files.attach(at(path))
        attacher.refused.clear()
    assert attacher.attached == []
    assert files.attach(at(tmp_path / 'b.so')) == 3
    os.utime(path)
    assert files.attach(at(path)) == 3
    assert len(attacher.attached) == 1


def test_one_file_that_is_refused_does_not_keep_others_from_being_attached_to(
    tmp_path: Path, attacher: Attacher, files: AttachedFiles
) -> None:
    first, second = library(tmp_path / 'a.so'), library(tmp_path / 'b.so')
    gone = at(library(tmp_path / 'c.so'))
    (tmp_path / 'c.so').unlink()
    attacher.refused.add(str(first))
    refused = files.attach_all([at(first), gone, at(second)])
    assert [(one.file.shown, one.error.errno) for one in refused] == [
        ('/shown/a.so', errno.EPERM),
        ('/shown/c.so', errno.ENOENT),
    ]
    assert [path for path, _ in attacher.attached] == [str(second)]


def test_where_all_are_refused_the_first_reason_is_told(
    tmp_path: Path, attacher: Attacher, files: AttachedFiles
) -> None:
    first = library(tmp_path / 'a.so')
    (plain := tmp_path / 'plain').write_text('no functions')
    attacher.refused.add(str(first))
    with pytest.raises(PermissionError):
        files.attach_all([at(plain), at(first)])
    assert files.attach_all([at(plain)]) == ()


def test_closing_detaches(tmp_path: Path, attacher: Attacher, files: AttachedFiles) -> None:
    files.attach(at(library(tmp_path / 'a.so')))
    files.attach_all([at(library(tmp_path / 'b.so'))])
    files.close()
    assert (len(attacher.attached), attacher.open) == (2, {})


def test_what_nobody_uses_is_detached_from_and_attached_to_anew(
    tmp_path: Path, attacher: Attacher, files: AttachedFiles
) -> None:
    used, unused, first = (at(library(tmp_path / name)) for name in ('used.so', 'unused.so', 'first.so'))
    files.attach_all([first])
    files.attach(used)
    files.attach(unused)
    assert files.temporary() == 2
    files.release({used.identity})
    assert sorted(attacher.open.values()) == [first.path, used.path]
    assert files.is_new(unused)
    assert files.attach(unused) == 3
    assert len(attacher.open) == 3
