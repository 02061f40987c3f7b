"""The control group and the container of a process, from what the kernel says of its groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_tracker.control_groups.places import groups_of
from gpu_tracker.cuda_probe.devices.control_groups import accounting_group, container_of

if TYPE_CHECKING:
    from pathlib import Path

ID = '0123456789abcdef' * 4
POD = f'/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{"1234abcd" * 4}.slice'


@pytest.mark.parametrize(
    ('path', 'container'),
    [
        (f'/system.slice/docker-{ID}.scope', ID),
        (f'/docker/{ID}', ID),
        (f'{POD}/cri-containerd-{ID}.scope', ID),
        (f'{POD}/crio-{ID}.scope/container', ID),
        (f'/kubepods/besteffort/pod0a1b/{ID}', ID),
        (f'/system.slice/containerd.service/kubepods-pod1.slice:cri-containerd:{ID}', ID),
        (f'/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope', ID),
        (f'/docker/{"f" * 64}/docker/{ID}', ID),
        (f'/ecs/{"ab" * 16}/{"ab" * 16}-1234567890', f'{"ab" * 16}-1234567890'),
        ('/', None),
        ('/user.slice/user-1000.slice/session-3.scope', None),
        (f'/build/{ID}0', None),
        (f'{POD}', None),
    ],
)
def test_the_id_of_a_container_is_found_in_the_path_of_its_group(path: str, container: str | None) -> None:
    assert container_of(path) == container


@pytest.mark.parametrize(
    ('lines', 'path'),
    [
        ('0::/system.slice/train.service\n', '/system.slice/train.service'),
        ('5:memory:/docker/a\n3:cpu,cpuacct:/\n0::/\n', '/docker/a'),
        ('5:memory:/\n0::/user.slice\n', '/user.slice'),
        ('2:memory:/slurm/job_7 (deleted)\n1:name=systemd:/user.slice\n', '/slurm/job_7'),
        ('0::/\n', '/'),
        ('3:cpu:/x\n', None),
        ('', None),
    ],
)
def test_a_process_is_accounted_to_one_group(tmp_path: Path, lines: str, path: str | None) -> None:
    (tmp_path / '7').mkdir()
    (tmp_path / '7' / 'cgroup').write_text(lines)
    group = accounting_group(groups_of(7, str(tmp_path)))
    assert (None if group is None else group.path) == path
