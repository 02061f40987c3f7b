"""What the files of a run's own control group say, on recorded folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_tracker.control_groups import storage
from gpu_tracker.control_groups.own_group import BOTH, V1, V2, OwnGroup, usage_of
from gpu_tracker.result.usage import OwnGroupUsage
from gpu_tracker.units import Units
from support.control_group_trees import make_group

if TYPE_CHECKING:
    from pathlib import Path

OF_VERSION_2 = {
    'cgroup.procs': '',
    'cpu.stat': 'usage_usec 2500000\nuser_usec 1500000\nsystem_usec 1000000\nnr_periods 0',
    'memory.current': '4096',
    'memory.peak': '123456789',
    'memory.events': 'low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0',
    'pids.peak': '17',
    'io.stat': '259:0 rbytes=1000 wbytes=200 rios=1 wios=1 dbytes=0\n253:3 rbytes=1000 wbytes=200 rios=1 wios=1\n8:0',
}
WANTED = Units('megabytes', 'gigabytes', 'hours', None)
IO_OF_VERSION_1 = '8:0 Read 4096\n8:0 Write 8192\n8:0 Total 12288\nTotal 12288'


def figures(
    memory: int | None, cpu: tuple[float | None, ...], read: int | None, written: int | None, *rest: int | None
):
    names = ('memory_peak', 'cpu', 'user_cpu', 'system_cpu', 'read', 'written', 'max_tasks', 'oom_kills')
    return dict(zip(names, (memory, *cpu, read, written, *rest), strict=True))


def test_a_group_of_version_2(tmp_path: Path) -> None:
    group = OwnGroup(str(make_group(tmp_path / 'run', OF_VERSION_2)), {}, V2)
    assert group.figures() == figures(123456789, (2.5, 1.5, 1.0), 2000, 400, 17, 2)


def test_a_group_without_controllers_knows_cpu_time_alone(tmp_path: Path) -> None:
    group = OwnGroup(str(make_group(tmp_path / 'run', {'cpu.stat': OF_VERSION_2['cpu.stat']})), {}, V2)
    assert group.figures() == figures(None, (2.5, 1.5, 1.0), None, None, None, None)


def test_an_older_kernel_has_no_peak_of_memory(tmp_path: Path) -> None:
    files = {name: text for name, text in OF_VERSION_2.items() if not name.endswith('.peak')}
    group = OwnGroup(str(make_group(tmp_path / 'run', files)), {}, V2)
    assert group.figures() == figures(None, (2.5, 1.5, 1.0), 2000, 400, None, 2)


def legacy_groups(folder: Path) -> dict[str, str]:
    files = {
        'memory': {
            'memory.max_usage_in_bytes': 5000,
            'memory.oom_control': 'oom_kill_disable 0\nunder_oom 0\noom_kill 1',
        },
        'cpuacct': {'cpuacct.usage': 2_500_000_000, 'cpuacct.stat': 'user 150\nsystem 100'},
        'pids': {'pids.current': 1},
        'blkio': {'blkio.throttle.io_service_bytes_recursive': IO_OF_VERSION_1},
    }
    return {name: str(make_group(folder / name, content)) for name, content in files.items()}


def test_groups_of_version_1(tmp_path: Path) -> None:
    group = OwnGroup(None, legacy_groups(tmp_path), V1)
    assert group.figures() == figures(5000, (2.5, 1.5, 1.0), 4096, None, None, 1)


def test_both_versions_side_by_side(tmp_path: Path) -> None:
    unified = make_group(tmp_path / 'unified', {'cpu.stat': 'usage_usec 1000000\nuser_usec 750000\nsystem_usec 250000'})
    group = OwnGroup(str(unified), legacy_groups(tmp_path), BOTH)
    assert group.figures() == figures(5000, (1.0, 0.75, 0.25), 4096, None, None, 1)


def test_a_device_on_others_is_not_counted_twice(tmp_path: Path) -> None:
    (tmp_path / 'devices/253:3/slaves/nvme0n1').mkdir(parents=True)
    (tmp_path / 'devices/259:0/slaves').mkdir(parents=True)
    folder = str(make_group(tmp_path / 'run', OF_VERSION_2))
    assert storage.of_unified(folder, str(tmp_path / 'devices')) == (1000, 200)


def test_version_1_that_names_no_device_counts_nothing(tmp_path: Path) -> None:
    folder = make_group(tmp_path / 'run', {'blkio.throttle.io_service_bytes_recursive': 'Total 0'})
    assert storage.read_of_legacy(str(folder)) is None
    assert storage.read_of_legacy(str(tmp_path)) is None


def test_a_limit_of_version_2_is_for_the_whole_group(tmp_path: Path) -> None:
    limits = {'memory.max': '', 'memory.swap.max': '', 'memory.oom.group': ''}
    folder = make_group(tmp_path / 'run', {**OF_VERSION_2, **limits})
    OwnGroup(str(folder), {}, V2).limit_memory(50_000_000)
    written = {name: (folder / name).read_text().split()[0] for name in limits}
    assert written == {'memory.max': '50000000', 'memory.swap.max': '0', 'memory.oom.group': '1'}


def test_a_limit_of_version_1(tmp_path: Path) -> None:
    names = ('memory.limit_in_bytes', 'memory.memsw.limit_in_bytes')
    folder = make_group(tmp_path / 'memory', {**dict.fromkeys(names, 1), 'memory.oom_control': 'oom_kill 0'})
    OwnGroup(None, {'memory': str(folder)}, V1).limit_memory(50_000_000)
    assert [(folder / name).read_text().split() for name in names] == [['50000000'], ['50000000']]


@pytest.mark.parametrize(('local', 'kills'), [('oom 3\noom_kill 0', 2), ('oom 0\noom_kill 0', 0), (None, 2)])
def test_kills_count_where_a_group_of_version_2_has_reached_its_own_limit(
    tmp_path: Path, local: str | None, kills: int
) -> None:
    """Events of the group itself stand beside those of it and all groups below it."""
    events = {} if local is None else {'memory.events.local': local}
    group = OwnGroup(str(make_group(tmp_path / 'run', {**OF_VERSION_2, **events})), {}, V2)
    assert group.memory_kills() == kills


@pytest.mark.parametrize(('limit', 'kills'), [(50_000_000, 1), (60_000_000, 0), (2**63 - 4096, 0)])
def test_kills_count_where_a_group_of_version_1_has_reached_its_own_limit(
    tmp_path: Path, limit: int, kills: int
) -> None:
    files = {
        'memory.max_usage_in_bytes': 49_999_872,
        'memory.limit_in_bytes': limit,
        'memory.oom_control': 'oom_kill_disable 0\nunder_oom 0\noom_kill 1',
    }
    group = OwnGroup(None, {'memory': str(make_group(tmp_path / 'memory', files))}, V1)
    assert group.memory_kills() == kills


def test_kills_below_count_but_not_those_that_a_limit_of_a_group_below_explains(tmp_path: Path) -> None:
    def legacy(folder: Path, peak: int, limit: int, kills: int) -> None:
        make_group(
            folder,
            {
                'memory.max_usage_in_bytes': peak,
                'memory.limit_in_bytes': limit,
                'memory.oom_control': f'oom_kill {kills}',
            },
        )

    folder = tmp_path / 'memory'
    legacy(folder, 50_000_000, 50_000_000, 0)
    legacy(folder / 'plain', 40_000_000, 2**63 - 4096, 3)
    legacy(folder / 'limited', 20_000_000, 20_000_000, 0)
    legacy(folder / 'limited/inner', 15_000_000, 2**63 - 4096, 5)
    group = OwnGroup(None, {'memory': str(folder)}, V1)
    assert (group.memory_kills(), group.figures()['oom_kills']) == (3, 8)


def test_a_kernel_that_does_not_count_kills_keeps_no_limit(tmp_path: Path) -> None:
    files = {'memory.limit_in_bytes': 1, 'memory.oom_control': 'oom_kill_disable 0\nunder_oom 0'}
    folder = make_group(tmp_path / 'memory', files)
    with pytest.raises(OSError, match='does not count processes killed for lack of memory'):
        OwnGroup(None, {'memory': str(folder)}, V1).limit_memory(50_000_000)
    assert (folder / 'memory.limit_in_bytes').read_text() == '1\n'


def test_a_limit_below_a_page_is_none_that_the_kernel_can_keep(tmp_path: Path) -> None:
    folder = make_group(tmp_path / 'run', {**OF_VERSION_2, 'memory.max': 'max'})
    with pytest.raises(OSError, match='smaller than one page of memory'):
        OwnGroup(str(folder), {}, V2).limit_memory(1000)
    assert (folder / 'memory.max').read_text() == 'max\n'


def test_a_group_that_counts_no_memory_has_no_kills(tmp_path: Path) -> None:
    assert OwnGroup(None, {'pids': str(tmp_path)}, V1).memory_kills() == 0


def test_a_group_that_counts_no_memory_takes_no_limit(tmp_path: Path) -> None:
    folder = make_group(tmp_path / 'run', {'cpu.stat': 'usage_usec 1'})
    with pytest.raises(OSError, match='memory'):
        OwnGroup(str(folder), {}, V2).limit_memory(50_000_000)


def test_the_end_of_a_group(tmp_path: Path) -> None:
    """In a folder of a test there are files, so that it cannot be removed."""
    closed = []
    folder = make_group(tmp_path / 'run', {'cgroup.procs': '', 'cpu.stat': OF_VERSION_2['cpu.stat']})
    group = OwnGroup(str(folder), {}, V2, lambda: closed.append(1), notes=['there is no more'])
    ended = group.end(timeout=0)
    assert (ended['cpu'], ended['left_processes'], ended['made_in'], closed) == (2.5, 0, 'cgroup v2', [1])
    assert ended['problem'] == (
        'not counted: the peak of memory (it needs the memory controller and Linux 5.19), '
        'what was read from storage (the io controller), '
        'what was written to storage (the io controller of version 2), '
        'processes and threads (the pids controller and Linux 6.1); '
        'there is no more; '
        f'{folder} could not be removed: processes in it do not end'
    )


def test_what_does_not_end_is_waited_for_once_and_not_in_each_folder(tmp_path: Path) -> None:
    """Process 0 is one that this process cannot see."""
    unified, memory = (str(make_group(tmp_path / name, {'cgroup.procs': '0'})) for name in ('unified', 'memory'))
    ended = OwnGroup(unified, {'memory': memory}, BOTH).end(timeout=0)
    assert ended['left_processes'] == 1
    assert ended['problem'].endswith(f'; {unified} and {memory} could not be removed: processes in it do not end')


def test_the_section_is_in_the_unit_that_is_wanted() -> None:
    found = {**figures(5_000_000, (2.5, 1.5, 1.0), 1_000_000, None, 17, 0), 'left_processes': 1, 'made_in': V2}
    assert usage_of(found, WANTED) == OwnGroupUsage(
        'megabytes', 'cgroup v2', 5.0, 2.5, 1.5, 1.0, 1.0, None, 17, 0, 1, None
    )


def test_a_section_without_a_group_has_the_reason_alone() -> None:
    assert usage_of({'problem': 'why'}, WANTED) == OwnGroupUsage('megabytes', *[None] * 10, 'why')


@pytest.mark.parametrize(
    'wrong', [{'cpu': 'much'}, {'max_tasks': [1]}, {'oom_kills': True}, {'problem': 1}, {'made_in': 2}]
)
def test_what_a_strangers_recording_has_in_its_place_is_no_section(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match='own_group'):
        usage_of(wrong, WANTED)
