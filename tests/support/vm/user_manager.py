"""systemd's manager of an ordinary user in the virtual machine, with the bus by which it is asked.

The machine has no systemd as its first process: the groups that this would make for the user, a session and the
manager's own, are made by hand, as after a login.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.vm import GROUPS, ORDINARY_USER
from support.waiting import eventually

if TYPE_CHECKING:
    from support.vm import VirtualMachine

PROGRAMS = ('/usr/bin/busctl', '/usr/bin/dbus-daemon', '/lib/systemd/systemd')
"""What the machine needs for it: Debian's packages systemd and dbus-daemon."""

_RUNTIME = f'/run/user/{ORDINARY_USER}'
_SLICE = f'{GROUPS}/user.slice'
_OF_USER = f'{_SLICE}/user-{ORDINARY_USER}.slice'
_OF_MANAGER = f'{_OF_USER}/user@{ORDINARY_USER}.service'
SESSION = f'{_OF_USER}/session-1.scope'
"""The folder of the group of a login."""
SCOPES = f'{_OF_MANAGER}/app.slice'
"""Where the manager makes scopes."""
ENVIRONMENT = {'XDG_RUNTIME_DIR': _RUNTIME, 'DBUS_SESSION_BUS_ADDRESS': f'unix:path={_RUNTIME}/bus', 'HOME': '/tmp'}

_UNIT = '[Unit]\nDefaultDependencies=no\n'
_BUS = '/etc/bus.conf'
_FILES = {
    '/etc/passwd': f'root:x:0:0::/:/bin/sh\nuser:x:{ORDINARY_USER}:{ORDINARY_USER}::/tmp:/bin/sh\n',
    '/etc/machine-id': f'{"0" * 31}1\n',
    '/run/systemd/system/is-there': '',
    '/usr/lib/systemd/user/default.target': f'{_UNIT}Requires=dbus.socket\n',
    '/usr/lib/systemd/user/dbus.socket': f'{_UNIT}[Socket]\nListenStream=%t/bus\n',
    '/usr/lib/systemd/user/dbus.service': (
        f'{_UNIT}Requires=dbus.socket\n[Service]\nType=notify\nNotifyAccess=main\n'
        f'ExecStart=/usr/bin/dbus-daemon --config-file={_BUS} --address=systemd: --nofork --nopidfile'
        ' --systemd-activation\n'
    ),
    _BUS: (
        '<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"'
        ' "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">'
        '<busconfig><type>session</type><listen>unix:path=/tmp/unused</listen><policy context="default">'
        '<allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy></busconfig>'
    ),
}
_START = """
import os, subprocess, sys
log = open('/tmp/user-manager', 'w')
subprocess.Popen(['/lib/systemd/systemd', '--user'], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
"""


def start(machine: VirtualMachine) -> None:
    """Start the manager, and wait until it can be asked."""
    for path, text in _FILES.items():
        machine.put(path, text)
    machine.run(
        ['python', '-c', f"import os; os.makedirs('{_RUNTIME}'); os.chown('{_RUNTIME}', *2 * [{ORDINARY_USER}])"]
    )
    machine.write(f'{GROUPS}/cgroup.subtree_control', '+memory +pids')
    for folder, owner in ((_SLICE, 0), (_OF_USER, ORDINARY_USER)):
        machine.make_group(folder, owner=owner)
        machine.write(f'{folder}/cgroup.subtree_control', '+memory +pids')
    for folder in (_OF_MANAGER, SESSION):
        machine.make_group(folder, owner=ORDINARY_USER)
    machine.run(['python', '-c', _START], user=ORDINARY_USER, group=_OF_MANAGER, environment=ENVIRONMENT)
    eventually(lambda: _answers(machine))


def stop(machine: VirtualMachine) -> None:
    """End it, and all that it has started, and remove the groups, and what shows that systemd has booted it."""
    machine.write(f'{_SLICE}/cgroup.kill', '1')
    eventually(lambda: 'populated 0' in machine.read(f'{_SLICE}/cgroup.events'))
    machine.remove_group(_SLICE)
    machine.write(f'{GROUPS}/cgroup.subtree_control', '-memory -pids')
    machine.run(['python', '-c', "import shutil; shutil.rmtree('/run/systemd')"])


def _answers(machine: VirtualMachine) -> bool:
    words = ['busctl', '--user', 'get-property', 'org.freedesktop.systemd1', '/org/freedesktop/systemd1']
    return (
        machine.run(
            [*words, 'org.freedesktop.systemd1.Manager', 'Version'], user=ORDINARY_USER, environment=ENVIRONMENT
        ).code
        == 0
    )
