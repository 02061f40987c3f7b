"""GPUs of all DRM drivers, from dumps to readings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpu_tracker.gpus.constraints import FREE, status_of
from gpu_tracker.gpus.drm.backend import DrmBackend
from gpu_tracker.gpus.model import GpuActivity
from gpu_tracker.gpus.request import Request
from gpu_tracker.gpus.selection import choose
from gpu_tracker.resources.gpu.figures import GpuFigures
from support.gpus.drm_tree import CASES, DrmTree, browser, dump
from support.tracked_program import answer, as_root

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from gpu_tracker.gpus.model import GpuProcess, GpuReading

GAMING = 'GPU-5a9f3c1e7b2d4860'
MI300X = 'GPU-6d1a0b5c3f9e7482', 'GPU-91b7e04d25c8fa63'
APU = 'amd-0000:04:00.0'
XE_CARD = 'intel-0000:03:00.0'


class Clock:
    """Seconds that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def tree(tmp_path: Path) -> DrmTree:
    return DrmTree(tmp_path)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def backend(tree: DrmTree, clock: Clock) -> DrmBackend:
    return DrmBackend(f'{tree.root}/sys', f'{tree.root}/proc', f'{tree.root}/usr/share', monotonic=clock)


def figures(reading: GpuReading) -> dict[str, Any]:
    """Return what is known of a GPU, but for its processes."""
    names = 'memory_used', 'memory_free', 'utilization', 'temperature', 'sm_clock', 'power', 'power_limit'
    known = {'memory_total': reading.memory_total, **{name: getattr(reading, name) for name in names}}
    if reading.health is not None:
        known['energy'] = reading.health.energy_joules
    return {name: value for name, value in known.items() if value is not None}


def listed(processes: Iterable[GpuProcess] | None) -> list[tuple[int, int | None, bool]]:
    """Return pid, bytes and whether it computes."""
    return [(process.pid, process.memory, process.computes) for process in processes or ()]


SURVEYS = {
    'amdgpu_gaming': [
        (
            'amd',
            {
                'memory_total': 17_163_091_968,
                'memory_used': 4_294_967_296,
                'memory_free': 12_868_124_672,
                'utilization': 73.0,
                'temperature': 63.0,
                'sm_clock': 2_410_000_000,
                'power': 187.0,
                'power_limit': 255.0,
            },
            [(1001, 3_649_044_480, False), (1002, 557_494_272, False)],
        )
    ],
    'amdgpu_compute': [
        (
            'amd',
            {
                'memory_total': 205_822_885_888,
                'memory_used': 3_100_000_000,
                'memory_free': 202_722_885_888,
                'utilization': 97.0,
                'temperature': 49.0,
                'sm_clock': 2_106_000_000,
                'power': 305.0,
                'power_limit': 750.0,
            },
            [(1001, 2_800_001_024, True)],
        ),
        (
            'amd',
            {
                'memory_total': 205_822_885_888,
                'memory_used': 297_365_504,
                'memory_free': 205_525_520_384,
                'utilization': 0.0,
                'temperature': 49.0,
                'sm_clock': 132_000_000,
                'power': 132.0,
                'power_limit': 750.0,
            },
            [(1001, 20_480, True)],
        ),
    ],
    'amdgpu_apu': [
        (
            'amd',
            {
                'memory_total': 9_663_676_416,
                'memory_used': 1_317_011_456,
                'memory_free': 8_346_664_960,
                'utilization': 35.0,
                'temperature': 63.0,
                'sm_clock': 200_000_000,
                'power': 4.09,
                'power_limit': 15.0,
            },
            [(1001, 580_562_944, False), (1002, 48_082_944, True)],
        )
    ],
    'i915': [
        ('intel', {'sm_clock': 349_000_000}, [(1001, 6_189_056, True)]),
        (
            'intel',
            {'sm_clock': 2_000_000_000, 'power_limit': 75.0, 'energy': 1234.56789},
            [(1002, 2_762_960_896, False)],
        ),
    ],
    'xe': [
        ('intel', {'sm_clock': 800_000_000}, [(1002, 48_672_768, False)]),
        (
            'intel',
            {
                'memory_total': 17_079_205_888,
                'temperature': 52.0,
                'sm_clock': 2_400_000_000,
                'power_limit': 190.0,
                'energy': 987.654321,
            },
            [(1001, 3_818_913_792, True)],
        ),
    ],
    'nouveau': [('drm', {'temperature': 44.0, 'power': 9.1}, [(1001, 1_879_048_192, True), (1002, None, True)])],
}


@pytest.mark.parametrize('case', SURVEYS)
def test_one_reading_of_all_gpus(tree: DrmTree, clock: Clock, case: str) -> None:
    tree.add(case)
    found = [(one.gpu.vendor, figures(one), listed(one.processes)) for one in backend(tree, clock).survey()]
    assert found == SURVEYS[case]


def test_only_gpus_of_nvidia_have_counters_of_their_activity(tree: DrmTree, clock: Clock) -> None:
    tree.add('nouveau')
    opened = backend(tree, clock)
    (unasked,) = opened.survey()
    opened.watch_activity()
    (reading,) = opened.survey()
    assert (unasked.activity, reading.activity) == (
        None,
        GpuActivity(problem='only NVIDIA GPUs have counters of their activity'),
    )


def test_a_browser_that_shares_its_descriptors_has_its_memory_once(tree: DrmTree, clock: Clock) -> None:
    tree.add(browser())
    (reading,) = backend(tree, clock).survey()
    assert listed(reading.processes) == [(1001, 838_860_800, False)]


def test_a_card_that_sysfs_shows_like_an_integrated_gpu_is_known_by_what_clients_have(
    tree: DrmTree, clock: Clock
) -> None:
    about = ['DRIVER=i915', 'PCI_ID=8086:56C0', 'PCI_SLOT_NAME=0000:00:05.0']
    names = 'card0', 'renderD128'
    tree.add([f'/sys/class/drm/{name}/device/uevent:{line}' for name in names for line in about])
    opened = backend(tree, clock)
    assert [gpu.is_integrated for gpu in opened.gpus()] == [True]
    lines = ['drm-driver:\ti915', 'drm-client-id:\t1', 'drm-pdev:\t0000:00:05.0', 'drm-resident-system0:\t700']
    tree.client(1001, 5, [*lines, 'drm-resident-local0:\t4000'])
    (reading,) = opened.survey()
    assert (reading.gpu.is_integrated, listed(reading.processes)) == (False, [(1001, 4000, True)])


def test_without_load_processes_are_read_only_where_the_memory_is_not_known(tree: DrmTree, clock: Clock) -> None:
    tree.add('amdgpu_gaming')
    (card,) = backend(tree, clock).survey(with_load=False)
    assert (card.processes, card.utilization, card.temperature) == (None, None, None)
    assert (card.memory_used, card.memory_free) == (4_294_967_296, 12_868_124_672)


def test_a_driver_that_reports_more_in_use_than_there_is_leaves_nothing_free(tree: DrmTree, clock: Clock) -> None:
    tree.add('amdgpu_gaming')
    tree.set('card1/device/mem_info_vram_used', 18 * 2**30)
    (card,) = backend(tree, clock).survey(with_load=False)
    assert (card.memory_used, card.memory_free) == (18 * 2**30, 0)


def test_without_load_processes_are_read_where_the_memory_is_not_known(tree: DrmTree, clock: Clock) -> None:
    tree.add('xe')
    found = [listed(one.processes) for one in backend(tree, clock).survey(with_load=False)]
    assert found == [[(1002, 48_672_768, False)], [(1001, 3_818_913_792, True)]]


def test_a_gpu_that_is_taken_away(tree: DrmTree, clock: Clock) -> None:
    tree.add('amdgpu_gaming')
    opened = backend(tree, clock)
    (tree.root / 'sys/devices/0000:08:00.0').rename(tree.root / 'elsewhere')
    (reading,) = opened.survey()
    assert (reading.problem, reading.uuid) == ('is no longer there', GAMING)


def gfx(client: int, nanoseconds: int, *, memory: int = 1000) -> list[str]:
    return [
        'drm-driver:\tamdgpu',
        f'drm-client-id:\t{client}',
        'drm-pdev:\t0000:08:00.0',
        f'drm-memory-vram:\t{memory}',
        f'drm-engine-gfx:\t{nanoseconds} ns',
    ]


def test_how_busy_the_gpu_was_with_each_process(tree: DrmTree, clock: Clock) -> None:
    tree.add('amdgpu_gaming')
    tree.end(1002)
    tree.client(1001, 99, gfx(1, 0))
    tree.client(1001, 100, gfx(2, 5_000_000_000))
    tree.client(1003, 5, gfx(3, 7_000_000_000))
    opened = backend(tree, clock)
    assert [process.utilization for process in opened.processes(GAMING)] == [None, None]
    clock.now += 2
    tree.client(1001, 99, gfx(1, 500_000_000))
    tree.client(1001, 100, gfx(2, 5_300_000_000))
    assert [(process.pid, process.utilization) for process in opened.processes(GAMING)] == [(1001, 40), (1003, 0)]


def test_how_busy_the_gpu_was_with_a_rocm_process_is_not_known(tree: DrmTree, clock: Clock) -> None:
    tree.add('amdgpu_compute')
    opened = backend(tree, clock)
    opened.processes(MI300X[0])
    clock.now += 1
    assert [process.utilization for process in opened.processes(MI300X[0])] == [None]
    assert [opened.utilization(uuid) for uuid in MI300X] == [97.0, 0.0]


def test_memory_of_which_the_driver_does_not_say_where_it_is_is_unknown(tree: DrmTree, clock: Clock) -> None:
    tree.add('amdgpu_compute')
    opened = backend(tree, clock)
    known = [(process.pid, process.memory) for process in opened.read(MI300X[0]).processes or ()]
    assert opened.take_messages() == []
    tree.client(2001, 5, ['drm-driver:\tamdgpu', 'drm-client-id:\t9', 'drm-memory-vram:\t3000000 KiB'])
    for uuid in MI300X[:2]:
        processes = opened.read(uuid).processes or ()
        assert [(process.pid, process.memory) for process in processes if process.pid == 2001] == [(2001, None)]
    assert [(process.pid, process.memory) for process in opened.read(MI300X[0]).processes or ()] == [
        *known,
        (2001, None),
    ]
    ((level, text),) = opened.take_messages()
    assert level == 'warning'
    assert text.startswith('A GPU driver does not say on which GPU a process of this run has its memory')


def xe_cycles(tree: DrmTree, pid: int, client: int, busy: int, passed: int) -> None:
    lines = [
        'drm-driver:\txe',
        f'drm-client-id:\t{client}',
        'drm-pdev:\t0000:03:00.0',
        'drm-resident-vram0:\t4 KiB',
        f'drm-cycles-ccs:\t{busy}',
        f'drm-total-cycles-ccs:\t{passed}',
        'drm-engine-capacity-ccs:\t4',
    ]
    tree.client(pid, 5, lines)


def test_a_run_reads_the_processes_of_its_tree_alone(tree: DrmTree, clock: Clock) -> None:
    tree.add('xe')
    xe_cycles(tree, 1001, 3, 0, 1000)
    xe_cycles(tree, 2001, 4, 0, 1000)
    opened = backend(tree, clock)
    opened.follow(frozenset({2001}))
    assert listed(opened.read(XE_CARD).processes) == [(2001, 4096, False)]
    assert opened.utilization(XE_CARD) is None
    xe_cycles(tree, 1001, 3, 4000, 2000)
    xe_cycles(tree, 2001, 4, 1000, 2000)
    reading = opened.read(XE_CARD)
    assert (reading.memory_total, reading.memory_used) == (17_079_205_888, None)
    assert [(process.pid, process.utilization) for process in reading.processes or ()] == [(2001, 25)]
    assert opened.utilization(XE_CARD) == 25.0
    label = 'GPU 1 (intel-0000:03:00.0, xe)'
    assert opened.take_messages() == [
        ('info', f'{label} does not report how much of its memory is in use.'),
        ('info', f'{label} does not report how busy it is; its utilization is that by the tracked processes alone.'),
    ]
    assert opened.take_messages() == []


FOREIGN = """
import json, os, sys
from gpu_tracker.gpus.constraints import FREE, status_of
from gpu_tracker.gpus.drm.backend import DrmBackend
from gpu_tracker.gpus.request import Request
from gpu_tracker.gpus.selection import choose
from gpu_tracker.resources.gpu.figures import GpuFigures

backend = DrmBackend(sys.argv[1], '/proc')
figures = GpuFigures(backend, None)
os.setuid(65534)
memory, busy = [], []
for descendants in ((), (1,), ()):
    figures.read(os.getpid(), frozenset(descendants), 0)
    totals = figures.totals()
    memory.append([totals[group] for group in ('main', 'descendants', 'combined')])
    busy.append(backend.utilization(totals['devices'][0]['uuid']))
print(json.dumps([memory, busy, [gpu['combined'] for gpu in totals['devices']], backend.take_messages()]))
"""


@as_root
def test_the_memory_of_a_run_is_unknown_once_one_of_its_processes_was_another_users(tree: DrmTree) -> None:
    tree.add('amdgpu_gaming')
    text = (
        'Only root may see what processes of other users have of GPUs of AMD, Intel and others. Some processes of this '
        'run are of other users: the memory that it has of these GPUs is unknown.'
    )
    memory, _, of_gpus, messages = answer(FOREIGN, tree.root / 'sys')
    assert memory == [[0, 0, 0], [0, None, None], [0, None, None]]
    assert of_gpus == [None]
    assert [said for level, said in messages if level == 'warning'] == [text]


@as_root
def test_how_busy_a_run_makes_a_gpu_is_unknown_while_one_of_its_processes_is_another_users(tree: DrmTree) -> None:
    tree.add('xe')
    _, busy, _, _ = answer(FOREIGN, tree.root / 'sys')
    assert busy == [None, None, 0.0]  # the first reading has nothing to be compared with


def test_a_gpu_that_reports_no_utilization_is_as_busy_as_all_processes_make_it(tree: DrmTree, clock: Clock) -> None:
    tree.add('xe')
    xe_cycles(tree, 1001, 3, 0, 1000)
    xe_cycles(tree, 2001, 4, 0, 1000)
    opened = backend(tree, clock)
    assert [one.utilization for one in opened.survey()] == [None, None]
    xe_cycles(tree, 1001, 3, 1600, 2000)
    xe_cycles(tree, 2001, 4, 1000, 2000)
    clock.now += 1
    assert [one.utilization for one in opened.survey()] == [0.0, 65.0]


def test_the_utilization_of_a_run_is_the_mean_of_its_readings(tree: DrmTree, clock: Clock) -> None:
    tree.add('amdgpu_gaming')
    figures_of_run = GpuFigures(backend(tree, clock), None, wall_clock=clock)
    for busy, seconds in ((99, 0.0), (60, 0.5), (20, 0.5), (40, 0.25)):
        clock.now += seconds
        tree.set('card1/device/gpu_busy_percent', busy)
        figures_of_run.read(1001, frozenset({1002}), 0)
    totals = figures_of_run.totals()
    assert (totals['max_sum'], totals['mean_sum']) == (60.0, pytest.approx(40.0))
    assert (totals['main'], totals['descendants']) == (3_649_044_480, 557_494_272)


@pytest.mark.parametrize(('case', 'uuid', 'percent'), [('xe', XE_CARD, 0.0), ('nouveau', 'drm-0000:02:00.0', None)])
def test_without_a_process_a_gpu_is_idle_if_its_driver_is_known_to_write_the_time_of_engines(
    tree: DrmTree, clock: Clock, case: str, uuid: str, percent: float | None
) -> None:
    tree.add([line for line in dump(case) if line.startswith('/sys/')])
    opened = backend(tree, clock)
    opened.follow(frozenset({1001}))
    for _ in range(3):
        opened.read(uuid)
        clock.now += 1
    assert opened.utilization(uuid) == percent


def test_a_process_that_leaves_and_one_that_comes(tree: DrmTree, clock: Clock) -> None:
    tree.add('amdgpu_gaming')
    opened = backend(tree, clock)
    opened.follow(frozenset({1001, 1002, 1003}))
    assert [process.pid for process in opened.read(GAMING).processes or ()] == [1001, 1002]
    tree.end(1001)
    tree.client(1003, 5, gfx(77, 0))
    assert listed(opened.read(GAMING).processes) == [(1002, 557_494_272, False), (1003, 1000, False)]


def test_several_gpus_are_read_with_one_look_at_the_processes(tree: DrmTree, clock: Clock) -> None:
    tree.add('amdgpu_compute')
    opened = backend(tree, clock)
    assert listed(opened.read(MI300X[0]).processes) == [(1001, 2_800_001_024, True)]
    tree.end(1001)
    assert listed(opened.read(MI300X[1]).processes) == [(1001, 20_480, True)]
    assert listed(opened.read(MI300X[0]).processes) == []
    assert listed(opened.read(MI300X[1]).processes) == []


def test_what_no_driver_has(tree: DrmTree, clock: Clock) -> None:
    tree.add('amdgpu_gaming')
    opened = backend(tree, clock)
    opened.watch_errors()
    assert opened.peak_memory(GAMING, 1001) is None
    assert opened.energy(GAMING) is None
    assert [gpu.name for gpu in opened.details()] == ['AMD GPU 0x73bf']
    opened.close()


def test_energy_is_joules(tree: DrmTree, clock: Clock) -> None:
    tree.add('xe')
    assert backend(tree, clock).energy(XE_CARD) == 987.654321


def test_a_gpu_on_a_chip_whose_driver_has_two_names(tree: DrmTree, clock: Clock) -> None:
    tree.add([f'/sys/class/drm/{name}/device/uevent:DRIVER=adreno' for name in ('card0', 'renderD128')])
    tree.client(1001, 5, ['drm-driver:\tmsm', 'drm-client-id:\t1', 'drm-resident-memory:\t8 KiB'])
    assert [listed(one.processes) for one in backend(tree, clock).survey()] == [[(1001, 8192, True)]]


@pytest.mark.parametrize('case', CASES)
def test_a_gpu_is_shown_as_free_where_a_choice_of_its_brand_gives_it(case: str, tree: DrmTree, clock: Clock) -> None:
    tree.add(case)
    driver = backend(tree, clock)
    driver.survey()
    clock.now += 1.0
    gpus = driver.survey()
    shown = [gpu.uuid for gpu in gpus if status_of(gpu) == FREE]
    given = [
        gpu.uuid for brand in {gpu.gpu.vendor for gpu in gpus} for gpu in choose(gpus, Request(brands=(brand,))).chosen
    ]
    assert shown == given
