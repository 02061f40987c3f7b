"""What opening the GPUs of a run looks at before it imports anything."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.gpus.opening import DRM_ROOT, backends_of, open_drm
from support.gpus.drm_tree import DrmTree, devices_beside, dump
from support.tracked_program import answer, environment

if TYPE_CHECKING:
    from pathlib import Path

ON_DRIVERS = """
import json, sys
from gpu_tracker.gpus.opening import open_drm
print(json.dumps([open_drm() is None, [name for name in sys.modules if name.startswith('gpu_tracker.gpus.drm')]]))
"""

ON_NO_DRIVER = """
import json, sys
before = set(sys.modules)
from gpu_tracker.gpus.opening import open_gpus
gpus = open_gpus()
print(json.dumps([gpus is None, sorted(name for name in set(sys.modules) - before if 'gpus' in name or 'lib' in name)]))
"""


def card(root: Path, node: str, driver: str) -> None:
    """Add a render node whose device has a driver."""
    device = root / 'sys/devices' / node
    (device / 'drm' / node).mkdir(parents=True)
    (device / 'drm' / node / 'device').symlink_to('../..')
    (device / 'driver').symlink_to(f'../../bus/pci/drivers/{driver}')
    folder = root / 'sys/class/drm'
    folder.mkdir(parents=True, exist_ok=True)
    (folder / node).symlink_to(f'../../devices/{node}/drm/{node}')


@pytest.mark.skipif(sys.platform != 'linux', reason='this machine does not run Linux')
@pytest.mark.parametrize('nodes', [(), ('renderD128',), ('renderD128', 'renderD129')])
def test_beside_nvidias_own_driver_nothing_is_imported(tmp_path: Path, nodes: tuple[str, ...]) -> None:
    for node in nodes:
        card(tmp_path, node, 'nvidia')
    assert answer(ON_DRIVERS, env=environment({DRM_ROOT: str(tmp_path)})) == [True, []]


def test_a_gpu_of_another_driver_beside_it_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = DrmTree(tmp_path)
    tree.add(dump('amdgpu_gaming'))
    card(tree.root, 'renderD200', 'nvidia')
    for name, value in tree.environment().items():
        monkeypatch.setenv(name, value)
    backend = open_drm()
    assert backend is not None
    assert [gpu.vendor for gpu in backend.gpus()] == ['amd']
    assert open_drm(frozenset({'intel'})) is None
    backend.close()


def test_brands_open_the_drivers_that_serve_them_in_the_order_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = DrmTree(tmp_path)
    tree.add(dump('amdgpu_gaming'))
    tree.add(devices_beside('nouveau'))
    monkeypatch.setenv(DRM_ROOT, str(tree.root))
    assert list(backends_of(['intel', 'amd', 'nvidia'])) == ['nvidia', 'drm']
    assert list(backends_of(['nvidia'])) == ['nvidia']
    vendors = {}
    for brands in (['amd'], ['intel'], ['drm'], ['amd', 'intel'], ['amd', 'drm']):
        backend = backends_of(brands)['drm']()
        vendors[' '.join(brands)] = [] if backend is None else sorted(gpu.vendor for gpu in backend.gpus())
    assert vendors == {
        'amd': ['amd'],
        'intel': [],
        'drm': ['amd', 'drm'],
        'amd intel': ['amd'],
        'amd drm': ['amd', 'drm'],
    }


@pytest.mark.skipif(sys.platform != 'linux', reason='this machine does not run Linux')
@pytest.mark.skipif(os.path.exists('/dev/nvidiactl'), reason='this machine has a GPU of NVIDIA')
def test_without_a_driver_little_is_imported(tmp_path: Path) -> None:
    found = answer(ON_NO_DRIVER, env=environment({DRM_ROOT: str(tmp_path)}))
    assert found == [
        True,
        ['gpu_tracker.gpus', 'gpu_tracker.gpus.backend', 'gpu_tracker.gpus.nvidia', 'gpu_tracker.gpus.opening'],
    ]
