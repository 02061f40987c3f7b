"""GPUs of DRM drivers, found in a folder as of sysfs, and the figures that stand there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_tracker.gpus.drm import open_backend
from gpu_tracker.gpus.drm.devices import Device, devices
from gpu_tracker.gpus.drm.names import product_name
from gpu_tracker.gpus.drm.sensors import Sensors
from gpu_tracker.gpus.opening import BACKENDS, DRM_ROOT
from support.gpus.drm_tree import DrmTree

if TYPE_CHECKING:
    from pathlib import Path

AMDGPU_IDS = """\
# List of AMDGPU IDs
1.0.0
73BF,	C1,	AMD Radeon RX 6800 XT
73BF,	C3,	AMD Radeon RX 6800
"""
PCI_IDS = """\
# some comment
0010  Allied Telesis, Inc (Wrong ID)
\t73bf  Not this one
1002  Advanced Micro Devices, Inc. [AMD/ATI]
\t163f  VanGogh [AMD Custom GPU 0405]
\t73bf  Navi 21 [Radeon RX 6800/6800 XT / 6900 XT]
\t\t1002 0e3a  Radeon RX 6900 XT
10de  NVIDIA Corporation
\t1f97  TU117M [GeForce MX450]
8086  Intel Corporation
\t56a0  DG2 [Arc A770]
\t64a0  Lunar Lake

C 00  Unclassified device
"""


@pytest.fixture
def tree(tmp_path: Path) -> DrmTree:
    return DrmTree(tmp_path)


def found(tree: DrmTree, vendors: frozenset[str] | None = None) -> list[Device]:
    return devices(f'{tree.root}/sys', f'{tree.root}/usr/share', vendors)


def gpu(tree: DrmTree, node: int, slot: str, driver: str, *more: str, pci_id: str = '1002:73BF') -> None:
    about = [f'uevent:DRIVER={driver}', f'uevent:PCI_ID={pci_id}', f'uevent:PCI_SLOT_NAME={slot}', *more]
    names = f'card{node}', f'renderD{128 + node}'
    tree.add([f'/sys/class/drm/{name}/device/{line}' for name in names for line in about])


def test_no_gpu_at_all(tree: DrmTree, tmp_path: Path) -> None:
    assert open_backend(root=str(tree.root)) is None
    assert open_backend(root=str(tmp_path / 'nothing')) is None
    assert devices(str(tmp_path / 'nothing'), '') == []


def test_the_table_of_drivers_opens_what_the_variable_names(tree: DrmTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DRM_ROOT, str(tree.root))
    assert BACKENDS['drm']() is None
    gpu(tree, 0, '0000:03:00.0', 'amdgpu')
    opened = BACKENDS['drm']()
    assert opened is not None
    assert [one.uuid for one in opened.gpus()] == ['amd-0000:03:00.0']
    monkeypatch.setenv(DRM_ROOT, str(tree.root / 'nothing'))
    assert BACKENDS['drm']() is None


def test_a_card_without_a_render_node_only_has_a_screen(tree: DrmTree) -> None:
    about = ['uevent:DRIVER=ast', 'uevent:PCI_ID=1A03:2000', 'uevent:PCI_SLOT_NAME=0000:02:00.0']
    tree.add([f'/sys/class/drm/card0/device/{line}' for line in about])
    assert open_backend(root=str(tree.root)) is None


@pytest.mark.parametrize('driver', ['nvidia', 'virtio-pci', 'vgem', 'vmwgfx'])
def test_drivers_that_say_nothing_of_processes_are_left_out(tree: DrmTree, driver: str) -> None:
    gpu(tree, 0, '0000:02:00.0', driver)
    assert open_backend(root=str(tree.root)) is None


def test_gpus_stand_in_pci_bus_order_and_are_counted_by_vendor(tree: DrmTree) -> None:
    gpu(tree, 0, '0000:c1:00.0', 'amdgpu')
    gpu(tree, 1, '0000:03:00.0', 'amdgpu')
    gpu(tree, 2, '0000:00:02.0', 'i915', pci_id='8086:9A49')
    gpu(tree, 3, '0000:02:00.0', 'nouveau', pci_id='10DE:1F97')
    assert [(one.vendor, one.number, one.uuid) for one in found(tree)] == [
        ('intel', 0, 'intel-0000:00:02.0'),
        ('drm', 0, 'drm-0000:02:00.0'),
        ('amd', 0, 'amd-0000:03:00.0'),
        ('amd', 1, 'amd-0000:c1:00.0'),
    ]
    assert [one.uuid for one in found(tree, frozenset({'intel', 'drm'}))] == ['intel-0000:00:02.0', 'drm-0000:02:00.0']
    assert open_backend(frozenset({'nothing'}), root=str(tree.root)) is None


def test_a_gpu_on_a_chip_is_no_pci_device(tree: DrmTree) -> None:
    tree.add([f'/sys/class/drm/{name}/device/uevent:DRIVER=panfrost' for name in ('card0', 'renderD128')])
    (one,) = found(tree)
    assert (one.key, one.vendor, one.uuid, one.name) == ('panfrost', 'drm', 'drm-platform-gpu', 'panfrost GPU')
    assert (one.pci_bus_id, one.is_integrated) == (None, True)


def test_the_unique_id_of_amdgpu_is_the_uuid_as_rocm_has_it(tree: DrmTree) -> None:
    gpu(tree, 0, '0000:03:00.0', 'amdgpu', 'unique_id:5a9f3c1e7b2d4860')
    assert found(tree)[0].uuid == 'GPU-5a9f3c1e7b2d4860'


@pytest.mark.parametrize(
    ('driver', 'slot', 'more', 'is_integrated'),
    [
        ('amdgpu', '0000:04:00.0', ['hwmon/hwmon4/in1_label:vddnb'], True),
        ('amdgpu', '0000:04:00.0', ['hwmon/hwmon4/in0_label:vddgfx'], False),
        ('amdgpu', '0000:04:00.0', [], False),
        ('i915', '0000:00:02.0', [], True),
        ('i915', '0000:00:05.0', ['hwmon/hwmon2/energy1_input:7'], False),
        ('xe', '0000:00:02.0', ['tile0/gt0/freq0/act_freq:800'], True),
        ('xe', '0000:00:05.0', ['tile0/physical_vram_size_bytes:17079205888'], False),
        ('xe', '0000:03:00.0', [], False),
        ('nouveau', '0000:01:00.0', [], False),
    ],
)
def test_which_gpus_are_integrated(tree: DrmTree, driver: str, slot: str, more: list[str], is_integrated: bool) -> None:
    gpu(tree, 0, slot, driver, *more)
    assert found(tree)[0].is_integrated is is_integrated


@pytest.mark.parametrize(
    ('vendor', 'device', 'revision', 'name'),
    [
        ('1002', '73bf', '0xc1', 'AMD Radeon RX 6800 XT'),
        ('1002', '73bf', '0xC3', 'AMD Radeon RX 6800'),
        ('1002', '73bf', '0x00', 'AMD Radeon RX 6800/6800 XT / 6900 XT'),
        ('1002', '163f', '0xae', 'AMD Custom GPU 0405'),
        ('8086', '56a0', '0x08', 'Intel Arc A770'),
        ('8086', '64a0', None, 'Intel Lunar Lake'),
        ('10de', '1f97', '0xa1', 'NVIDIA GeForce MX450'),
        ('8086', 'ffff', '0x00', None),
        ('', '', None, None),
    ],
)
def test_names_of_products(tmp_path: Path, vendor: str, device: str, revision: str | None, name: str | None) -> None:
    for path, text in (('libdrm/amdgpu.ids', AMDGPU_IDS), ('misc/pci.ids', PCI_IDS)):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(text)
    assert product_name(str(tmp_path), vendor, device, revision) == name


def test_rocms_own_list_of_products_is_read_where_no_other_is_installed(tmp_path: Path) -> None:
    for path in ('usr/share', 'opt/amdgpu/share/libdrm'):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / 'opt/amdgpu/share/libdrm/amdgpu.ids').write_text(AMDGPU_IDS)
    assert product_name(f'{tmp_path}/usr/share', '1002', '73bf', '0xc3') == 'AMD Radeon RX 6800'


@pytest.mark.parametrize(('mode', 'name'), [('SPX', 'MI300X'), ('CPX', 'MI300X (CPX)')])
def test_a_card_that_is_divided_says_so(tree: DrmTree, mode: str, name: str) -> None:
    gpu(tree, 0, '0000:03:00.0', 'amdgpu', 'product_name:MI300X', f'current_compute_partition:{mode}')
    assert found(tree)[0].name == name


def test_names_where_no_list_is_installed(tree: DrmTree) -> None:
    gpu(tree, 0, '0000:03:00.0', 'amdgpu')
    gpu(tree, 1, '0000:04:00.0', 'amdgpu', 'product_name:AMD Instinct MI300X OAM')
    gpu(tree, 2, '0000:05:00.0', 'xe', pci_id='8086:56A0')
    gpu(tree, 3, '0000:06:00.0', 'nouveau', pci_id='10DE:1F97')
    assert [one.name for one in found(tree)] == [
        'AMD GPU 0x73bf',
        'AMD Instinct MI300X OAM',
        'Intel GPU 0x56a0',
        'nouveau GPU 0x1f97',
    ]


def test_a_gpu_that_sleeps_is_not_asked(tree: DrmTree) -> None:
    tree.add('amdgpu_gaming')
    sensors = Sensors(found(tree)[0])
    assert (sensors.utilization(), sensors.temperature(), sensors.power()) == (73.0, 63.0, 187.0)
    tree.set('card1/device/power/runtime_status', 'suspended')
    assert (sensors.utilization(), sensors.memory_utilization()) == (0.0, None)
    assert (sensors.temperature(), sensors.power(), sensors.clock(), sensors.energy()) == (None, None, None, None)
    assert sensors.memory() == (17_163_091_968, 4_294_967_296)
    tree.set('card1/device/power/runtime_status', 'active')
    assert sensors.utilization() == 73.0


def test_figures_are_those_of_now(tree: DrmTree) -> None:
    tree.add('amdgpu_gaming')
    sensors = Sensors(found(tree)[0])
    assert sensors.memory()[1] == 4_294_967_296
    tree.set('card1/device/mem_info_vram_used', 5_000_000_000)
    tree.set('card1/device/gpu_busy_percent', 4)
    assert (sensors.memory()[1], sensors.utilization()) == (5_000_000_000, 4.0)
    tree.set('card1/device/gpu_busy_percent', '')
    assert sensors.utilization() is None


def test_power_is_the_mean_or_the_latest_figure_and_no_limit_is_none(tree: DrmTree) -> None:
    gpu(tree, 0, '0000:03:00.0', 'amdgpu', 'hwmon/hwmon0/power1_input:5030000', 'hwmon/hwmon0/power1_cap:0')
    sensors = Sensors(found(tree)[0])
    assert (sensors.power(), sensors.power_limit()) == (5.03, None)


def test_the_memory_of_two_tiles_is_added_up(tree: DrmTree) -> None:
    sizes = [f'tile{tile}/physical_vram_size_bytes:1000' for tile in range(2)]
    gpu(tree, 0, '0000:03:00.0', 'xe', *sizes, pci_id='8086:0BD5')
    assert Sensors(found(tree)[0]).memory() == (2000, None)
    assert found(tree)[0].tiles == 2


def test_a_card_of_intel_in_a_virtual_machine_is_known_by_its_memory(tree: DrmTree) -> None:
    gpu(tree, 0, '0000:00:05.0', 'i915', pci_id='8086:56C0')
    tree.set('card0/lmem_total_bytes', 14_000_000_000)
    (card,) = found(tree)
    assert (card.is_integrated, Sensors(card).memory()) == (False, (14_000_000_000, None))
