from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cuda_probe.binaries.cache import BinaryCache, cache_folder
from gpu_tracker.cuda_probe.binaries.cubin import Kernel, KernelVariant
from gpu_tracker.cuda_probe.binaries.program_file import Findings, findings_from
from support.cuda.cubins import MadeKernel, cubin, entry, fatbin, program

if TYPE_CHECKING:
    from pathlib import Path

KERNEL = Kernel('_Z3sumPf', 'sum(float*)', (KernelVariant(90, 'a', 16, 512, None, 1024, 536, 0, 0),))


def program_file(folder: Path) -> Path:
    path = folder / 'program'
    path.write_bytes(program(fatbin(entry(cubin(MadeKernel('_Z3sumPf', registers=16))))))
    return path


def test_findings_come_back_as_they_were() -> None:
    findings = Findings()
    findings.functions = {0x1234: ('_Z3sumPf', 'sum'), 0xFFFF_FFFF_FFFF: ()}
    findings.kernels = {'_Z3sumPf': KERNEL, 'sum': None}
    again = findings_from(findings.as_json())
    assert again is not None
    assert again.functions == findings.functions
    assert again.kernels == findings.kernels
    assert not again.changed


@pytest.mark.parametrize(
    'text',
    [
        '',
        '{',
        '[]',
        '7',
        '{"form":0,"functions":{},"kernels":{}}',
        '{"form":1,"functions":{},"kernels":{"f":["f"]}}',
        '{"form":1,"functions":{"no":[]},"kernels":{}}',
        '{"form":1,"functions":{"1f":[7]},"kernels":{}}',
        '{"form":1,"functions":{},"kernels":{"f":["f","f",[[90,"","many",1,1,1,1,1,1]]]}}',
        '{"form":1,"functions":{},"kernels":{"f":["f","f",[[90,""]]]}}',
        '[' * 100_000,
    ],
)
def test_a_damaged_file_of_findings_is_no_findings(text: str) -> None:
    assert findings_from(text) is None


def test_a_second_run_answers_from_what_the_first_has_kept(tmp_path: Path) -> None:
    path = program_file(tmp_path)
    folder = tmp_path / 'cache'
    first = BinaryCache(str(folder))
    kernel = first.file(str(path)).kernel_of('_Z3sumPf')
    assert kernel is not None
    assert kernel.name == 'sum(float*)'
    first.save()
    (kept,) = folder.iterdir()
    kept.write_text(kept.read_text().replace('sum(float*)', 'kept'))
    again = BinaryCache(str(folder)).file(str(path)).kernel_of('_Z3sumPf')
    assert again == kernel._replace(name='kept')


def test_a_file_that_was_changed_is_read_anew(tmp_path: Path) -> None:
    path = program_file(tmp_path)
    cache = BinaryCache(str(tmp_path / 'cache'))
    assert cache.file(str(path)).kernel_of('_Z3sumPf') is not None
    path.write_bytes(program(fatbin(entry(cubin(MadeKernel('_Z7anotherv'))))))
    assert cache.file(str(path)).kernel_of('_Z3sumPf') is None


def test_files_without_kernels_are_not_kept_open(tmp_path: Path) -> None:
    cache = BinaryCache()
    plain = tmp_path / 'plain'
    plain.write_bytes(b'no program')
    for _ in range(2):
        assert cache.file_with_kernels(str(plain)) is None
    assert cache.file_with_kernels(str(program_file(tmp_path))) is not None
    with pytest.raises(FileNotFoundError):
        cache.file_with_kernels(str(tmp_path / 'none'))


def test_nothing_is_kept_in_a_folder_that_others_may_write_to(tmp_path: Path) -> None:
    folder = tmp_path / 'cache'
    folder.mkdir()
    folder.chmod(0o777)
    cache = BinaryCache(str(folder))
    assert cache.file(str(program_file(tmp_path))).kernel_of('_Z3sumPf') is not None
    cache.save()
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_made_costs_nothing_but_time(tmp_path: Path) -> None:
    path = program_file(tmp_path)
    cache = BinaryCache(str(path / 'cache'))
    assert cache.file(str(path)).kernel_of('_Z3sumPf') is not None
    cache.save()


def test_what_could_not_be_read_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / 'program'
    path.write_bytes(program(fatbin(entry(b'no cubin'))))
    cache = BinaryCache(str(tmp_path / 'cache'))
    file = cache.file(str(path))
    assert file.kernel_of('_Z3sumPf') is None
    assert file.problem == 'not readable: not an ELF file'
    cache.save()
    assert list((tmp_path / 'cache').iterdir()) == []


def test_only_the_newest_findings_are_kept(tmp_path: Path) -> None:
    for number in range(300):
        old = tmp_path / f'{number}.json'
        old.write_text('{}')
        os.utime(old, (number, number))
    (tmp_path / 'note.txt').write_text('mine')
    tmp_path.chmod(0o700)
    BinaryCache(str(tmp_path)).save()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {f'{number}.json' for number in range(44, 300)} | {'note.txt'}


@pytest.mark.parametrize(
    ('environment', 'folder'),
    [
        ({'XDG_CACHE_HOME': '/caches', 'HOME': '/home/ann'}, '/caches/gpu-tracker/cuda'),
        ({'XDG_CACHE_HOME': 'caches', 'HOME': '/home/ann'}, '/home/ann/.cache/gpu-tracker/cuda'),
        ({'HOME': '/home/ann'}, '/home/ann/.cache/gpu-tracker/cuda'),
        ({}, None),
    ],
)
def test_the_folder_is_where_the_user_keeps_caches(environment: dict[str, str], folder: str | None) -> None:
    assert cache_folder(environment) == folder
