"""How atopgpud begins, and what it says."""

from __future__ import annotations

import os
import signal
import socket
import subprocess

import pytest

from support.atop.atop_daemon import AtopDaemon
from support.atop.atopgpud_program import NO_LOG, Manager, OwnSocket, said, taken
from support.atop.honest_client import busy
from support.cli_program import PROGRAM, Marked
from support.gpus.gpu_machine import GIB
from support.own_network import TOOLS
from support.programs import need_program
from support.simulated_nvml import (
    DRIVER_NOT_LOADED,
    LIBRARY_NOT_FOUND,
    NO_PERMISSION,
    UNKNOWN,
    VERSION_MISMATCH,
    Failure,
    Gpu,
)
from support.tracked_program import as_root
from support.waiting import TIMEOUT, eventually

GPU = Gpu(name='NVIDIA H200', pci='00000000:17:00.0', total=80 * GIB, used=GIB, util=75, accounting=0)

MISMATCH = (
    'atopgpud: error: The NVIDIA driver and its library have different versions (NVML code 18), as after an update '
    'without a restart. GPU figures are unknown until you reload the driver or restart the machine. '
    'See "gpu-tracker explain driver-mismatch".'
)
BROKEN = (
    'atopgpud: error: The NVIDIA driver could not be initialized: it reports an unknown error (NVML code 999), as '
    'after a suspend or a crash of the driver. GPU figures are unknown. See "gpu-tracker explain driver-fails".'
)


pytestmark = [pytest.mark.machine(gpus=[GPU])]


def test_a_port_that_is_taken_is_an_error(machine) -> None:
    with socket.create_server(('127.0.0.1', 0)) as listener:
        port = listener.getsockname()[1]
        code, printed, errors = machine.told('atopgpud', f'--port={port}', f'--socket={OwnSocket().name}')
    assert (code, printed) == (1, '')
    assert said(errors) == [taken(f'port {port} of 127.0.0.1')]


def test_a_socket_that_is_taken_is_an_error_and_whoever_has_it_is_not_disturbed(machine) -> None:
    own = OwnSocket()
    with machine.started('atopgpud', *own.options, stderr=subprocess.DEVNULL):
        eventually(own.is_served)
        with own.client() as client:
            assert busy(client) == [75]
            code, printed, errors = machine.told('atopgpud', *own.options)
            assert (code, printed) == (1, '')
            assert said(errors) == [taken(f'the socket @{own.name}')]
            assert busy(client) == [75]
        assert own.is_served()


@pytest.mark.parametrize('code', [LIBRARY_NOT_FOUND, DRIVER_NOT_LOADED, None])
def test_without_a_gpu_it_ends_at_once_with_success_and_one_line(machine, code) -> None:
    machine.write(gpus=[GPU] if code else [], fail=[Failure('nvmlInit*', code)] if code else [])
    manager = Manager()
    ended, printed, errors = machine.told('atopgpud', *OwnSocket().options, env=manager.environment)
    assert (ended, printed) == (0, '')
    if NO_LOG in errors:  # else it went to the system log
        assert said(errors) == ['atopgpud: info: there is no GPU here, no driver or no library of it: nothing to do']
    assert manager.state() == 'READY=1'  # or else systemd would take it for failed
    manager.close()


def test_without_a_library_it_ends_at_once_with_success(machine, tmp_path) -> None:
    (tmp_path / 'broken').mkdir()
    (tmp_path / 'broken' / 'libnvidia-ml.so.1').touch()  # found before one that works
    env = {'LD_LIBRARY_PATH': str(tmp_path / 'broken')}
    assert machine.told('atopgpud', *OwnSocket().options, env=env)[:2] == (0, '')


@pytest.mark.parametrize(
    ('failure', 'message'),
    [
        (Failure('nvmlInit*', VERSION_MISMATCH), MISMATCH),
        (Failure('nvmlInit*', UNKNOWN), BROKEN),
        (Failure('nvmlDeviceGetCount*', UNKNOWN), BROKEN),
        (Failure('nvmlDeviceGetCount*', UNKNOWN, after=1), BROKEN),  # it stops working while it is opened
    ],
)
def test_a_driver_that_does_not_work_is_an_error(machine, failure, message) -> None:
    machine.write(gpus=[GPU], fail=[failure])
    code, printed, errors = machine.told('atopgpud', *OwnSocket().options)
    assert (code, printed) == (1, '')
    assert said(errors) == [message]


@as_root
def test_it_says_where_it_serves(machine, network) -> None:
    with AtopDaemon(machine, network=network) as daemon:
        assert said(daemon.log) == [
            'atopgpud: info: serving 1 GPU on 127.0.0.1:59123 (version 1) and @atopgpud_nvidia (versions 1 and 2)'
        ]


@as_root
def test_localhost_is_served_on_a_machine_without_ipv6(machine, network, tmp_path) -> None:
    (tmp_path / 'hosts').write_text('127.0.0.1 localhost\n::1 localhost\n')
    without_ipv6 = 'echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; mount --bind "$1" /etc/hosts; shift; exec "$@"'
    words = ['sh', '-c', without_ipv6, 'sh', str(tmp_path / 'hosts'), *PROGRAM, 'atopgpud', '--host=localhost']
    daemon = network.start('unshare', '--mount', *words, env=machine.environment(), stderr=subprocess.PIPE)
    assert daemon.stderr is not None
    assert next(line for line in daemon.stderr if not line.startswith(NO_LOG)) == (
        'atopgpud: info: serving 1 GPU on 127.0.0.1:59123 (version 1) and @atopgpud_nvidia (versions 1 and 2)\n'
    )


@as_root
def test_debug_messages_come_where_they_are_asked_for(machine, network) -> None:
    reading = (
        'atopgpud: debug: GPU 0 (NVIDIA H200, 00000000:17:00.0): 75 percent busy, 1073741824 bytes in use, 0 processes'
    )
    with AtopDaemon(machine, '-v', network=network) as daemon, daemon.over_tcp() as client:
        assert busy(client) == [75]
        lines = eventually(lambda: found if reading in (found := daemon.log.splitlines()) else [])
        assert 'atopgpud: debug: a client has come: 1 of its kind' in lines


@as_root
@pytest.mark.parametrize('in_background', [False, True])
def test_messages_go_to_the_system_log_where_there_is_one(machine, tmp_path, in_background) -> None:
    """In a mount namespace of its own, where ``/dev`` has nothing but what it needs here."""
    need_program(*TOOLS)
    devices = tmp_path / 'dev'
    devices.mkdir()
    (devices / 'null').touch()
    script = 'mount --bind /dev/null "$1"/null; mount --rbind "$1" /dev; shift; exec "$@"'
    options = [*OwnSocket().options, '--daemon' if in_background else '-f']
    words = ['unshare', '--mount', 'sh', '-c', script, 'sh', str(devices), *PROGRAM, 'atopgpud', *options]
    marked = Marked()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as system_log:
        system_log.settimeout(TIMEOUT)
        system_log.bind(str(devices / 'log'))
        with subprocess.Popen(words, env=machine.environment(marked.environment), stderr=subprocess.PIPE) as command:
            first = system_log.recv(10_000).decode()
            daemon = first.partition('[')[2].partition(']')[0]
            assert first.startswith(f'<30>atopgpud[{daemon}]: serving 1 GPU on 127.0.0.1:')
            assert (int(daemon) != command.pid) == in_background
            assert int(daemon) in marked.processes()
            os.kill(int(daemon), signal.SIGTERM)
            assert system_log.recv(10_000).decode() == f'<30>atopgpud[{daemon}]: ended by SIGTERM'
            assert command.communicate(timeout=TIMEOUT)[1] == b''
            assert command.returncode == 0
    eventually(lambda: not marked.processes())


@as_root
def test_accounting_mode_that_cannot_be_switched_on_is_told_and_keeps_nobody_from_serving(machine, network) -> None:
    machine.write(gpus=[GPU], fail=[Failure('nvmlDeviceSetAccountingMode', NO_PERMISSION)])
    with AtopDaemon(machine, '--enable-accounting', network=network) as daemon, daemon.over_tcp() as client:
        assert busy(client) == [75]
        assert said(daemon.log)[0] == (
            'atopgpud: warning: accounting mode of GPU 0 (NVIDIA H200, 00000000:17:00.0) could not be switched on: '
            'needs root (NVML code 4)'
        )


def test_without_the_option_no_setting_is_changed(machine) -> None:
    with AtopDaemon(machine) as daemon, daemon.over_tcp() as client:
        assert busy(client) == [75]
    assert [call for call in machine.driver.calls() if 'Set' in call] == []
