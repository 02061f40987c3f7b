"""What is said where no GPU driver is at work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_tracker.gpus.absence import why_no_driver

if TYPE_CHECKING:
    from pathlib import Path

SEE_NO_DRIVER = 'See "gpu-tracker explain no-gpu-driver".'
NO_LIBRARY = (
    "NVIDIA's kernel module is loaded, but the library libnvidia-ml.so.1 or the GPU devices are missing. "
    'In a container, use docker run --gpus all, or in Kubernetes a limit on nvidia.com/gpu. '
    "On a machine, install the driver's package. "
    'See "gpu-tracker explain driver-library".'
)


@pytest.mark.parametrize(
    ('brands', 'text'),
    [
        (None, f'no GPU driver is installed or loaded on this machine. {SEE_NO_DRIVER}'),
        (('nvidia',), f'no driver of NVIDIA GPUs is installed or loaded on this machine. {SEE_NO_DRIVER}'),
        (('amd', 'intel'), f'no driver of AMD or Intel GPUs is installed or loaded on this machine. {SEE_NO_DRIVER}'),
    ],
)
def test_a_machine_without_a_driver(tmp_path: Path, brands: tuple[str, ...] | None, text: str) -> None:
    assert why_no_driver(brands, str(tmp_path)) == text


def test_a_container_that_was_started_without_the_gpus_of_its_machine(tmp_path: Path) -> None:
    module = tmp_path / 'proc' / 'driver' / 'nvidia'
    module.mkdir(parents=True)
    (module / 'version').write_text('NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14\n')
    assert why_no_driver(None, str(tmp_path)) == NO_LIBRARY
    assert why_no_driver(('amd', 'nvidia'), str(tmp_path)) == NO_LIBRARY
    assert why_no_driver(('intel',), str(tmp_path)) == (
        f'no driver of Intel GPUs is installed or loaded on this machine. {SEE_NO_DRIVER}'
    )
