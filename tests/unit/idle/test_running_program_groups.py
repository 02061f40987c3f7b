"""Control groups of programs, on recorded folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_tracker.idle.running.program_groups import group_of, make_group, mark_by_group

if TYPE_CHECKING:
    from pathlib import Path

MARK = '4711-4026531836-0123456789abcdef'
GROUP = f'gpu-tracker-idle-{MARK}.12'


def recorded(folder: Path, group: str, root: str = '/', kind: str = 'cgroup2') -> str:
    """Write what /proc says of process 12 and of the mounts; return its folder."""
    for name in ('12', 'self'):
        (folder / 'proc' / name).mkdir(parents=True)
        (folder / 'proc' / name / 'cgroup').write_text(f'4:memory:/elsewhere\n0::{group}\n')
    point = str(folder / 'my groups').replace(' ', '\\040')
    (folder / 'proc/self/mountinfo').write_text(
        f'25 24 0:23 / /sys rw - sysfs sysfs rw\n26 25 0:24 {root} {point} rw,nosuid - {kind} cgroup2 rw\n'
    )
    return str(folder / 'proc')


@pytest.mark.parametrize(
    ('path', 'known'),
    [
        (f'/user.slice/{GROUP}', (4711, 4026531836)),
        (f'/{GROUP}/made/by/the/program', (4711, 4026531836)),
        (f'/{GROUP} (deleted)', None),
        ('/user.slice', None),
        ('/gpu-tracker-idle-4711.12', None),
        (f'/x{GROUP}', None),
        ('/', None),
    ],
)
def test_a_process_is_known_by_the_group_of_its_program(tmp_path: Path, path: str, known: tuple[int, int]) -> None:
    assert mark_by_group(12, recorded(tmp_path, path)) == known


@pytest.mark.parametrize(
    ('path', 'root', 'folder'),
    [
        (f'/user.slice/{GROUP}/inner', '/', f'user.slice/{GROUP}'),
        (f'/docker/7/{GROUP}', '/docker/7', GROUP),
        (f'/docker/7/{GROUP}', '/docker/70', None),
        ('/user.slice', '/', None),
    ],
)
def test_the_folder_of_a_group(tmp_path: Path, path: str, root: str, folder: str | None) -> None:
    group = group_of(12, recorded(tmp_path, path, root))
    assert (None if group is None else group.folder) == (None if folder is None else f'{tmp_path}/my groups/{folder}')


def test_no_group_is_left_where_a_process_cannot_be_put_into_it(tmp_path: Path) -> None:
    (tmp_path / 'my groups/own').mkdir(parents=True)
    assert make_group(MARK, 12, recorded(tmp_path, '/own')) is None  # it has no cgroup.kill, as before Linux 5.14
    assert list((tmp_path / 'my groups/own').iterdir()) == []


def test_there_is_no_group_without_a_hierarchy_of_version_2(tmp_path: Path) -> None:
    assert make_group(MARK, 12, recorded(tmp_path, '/own', kind='cgroup')) is None
    assert make_group(MARK, 12, str(tmp_path / 'nowhere')) is None
    assert group_of(12, str(tmp_path / 'nowhere')) is None
