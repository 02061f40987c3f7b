from __future__ import annotations

import pytest

from gpu_tracker.gpus.visible_devices import counts_otherwise, find, visible
from support.gpus.brief_gpus import gpu, lost, mig, split

GPUS = [
    gpu(0, uuid='GPU-aaaa-1'),
    gpu(1, uuid='GPU-aaab-2'),
    split(2, mig(0, 'MIG-c0'), mig(1, 'MIG-c1'), uuid='GPU-cccc-3'),
    lost(3),
]
PARTS = ['GPU 2 MIG 0', 'GPU 2 MIG 1']
ALL = ['GPU 0', 'GPU 1', 'GPU 2', *PARTS, 'GPU 3']


@pytest.mark.parametrize(
    ('value', 'left'),
    [
        (None, ALL),
        ('', []),
        ('-1', []),
        ('NoDevFiles', []),
        ('0', ['GPU 0']),
        ('1,0', ['GPU 0', 'GPU 1']),
        (' 1 , 0 ', ['GPU 0', 'GPU 1']),
        ('0,-1,1', ['GPU 0']),
        ('0,9,1', ['GPU 0']),
        ('0,,1', ['GPU 0']),
        ('0,0', ['GPU 0']),
        ('2', ['GPU 2', *PARTS]),
        ('GPU-cccc', ['GPU 2', *PARTS]),
        ('gpu-cccc', []),
        ('GPU-CCCC', ['GPU 2', *PARTS]),
        ('GPU-aaa', []),  # two GPUs begin so
        ('GPU-aaab,GPU-aaaa', ['GPU 0', 'GPU 1']),
        ('MIG-c1', ['GPU 2 MIG 1']),
        ('MIG-c', []),
        ('MIG-c0,MIG-c1', PARTS),
        ('3', ['GPU 3']),
    ],
)
def test_the_variable_is_read_as_cuda_reads_it(value: str | None, left: list[str]) -> None:
    assert [device.label for device in visible(GPUS, value)] == left


def test_find() -> None:
    assert find(GPUS, '1') is GPUS[1]
    assert find(GPUS, 'MIG-c0') is GPUS[2].mig_devices[0]
    assert find(GPUS, '4') is None
    assert find(GPUS, '²') is None
    assert find(GPUS, '\u0661') is None  # a digit of another script
    assert find(GPUS, '9' * 5000) is None
    assert find(GPUS, '01') is GPUS[1]
    assert find(GPUS, '00') is GPUS[0]
    assert find(GPUS, '') is None


@pytest.mark.parametrize(
    ('value', 'order', 'expected'),
    [
        (None, None, False),
        ('0', None, True),
        ('0', 'FASTEST_FIRST', True),
        ('0', 'PCI_BUS_ID', False),
        ('GPU-aaaa', None, False),
    ],
)
def test_unlike_gpus_may_be_counted_otherwise(value: str | None, order: str | None, expected: bool) -> None:
    unlike = [gpu(0), gpu(1, name='Model B')]
    assert counts_otherwise(unlike, value, order) is expected
    assert not counts_otherwise([gpu(0), gpu(1)], value, order)
