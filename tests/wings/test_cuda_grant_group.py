"""Devices granted to a control group of version 1 that the test makes, with the numbers of /dev/null and its kin."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.control_groups.places import mounts
from gpu_tracker.cuda_probe.devices.control_groups import DEVICES, DeviceNumbers
from gpu_tracker.cuda_probe.devices.grant import plan
from gpu_tracker.cuda_probe.devices.grant_plan import apply, report
from gpu_tracker.errors import GrantError
from support.cli_program import PROGRAM, gpu_tracker
from support.gpus.gpu_machine import NO_SUCH_PROCESS, words_as_nobody
from support.tracked_program import as_root, environment
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMORY = DeviceNumbers(1, ('nvidia',))
"""Stands in for the GPUs: /dev/null is 1:3."""

# Answers each line with whether /dev/null can be opened; its standard streams are pipes.
_OPENER = """
import os, sys
for _ in sys.stdin:
    try:
        os.close(os.open('/dev/null', os.O_RDWR))
        print('opened', flush=True)
    except PermissionError:
        print('denied', flush=True)
"""


class Opener:
    """A process that tries to open /dev/null when asked."""

    def __init__(self) -> None:
        words = [sys.executable, '-ISc', _OPENER]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.pid = self._process.pid

    def opens(self) -> bool:
        self._process.stdin.write('?\n')
        return self._process.stdout.readline() == 'opened\n'

    def close(self) -> None:
        with self._process:
            self._process.send_signal(signal.SIGKILL)


def _hierarchy() -> Path:
    """Return where the devices controller of version 1 is mounted; skip where it is not, as in a group of version 2."""
    found = [mount.point for mount in mounts() if mount.kind == 'cgroup' and DEVICES in mount.options]
    if not found:
        pytest.skip('this machine has no devices controller of cgroup version 1')
    if not os.access(found[0], os.W_OK):
        pytest.skip('needs root, or the right to change control groups')
    return Path(found[0])


class Group:
    """A control group with one process in it, which is gone when the test ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.process = Opener()
        (folder / 'cgroup.procs').write_text(f'{self.process.pid}\n')

    def rules(self) -> set[str]:
        return set((self.folder / 'devices.list').read_text().splitlines())

    def deny(self, rule: str) -> None:
        (self.folder / 'devices.deny').write_text(rule)

    def allow(self, rule: str) -> None:
        (self.folder / 'devices.allow').write_text(rule)

    def opens(self) -> bool:
        return self.process.opens()

    def plan(self):
        return plan(self.process.pid, devices=[MEMORY])

    def close(self) -> None:
        self.process.close()
        eventually(lambda: _is_removed(self.folder))


def _is_removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except OSError:  # the kernel still counts the process that has ended
        return False
    return True


@pytest.fixture
def group() -> Iterator[Group]:
    with contextlib.closing(Group(_hierarchy() / f'gpu-tracker-test-{os.getpid()}')) as made:
        yield made


def undo(commands: tuple[str, ...]) -> None:
    subprocess.run(['/bin/sh', '-ec', '\n'.join(commands)], check=True, timeout=TIMEOUT)


pytestmark = as_root


def test_a_process_can_open_what_its_group_was_granted_and_not_after_that_was_undone(group: Group) -> None:
    group.deny('a')
    assert not group.opens()
    made = group.plan()
    assert not group.opens()
    apply(made)
    assert group.opens()
    assert group.rules() == {'c 1:* rwm'}
    assert group.plan().steps == ()
    undo(made.undo)
    assert not group.opens()
    assert group.rules() == set()


def test_undoing_leaves_what_was_allowed_before(group: Group) -> None:
    group.deny('a')
    for rule in ('c 1:* r', 'c 1:5 rw', 'c 5:* rwm'):
        group.allow(rule)
    before = group.rules()
    made = group.plan()
    apply(made)
    assert group.opens()
    undo(made.undo)
    assert not group.opens()
    assert group.rules() == before


def test_the_report_has_the_commands(group: Group) -> None:
    group.deny('a')
    assert report(group.plan(), is_done=False) == (
        f'Process {group.process.pid} ({_name()}) is in the control group {group.folder} (version 1).\n'
        'Devices:\n'
        '  nvidia (character devices 1:*)\n'
        'To be done:\n'
        f"  echo 'c 1:* rwm' > {group.folder}/devices.allow\n"
        'To undo it:\n'
        f"  echo 'c 1:* rwm' > {group.folder}/devices.deny\n"
        'Note: this concerns every process of the control group.\n'
    )


def _name() -> str:
    return os.path.basename(sys.executable)[:15]


def test_an_exception_of_a_group_that_allows_all_is_taken_away(group: Group) -> None:
    group.deny('c 1:3 rwm')
    assert not group.opens()
    assert group.rules() == {'a *:* rwm'}  # the kernel does not show it
    made = group.plan()
    assert 'echo' in made.undo[0]
    assert len(made.notes) == 2
    apply(made)
    assert group.opens()


def test_a_group_cannot_allow_what_the_one_above_denies(group: Group) -> None:
    group.deny('a')
    with contextlib.closing(Group(group.folder / 'inner')) as inner, pytest.raises(GrantError) as raised:
        inner.plan()
    assert str(raised.value) == (
        f'the control group {group.folder}/inner cannot allow devices that its parent group {group.folder} denies: '
        'nvidia (character devices 1:*). Allow these devices in the parent first, which affects all child groups:\n'
        f"  echo 'c 1:* rwm' > {group.folder}/devices.allow"
    )


def test_what_the_kernel_refuses_is_told_with_what_was_done_before(group: Group) -> None:
    group.deny('a')
    with contextlib.closing(Group(group.folder / 'inner')) as inner:
        group.allow('c 1:* rwm')
        group.allow('c 5:* rwm')
        made = plan(inner.process.pid, devices=[MEMORY, DeviceNumbers(5, ('nvidia-uvm',))])
        group.deny('c 5:* rwm')
        with pytest.raises(GrantError) as raised:
            apply(made)
    assert str(raised.value) == (
        f"the kernel refuses 'c 5:* rwm' in {inner.folder}/devices.allow: this process lacks CAP_SYS_ADMIN, or a "
        'parent control group denies these devices and must allow them first\n'
        'Done before:\n'
        f"  echo 'c 1:* rwm' > {inner.folder}/devices.allow"
    )


def test_the_program_grants_what_the_driver_has_registered(group: Group, tmp_path: Path) -> None:
    group.deny('a')
    listing = tmp_path / 'devices'
    listing.write_text('Character devices:\n  1 nvidia\n  1 nvidiactl\n  4 tty\n\nBlock devices:\n  7 nvidia-uvm\n')
    script = 'mount --bind "$1" /proc/devices; shift; "$@" --dry-run >&2; exec "$@"'
    words = ['unshare', '--mount', 'sh', '-ec', script, 'sh', str(listing)]
    finished = subprocess.run(
        [*words, *PROGRAM, 'grant-devices', f'--pid={group.process.pid}'],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert finished.returncode == 0
    assert '  nvidia, nvidiactl (character devices 1:*)\n' in finished.stdout
    assert '\nDone:\n' in finished.stdout
    assert finished.stderr == finished.stdout.replace('\nDone:\n', '\nTo be done:\n')
    assert group.opens()


def test_the_root_group_has_nothing_to_grant() -> None:
    _hierarchy()
    with contextlib.closing(Opener()) as process:
        if f':{DEVICES}:/\n' not in Path(f'/proc/{process.pid}/cgroup').read_text():
            pytest.skip('this machine runs the tests in a group below the root control group')
        with pytest.raises(GrantError) as raised:
            plan(process.pid, devices=[MEMORY])
        assert str(raised.value) == (
            f'process {process.pid} is in the root control group, which allows all devices: there is nothing to grant'
        )


def test_only_root_can_do_it(group: Group) -> None:
    group.deny('a')
    text = (
        'from gpu_tracker.cuda_probe.devices.control_groups import DeviceNumbers\n'
        'from gpu_tracker.cuda_probe.devices.grant import plan\n'
        'from gpu_tracker.cuda_probe.devices.grant_plan import apply\n'
        'from gpu_tracker.errors import GrantError\n'
        'import sys\n'
        'try:\n'
        "    apply(plan(int(sys.argv[1]), devices=[DeviceNumbers(1, ('nvidia',))]))\n"
        'except GrantError as error:\n'
        '    print(error)\n'
    )
    words = words_as_nobody(sys.executable, '-c', text, str(group.process.pid))
    told = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=TIMEOUT, check=True)
    assert told.stdout == 'only root can change the control group of a process; --dry-run shows what would be done\n'
    assert not group.opens()


def test_a_machine_without_the_driver_has_nothing_to_grant() -> None:
    if any('nvidia' in line for line in Path('/proc/devices').read_text().splitlines()):
        pytest.skip("this machine has NVIDIA's driver")
    finished = gpu_tracker('grant-devices', f'--pid={os.getpid()}')
    assert (finished.returncode, finished.stdout, finished.stderr) == (
        125,
        '',
        "gpu-tracker: no NVIDIA device is registered in /proc/devices: the driver's modules are not loaded\n",
    )


def test_a_process_that_does_not_exist_is_told() -> None:
    finished = gpu_tracker('grant-devices', f'--pid={NO_SUCH_PROCESS}', '--dry-run')
    assert (finished.returncode, finished.stdout) == (125, '')
    assert finished.stderr == (
        f"gpu-tracker: --pid must be the ID of a running process, not '{NO_SUCH_PROCESS}'. It has ended, "
        'or it is in a container and has another ID there. See "gpu-tracker explain no-such-process".\n'
    )


@pytest.mark.parametrize('given', ['0', '-5', 'init', '1_0', ''])
def test_a_wrong_process_id_is_told(given: str) -> None:
    finished = gpu_tracker('grant-devices', f'--pid={given}')
    assert finished.returncode == 125
    assert finished.stderr == f'gpu-tracker: --pid must be a positive whole number, not {given!r}\n'


@pytest.mark.parametrize('given', [[], ['--dry-run']])
def test_a_process_has_to_be_given(given: list[str]) -> None:
    finished = gpu_tracker('grant-devices', *given)
    assert (finished.returncode, finished.stdout) == (125, '')
    assert finished.stderr == (
        'gpu-tracker: --pid is missing. Usage:\n  gpu-tracker grant-devices --pid=<pid> [--dry-run]\n'
        "Try 'gpu-tracker grant-devices --help'.\n"
    )


def test_the_version_is_told_as_by_every_command() -> None:
    assert gpu_tracker('grant-devices', '-v').stdout == gpu_tracker('grant-devices', '--version').stdout != ''
