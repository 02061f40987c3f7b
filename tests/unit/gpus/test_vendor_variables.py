"""What AMD's and Intel's variables leave, and what is set for a command; NVIDIA's is in test_gpus_visible_devices."""

from __future__ import annotations

import pytest

from gpu_tracker.gpus.vendor_variables import settings_for, visible_of
from support.gpus.brief_gpus import gpu, mig, split

AMD = [
    gpu(n, vendor='amd', uuid=uuid) for n, uuid in enumerate(('GPU-' + 'a' * 16, 'GPU-' + 'b' * 16, 'amd-0000:c3:00.0'))
]
INTEL = [gpu(n, vendor='intel', uuid=f'intel-{n}') for n in range(3)]
NVIDIA = [gpu(0, vendor='nvidia', uuid='GPU-n0'), split(1, mig(0, 'MIG-a'), vendor='nvidia', uuid='GPU-n1')]
OTHERS = [gpu(0, vendor='drm', uuid='drm-0000:01:00.0')]


def left(vendor, gpus, **environment):
    return [one.number for one in visible_of(vendor, gpus, environment).devices]


@pytest.mark.parametrize(
    ('environment', 'expected'),
    [
        ({}, [0, 1, 2]),
        ({'ROCR_VISIBLE_DEVICES': '1'}, [1]),
        ({'ROCR_VISIBLE_DEVICES': '2, 0'}, [2, 0]),
        ({'ROCR_VISIBLE_DEVICES': f'GPU-{"b" * 16},0'}, [1, 0]),
        ({'ROCR_VISIBLE_DEVICES': 'GPU-b'}, [1]),
        ({'ROCR_VISIBLE_DEVICES': '0,7,1'}, [0]),
        ({'ROCR_VISIBLE_DEVICES': '0,0'}, [0]),
        ({'ROCR_VISIBLE_DEVICES': ''}, []),
        ({'ROCR_VISIBLE_DEVICES': '-1'}, []),
        ({'HIP_VISIBLE_DEVICES': '2'}, [2]),
        ({'HIP_VISIBLE_DEVICES': ''}, [0, 1, 2]),
        ({'HIP_VISIBLE_DEVICES': '-1'}, []),
        ({'HIP_VISIBLE_DEVICES': '9' * 5000}, []),
        ({'HIP_VISIBLE_DEVICES': '0,3'}, [0]),
        ({'HIP_VISIBLE_DEVICES': f'GPU-{"b" * 16}'}, [1]),
        ({'CUDA_VISIBLE_DEVICES': '1'}, [1]),
        ({'HIP_VISIBLE_DEVICES': '0', 'CUDA_VISIBLE_DEVICES': '1'}, [0]),
        ({'HIP_VISIBLE_DEVICES': '', 'CUDA_VISIBLE_DEVICES': '1'}, [1]),
        ({'ROCR_VISIBLE_DEVICES': '1,2', 'HIP_VISIBLE_DEVICES': '0'}, [1]),
        ({'ROCR_VISIBLE_DEVICES': '2,1', 'HIP_VISIBLE_DEVICES': '0'}, [2]),
        ({'ROCR_VISIBLE_DEVICES': '1', 'HIP_VISIBLE_DEVICES': '1'}, []),
        ({'GPU_DEVICE_ORDINAL': '0,2'}, [0, 2]),
        ({'ROCR_VISIBLE_DEVICES': '0,1', 'GPU_DEVICE_ORDINAL': '1', 'HIP_VISIBLE_DEVICES': '1,0'}, [1]),
        ({'ZE_AFFINITY_MASK': '0'}, [0, 1, 2]),
    ],
)
def test_amds_variables_are_layers(environment: dict[str, str], expected: list[int]) -> None:
    assert left('amd', AMD, **environment) == expected


@pytest.mark.parametrize(
    ('mask', 'expected'),
    [
        ('', [0, 1, 2]),
        ('1', [1]),
        ('2,0', [0, 2]),
        ('0.1, 0.0', [0]),
        ('1.0,7', [1]),
        ('7', []),
    ],
)
def test_intels_mask_names_cards_and_parts_of_them(mask: str, expected: list[int]) -> None:
    assert left('intel', INTEL, ZE_AFFINITY_MASK=mask, CUDA_VISIBLE_DEVICES='') == expected
    assert left('intel', INTEL) == [0, 1, 2]


LAPTOP = [INTEL[0]._replace(gpu=INTEL[0].gpu._replace(is_integrated=True)), *INTEL[1:]]
SERVER = [one._replace(gpu=one.gpu._replace(tiles=2)) for one in INTEL]
ORDERED = {'ZE_ENABLE_PCI_ID_DEVICE_ORDER': '1'}


@pytest.mark.parametrize(
    ('mask', 'environment', 'expected'),
    [
        ('0', ORDERED, [0]),
        ('0', {}, []),  # in PCI bus order the integrated one, in the order of Intel's driver the first card
        ('0', {'ZE_ENABLE_PCI_ID_DEVICE_ORDER': '0'}, []),
        ('0,1', {}, [1]),
        ('2', {}, []),
        ('0,1,2', {}, [0, 1, 2]),
        ('7', {}, []),
    ],
)
def test_intels_mask_beside_an_integrated_gpu_leaves_what_it_leaves_in_each_order(
    mask: str, environment: dict[str, str], expected: list[int]
) -> None:
    assert left('intel', LAPTOP, ZE_AFFINITY_MASK=mask, **environment) == expected


@pytest.mark.parametrize(
    ('mask', 'hierarchy', 'expected'),
    [
        ('1', 'COMPOSITE', [1]),
        ('1', 'FLAT', [0]),
        ('2,5', 'FLAT', [1, 2]),
        ('2,5', 'COMBINED', [1, 2]),
        ('0.1', 'FLAT', []),
        ('2.1', 'COMPOSITE', [2]),
        ('1', None, []),
        ('0', None, [0]),
        ('0,1,2', None, [0, 1]),
    ],
)
def test_intels_mask_counts_cards_or_their_tiles(mask: str, hierarchy: str | None, expected: list[int]) -> None:
    environment = {} if hierarchy is None else {'ZE_FLAT_DEVICE_HIERARCHY': hierarchy}
    assert left('intel', SERVER, ZE_AFFINITY_MASK=mask, **environment) == expected


def test_what_is_not_certain_of_intels_mask_is_said() -> None:
    uncertain = (
        'ZE_AFFINITY_MASK=0, whose numbers are certain only where ZE_ENABLE_PCI_ID_DEVICE_ORDER=1 and '
        'ZE_FLAT_DEVICE_HIERARCHY are set'
    )
    assert visible_of('intel', LAPTOP, {'ZE_AFFINITY_MASK': '0'}).text == uncertain
    assert visible_of('intel', LAPTOP, {'ZE_AFFINITY_MASK': '0', **ORDERED}).text == 'ZE_AFFINITY_MASK=0'
    assert visible_of('intel', INTEL, {'ZE_AFFINITY_MASK': '0'}).text == 'ZE_AFFINITY_MASK=0'


def test_the_variables_that_leave_gpus_out_are_named() -> None:
    environment = {'ROCR_VISIBLE_DEVICES': '0,1', 'CUDA_VISIBLE_DEVICES': '0', 'GPU_DEVICE_ORDINAL': ''}
    assert visible_of('amd', AMD, environment).text == 'ROCR_VISIBLE_DEVICES=0,1 CUDA_VISIBLE_DEVICES=0'
    assert visible_of('nvidia', NVIDIA, environment).text == 'CUDA_VISIBLE_DEVICES=0'
    assert visible_of('drm', OTHERS, environment) == (OTHERS, (), '')


def test_a_command_on_nvidia_gets_indices_in_pci_bus_order_or_uuids() -> None:
    assert settings_for(NVIDIA[:1], {}, by_uuid=False).variables == {
        'CUDA_VISIBLE_DEVICES': '0',
        'CUDA_DEVICE_ORDER': 'PCI_BUS_ID',
    }
    assert settings_for(NVIDIA[1].mig_devices, {}, by_uuid=True).variables['CUDA_VISIBLE_DEVICES'] == 'MIG-a'


def test_a_command_on_amd_gets_uuids_where_rocr_knows_all_of_them() -> None:
    assert settings_for([AMD[1], AMD[0]], {'HIP_VISIBLE_DEVICES': '5'}, by_uuid=False).variables == {
        'ROCR_VISIBLE_DEVICES': f'GPU-{"b" * 16},GPU-{"a" * 16}',
        'HIP_VISIBLE_DEVICES': '0,1',
        'GPU_DEVICE_ORDINAL': None,
    }
    assert settings_for(AMD[1:], {}, by_uuid=False).variables['ROCR_VISIBLE_DEVICES'] == '1,2'


def test_a_command_on_amd_sees_what_was_chosen_and_nothing_else() -> None:
    environment = {'ROCR_VISIBLE_DEVICES': '0', 'CUDA_VISIBLE_DEVICES': '2', 'GPU_DEVICE_ORDINAL': '2'}
    changes = settings_for([AMD[2], AMD[1]], environment, by_uuid=False).variables
    set_for_it = {name: value for name, value in (environment | changes).items() if value is not None}
    assert left('amd', AMD, **set_for_it) == [2, 1]


def test_a_command_on_intel_gets_whole_cards_in_pci_bus_order() -> None:
    assert settings_for([INTEL[2]], {}, by_uuid=True) == (
        {'ZE_AFFINITY_MASK': '2', 'ZE_ENABLE_PCI_ID_DEVICE_ORDER': '1', 'ZE_FLAT_DEVICE_HIERARCHY': 'COMPOSITE'},
        (),
    )
    settings = settings_for([INTEL[2]], {'ZE_FLAT_DEVICE_HIERARCHY': 'FLAT'}, by_uuid=True)
    assert 'ZE_FLAT_DEVICE_HIERARCHY' not in settings.variables
    (remark,) = settings.remarks
    assert remark == (
        'ZE_FLAT_DEVICE_HIERARCHY=FLAT: where a GPU has several tiles, ZE_AFFINITY_MASK counts these, and may give '
        'other GPUs to the command'
    )


def test_a_command_on_several_vendors_gets_the_variables_of_each() -> None:
    chosen = [NVIDIA[0], AMD[1], INTEL[0], OTHERS[0]]
    settings = settings_for(chosen, {}, by_uuid=False)
    assert settings.variables == {
        'CUDA_VISIBLE_DEVICES': '0',
        'CUDA_DEVICE_ORDER': 'PCI_BUS_ID',
        'ROCR_VISIBLE_DEVICES': f'GPU-{"b" * 16}',
        'HIP_VISIBLE_DEVICES': '0',
        'GPU_DEVICE_ORDINAL': None,
        'ZE_AFFINITY_MASK': '0',
        'ZE_ENABLE_PCI_ID_DEVICE_ORDER': '1',
        'ZE_FLAT_DEVICE_HIERARCHY': 'COMPOSITE',
    }
    assert settings.remarks == ('no variable restricts a command to DRM GPU 0',)
