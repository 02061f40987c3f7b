from __future__ import annotations

import pytest

from gpu_tracker.idle.config.idle_settings import GpuId, Program
from gpu_tracker.idle.running.guardian_protocol import LaunchError, Orders, command_for, orders_for, visible_devices
from gpu_tracker.idle.state import WatchedGpu

FIRST, SECOND = WatchedGpu(GpuId(0), 'GPU-a'), WatchedGpu(GpuId(1), 'GPU-b')
UNKNOWN = WatchedGpu(GpuId(2))
MIG, UNKNOWN_MIG = WatchedGpu(GpuId(5, 1), 'MIG-c'), WatchedGpu(GpuId(5, 0))


def program(*command: str, **options: object) -> Program:
    return Program('train', None, command, '/srv', **options)


@pytest.mark.parametrize(
    ('gpus', 'use_uuids', 'value'),
    [
        ((), False, ''),
        ((FIRST,), False, '0'),
        ((FIRST, SECOND), False, '0,1'),
        ((FIRST, SECOND), True, 'GPU-a,GPU-b'),
        ((FIRST, UNKNOWN), True, '0,2'),
        ((MIG,), False, 'MIG-c'),
        ((FIRST, MIG), False, 'GPU-a,MIG-c'),
    ],
)
def test_gpus_are_named_to_cuda(gpus: tuple[WatchedGpu, ...], use_uuids: bool, value: str) -> None:
    assert visible_devices(gpus, use_uuids=use_uuids) == value


@pytest.mark.parametrize(('gpus', 'unknown'), [((UNKNOWN_MIG,), '5:0'), ((UNKNOWN, MIG), '2')])
def test_mig_devices_need_uuids(gpus: tuple[WatchedGpu, ...], unknown: str) -> None:
    with pytest.raises(LaunchError) as caught:
        visible_devices(gpus, use_uuids=False)
    assert str(caught.value) == f'the UUID of GPU {unknown} is unknown, and CUDA selects MIG devices only by UUID'


def test_only_the_placeholder_is_replaced_in_a_command() -> None:
    words = ('run', '--gpu={gpu}', '{gpu}{gpu}', '{}', '{GPU}', '{gpus}', '{{gpu}}', '$' + '{gpu}')
    assert command_for(program(*words), (FIRST, MIG)) == (
        'run',
        '--gpu=0,5:1',
        '0,5:10,5:1',
        '{}',
        '{GPU}',
        '{gpus}',
        '{0,5:1}',
        '$0,5:1',
    )


def test_the_environment_is_the_monitors_then_the_programs_then_that_of_cuda() -> None:
    section = program('run', environment=(('A', '2'), ('CUDA_DEVICE_ORDER', 'FASTEST_FIRST')))
    inherited = {'A': '1', 'B': '1', 'CUDA_VISIBLE_DEVICES': '7'}
    orders = orders_for(section, [FIRST], inherited, 'GPU 0 is idle')
    assert orders.environment == {'A': '2', 'B': '1', 'CUDA_VISIBLE_DEVICES': '0', 'CUDA_DEVICE_ORDER': 'PCI_BUS_ID'}
    assert (orders.command, orders.gpus, orders.reason) == (('run',), (FIRST,), 'GPU 0 is idle')
    assert inherited == {'A': '1', 'B': '1', 'CUDA_VISIBLE_DEVICES': '7'}


@pytest.mark.parametrize(
    ('gpus', 'names', 'uuids'),
    [
        ((FIRST,), 'GPU 0', ('GPU-a',)),
        ((FIRST, SECOND), 'GPUs 0, 1', ('GPU-a', 'GPU-b')),
        ((FIRST, UNKNOWN), 'GPUs 0, 2', None),
        ((MIG,), 'GPU 5:1', None),
        ((FIRST, MIG), 'GPUs 0, 5:1', None),
    ],
)
def test_gpus_are_named_in_logs_and_to_the_tracker(
    gpus: tuple[WatchedGpu, ...], names: str, uuids: tuple[str, ...] | None
) -> None:
    orders = Orders(program=program('run'), command=('run',), environment={}, gpus=gpus, reason='')
    assert (orders.gpu_names, orders.uuids) == (names, uuids)
