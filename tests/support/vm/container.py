"""A container in the virtual machine, as crun makes it from the settings that Docker has for an image.

Its root file system has the folders of the machine's own. What Docker sets otherwise, and no test of control groups
needs, is left out: networks, seccomp and the list of devices.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from support.vm import GROUPS, initrd

if TYPE_CHECKING:
    from collections.abc import Sequence

    from support.vm import Completed, VirtualMachine

CRUN = '/usr/bin/crun'
"""What the machine needs for it: Debian's package crun."""
GROUP = f'{GROUPS}/docker'
"""The group in which those of containers are."""
OWN_GROUP = f'{GROUP}/box'

_BUNDLE = '/tmp/box'
_NOT_SHARED = {'dev', 'proc', 'run', 'sys', 'tmp'}
_NAMESPACES = ('pid', 'network', 'ipc', 'uts', 'mount', 'cgroup')
_CAPABILITIES = ('CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'KILL', 'MKNOD', 'SETGID', 'SETUID', 'SYS_CHROOT')


def run(machine: VirtualMachine, words: Sequence[str], *, is_privileged: bool = False) -> Completed:
    """Run a command as the first process of a container, to its end.

    :param is_privileged: The control groups can be written there, as with ``docker run --privileged``.
    """
    known = {'python': [initrd.PYTHON], 'gpu-tracker': [initrd.PYTHON, '-m', 'gpu_tracker']}
    whole = [found for word in words for found in known.get(word, [word])]
    shared = [f'/{name}' for name in machine.names('/') if name not in _NOT_SHARED]
    machine.put(f'{_BUNDLE}/config.json', json.dumps(_configuration(whole, shared, 'rw' if is_privileged else 'ro')))
    machine.put(f'{_BUNDLE}/rootfs/etc/hostname', 'box\n')
    # The root of the machine is in memory, from which no process can move to another root.
    return machine.run([CRUN, '--cgroup-manager=cgroupfs', 'run', '--no-pivot', f'--bundle={_BUNDLE}', 'box'])


def _configuration(words: list[str], shared: list[str], access: str) -> dict[str, Any]:
    """Return the settings: runtime-spec, config.md and config-linux.md."""
    capabilities = [f'CAP_{name}' for name in [*_CAPABILITIES, *(['SYS_ADMIN'] if access == 'rw' else [])]]
    return {
        'ociVersion': '1.0.2',
        'hostname': 'box',
        'root': {'path': 'rootfs'},
        'process': {
            'user': {'uid': 0, 'gid': 0},
            'args': words,
            'cwd': '/tmp',
            'env': ['PATH=/usr/bin:/bin', f'PYTHONPATH={initrd.PACKAGES}'],
            'capabilities': dict.fromkeys(('bounding', 'effective', 'permitted'), capabilities),
        },
        'mounts': [
            _mount('proc', '/proc'),
            _mount('tmpfs', '/dev', 'mode=755'),
            _mount('tmpfs', '/dev/shm', 'mode=1777'),
            _mount('tmpfs', '/tmp', 'mode=1777'),
            _mount('sysfs', '/sys', 'ro'),
            _mount('cgroup', GROUPS, 'relatime', access),
            *({'destination': path, 'type': 'bind', 'source': path, 'options': ['rbind', 'ro']} for path in shared),
        ],
        'linux': {
            'namespaces': [{'type': name} for name in _NAMESPACES],
            'cgroupsPath': OWN_GROUP.removeprefix(GROUPS),
            'resources': {'memory': {'limit': 300_000_000}, 'pids': {'limit': 100}},
        },
    }


def _mount(kind: str, folder: str, *options: str) -> dict[str, Any]:
    return {'destination': folder, 'type': kind, 'source': kind, 'options': ['nosuid', *options]}
