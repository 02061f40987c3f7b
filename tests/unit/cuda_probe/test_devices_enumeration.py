"""How CUDA numbers GPUs: each rule with literal values."""

from __future__ import annotations

import pytest

from gpu_tracker.cuda_probe.devices.enumeration import GpuAccess, numbered
from gpu_tracker.cuda_probe.devices.host_gpus import HostGpu, PhysicalGpu


def gpu(place: int, model: str | None = 'Model A', **fields: object) -> PhysicalGpu:
    usual = {'cores': 100, 'minor': place}
    return PhysicalGpu(f'GPU-{"abcdef"[place]}{place}00-1234', 'nvidia', model, '570', **(usual | fields))


def part(place: int, instance: int) -> PhysicalGpu:
    uuid = f'MIG-{place}{instance}00'
    return gpu(place)._replace(uuid=uuid, mig='1g.5gb', gpu_instance=instance, compute_instance=0)


ALIKE = [HostGpu(gpu(0)), HostGpu(gpu(1)), HostGpu(gpu(2)), HostGpu(gpu(3))]
UNLIKE = [HostGpu(gpu(0)), HostGpu(gpu(1, 'Model B'))]
DIVIDED = [HostGpu(gpu(0)), HostGpu(gpu(1), (part(1, 5), part(1, 6))), HostGpu(gpu(2))]
LOST = HostGpu(PhysicalGpu(None, 'nvidia', None, '570'))
ALL = GpuAccess(frozenset(range(8)))
UNKNOWN = GpuAccess()


def shown(
    gpus: list[HostGpu], value: str | None, access: GpuAccess = ALL, order: str | None = None
) -> list[str | None]:
    given = {'CUDA_VISIBLE_DEVICES': value, 'CUDA_DEVICE_ORDER': order}
    devices = numbered(gpus, access, {name: text for name, text in given.items() if text is not None})
    return [(device.uuid or '').partition('-1234')[0] for device in devices]


A, B, C, D = 'GPU-a000', 'GPU-b100', 'GPU-c200', 'GPU-d300'


@pytest.mark.parametrize(
    ('value', 'expected'),
    [
        (None, [A, B, C, D]),
        ('', []),
        ('-1', []),
        ('NoDevFiles', []),
        ('none', []),
        ('2', [C]),
        ('2,1', [C, B]),
        (' 2 , 1 ', [C, B]),
        ('+2', [C]),
        ('02', [C]),
        ('1gpu2,2ampere', [B, C]),
        ('0x1', []),
        ('0,2,-1,1', [A, C]),
        ('0,9,1', [A]),
        ('0,,1', [A]),
        ('9' * 5000, []),
        ('0,' + '9' * 5000, [A]),
        ('0,0', []),
        ('0,1,00', []),
        ('0,-1,0', [A]),
        ('GPU-c200-1234', [C]),
        ('GPU-c', [C]),
        ('GPU-C2', [C]),
        ('GPU-', []),  # each GPU begins so
        ('GPU-d,GPU-a', [D, A]),
        ('GPU-d, GPU-a', [D, A]),
        ('GPU-d,GPU-x,GPU-a', [D]),
        ('GPU-a,GPU-a000', []),  # the same one twice
        ('gpu-a', []),
        ('GPU-a,1', [A]),
        ('0,GPU-b', [A]),
        ('\u0661', []),  # a digit of another script
    ],
)
def test_the_variable_is_read_as_cuda_reads_it(value: str | None, expected: list[str]) -> None:
    assert shown(ALIKE, value) == expected


def test_unlike_gpus_have_no_known_order_unless_the_bus_is_told() -> None:
    assert shown(UNLIKE, None) == []
    assert shown(UNLIKE, '0') == []
    assert shown(UNLIKE, '0', order='FASTEST_FIRST') == []
    assert shown(UNLIKE, '1', order='PCI_BUS_ID') == [B]
    assert shown(UNLIKE, None, order='PCI_BUS_ID') == [A, B]
    assert shown(UNLIKE, 'GPU-b') == [B]


def test_gpus_of_one_name_with_other_numbers_of_cores_are_unlike() -> None:
    assert shown([HostGpu(gpu(0)), HostGpu(gpu(1, cores=90))], '0') == []


def test_gpus_without_a_name_are_taken_for_unlike() -> None:
    assert shown([HostGpu(gpu(0, None)), HostGpu(gpu(1, None))], '0') == []


def test_a_process_counts_only_the_gpus_that_it_can_open() -> None:
    access = GpuAccess(frozenset({1, 3}))
    assert shown(ALIKE, None, access) == [B, D]
    assert shown(ALIKE, '1', access) == [D]
    assert shown(ALIKE, 'GPU-d,GPU-a', access) == [D]
    assert shown(UNLIKE, None, GpuAccess(frozenset({1}))) == [B]


def test_where_it_is_not_known_what_a_process_can_open_only_uuids_tell() -> None:
    assert shown(ALIKE, None, UNKNOWN) == []
    assert shown(ALIKE, '0', UNKNOWN) == []
    assert shown(ALIKE, 'GPU-b,GPU-a', UNKNOWN) == [B, A]
    assert shown([HostGpu(gpu(0, minor=None)), HostGpu(gpu(1))], '0') == []


def test_the_only_gpu_is_that_of_whoever_computes() -> None:
    only = [HostGpu(gpu(0, None, minor=None))]
    assert shown(only, None, UNKNOWN) == [A]
    assert shown(only, '0', UNKNOWN) == [A]
    assert shown(only, '1', UNKNOWN) == []
    assert shown([HostGpu(gpu(2))], None, GpuAccess(frozenset({2}))) == [C]


def test_a_lost_gpu_leaves_the_order_unknown() -> None:
    assert shown([*ALIKE, LOST], '0') == []
    assert shown([*ALIKE, LOST], 'GPU-a') == [A]
    assert shown([LOST], None) == []


def test_a_mig_device_is_named_by_its_uuid_or_by_its_gpu_and_instances() -> None:
    assert shown(DIVIDED, 'MIG-1500') == ['MIG-1500']
    assert shown(DIVIDED, 'MIG-16') == ['MIG-1600']
    assert shown(DIVIDED, 'MIG-1') == []
    assert shown(DIVIDED, 'MIG-1600,MIG-1500') == ['MIG-1600', 'MIG-1500']
    assert shown(DIVIDED, 'MIG-GPU-b100-1234/6/0') == ['MIG-1600']
    assert shown(DIVIDED, 'MIG-GPU-b100-1234/6/1') == []
    assert shown(DIVIDED, 'MIG-GPU-a000-1234/6/0') == []
    assert shown(DIVIDED, 'MIG-GPU-x/6/0') == []


def test_which_of_several_mig_devices_cuda_takes_is_not_known() -> None:
    assert shown(DIVIDED, None) == []
    assert shown(DIVIDED, '0') == [A]
    assert shown(DIVIDED, '1') == []
    assert shown(DIVIDED, '2') == []  # nor how those behind a divided GPU are counted
    assert shown(DIVIDED, 'GPU-b') == []
    assert shown(DIVIDED, 'GPU-c,GPU-a') == [C, A]
    assert shown(DIVIDED, 'GPU-a,MIG-15') == []  # whole GPUs are left out beside a MIG device


def test_the_one_mig_device_that_a_container_has_is_its_device() -> None:
    access = GpuAccess(frozenset({1}), frozenset({(1, 6, 0)}))
    assert shown(DIVIDED, None, access) == ['MIG-1600']
    assert shown(DIVIDED, '0', access) == ['MIG-1600']
    assert shown(DIVIDED, 'GPU-b', access) == ['MIG-1600']
    assert shown(DIVIDED, 'MIG-15', access) == []
    assert shown(DIVIDED, None, GpuAccess(frozenset({0, 2}), frozenset())) == [A, C]


def test_a_gpu_in_mig_mode_without_a_mig_device_shows_nothing() -> None:
    assert shown([HostGpu(gpu(0), ())], None) == []
    assert shown([HostGpu(gpu(0), ())], '0') == []


def test_without_gpus_nothing_is_shown() -> None:
    assert shown([], None) == []
    assert shown([], '0') == []
