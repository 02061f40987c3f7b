"""SIGHUP: servers read certificates, secrets and hosts again, and go on."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import ssl
from typing import TYPE_CHECKING

import pytest

from support.fleet.agent_program import agent
from support.fleet.dashboard_program import Dashboard
from support.fleet.web_certificates import Certificates
from support.gpus.gpu_machine import GB, Machine
from support.simulated_nvml import Gpu
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.machine(gpus=[Gpu(uuid='GPU-a', total=GB)])]

DONE = 'gpu-tracker: SIGHUP: certificates, secrets and hosts were read again\n'
NOBODY = 'http://127.0.0.1:9'


def reload(shown: Dashboard, times: int = 1) -> None:
    shown.process.send_signal(signal.SIGHUP)
    eventually(lambda: shown.log.count(DONE) == times)


def test_a_dashboard_asks_other_hosts_and_forgets_nothing_of_those_that_stay(machine: Machine, tmp_path: Path) -> None:
    config = tmp_path / 'cluster.toml'
    with agent(machine) as served:
        kept = f"{{url = '{served.url}', name = 'node02'}}"
        config.write_text(f"hosts = ['{NOBODY}', {kept}]\ninterval_seconds = 0.5\n")
        with Dashboard(f'--config={config}', '--deadline=60', changes=machine.environment()) as shown:
            before = shown.until(['down', 'up'])[1]
            past = f'/api/v1/history?host={before["id"]}&seconds=600'
            keys = shown.json(past)['gpus'].keys()
            assert keys
            config.write_text(f"hosts = [{kept}, 'self']\ninterval_seconds = 0.5\n")
            reload(shown)
            after, here = shown.until(['up', 'up'])
            assert (after['id'], after['name'], after['gpus']) == (before['id'], 'node02', before['gpus'])
            assert here['gpus'] == before['gpus']
            assert here['id'] not in {before['id'], '0'}  # another host than that which was the first before
            assert shown.json(past)['gpus'].keys() == keys
            assert shown.json('/sd') == [
                {'targets': [served.url.removeprefix('http://')], 'labels': {'__scheme__': 'http', 'name': 'node02'}}
            ]
            config.write_text("hosts = ['nonsense']\n")
            shown.process.send_signal(signal.SIGHUP)
            eventually(lambda: f'gpu-tracker: SIGHUP: nothing changes: {config}' in shown.log)
            assert [host['id'] for host in shown.until(['up', 'up'])] == [after['id'], here['id']]
            assert shown.end() == 0


def test_passwords_change_for_those_who_are_connected_too(tmp_path: Path) -> None:
    passwords = tmp_path / 'passwords'
    passwords.write_text('ann:correct horse\n')
    passwords.chmod(0o600)
    first, second = (
        {'Authorization': f'Basic {base64.b64encode(pair).decode()}'}
        for pair in (b'ann:correct horse', b'ben:battery staple')
    )
    with Dashboard(f'--password-file={passwords}') as shown, shown.asked('/api/v1/events', **first) as stream:
        assert stream.status == 200
        stream.readline()
        assert [shown.get('/', **of)[0] for of in (first, second)] == [200, 401]
        passwords.write_text('ben:battery staple\n')
        reload(shown)
        assert [shown.get('/', **of)[0] for of in (first, second)] == [401, 200]
        while stream.readline():
            pass  # it ends


def test_a_renewed_certificate_is_served(machine: Machine, tmp_path: Path) -> None:
    made = Certificates(tmp_path)
    other = made.authority.signed('renewed')
    certificate, key = tmp_path / 'served.pem', tmp_path / 'served.key'
    shutil.copy(made.server, certificate)
    shutil.copy(made.server_key, key)
    with agent(machine, f'--tls-cert={certificate}', f'--tls-key={key}') as served:
        port = int(served.url.rpartition(':')[2])

        def certificate_served() -> str:
            return ssl.get_server_certificate(('127.0.0.1', port))

        assert certificate_served() in made.server.read_text()
        shutil.copy(other, certificate)
        shutil.copy(other.with_suffix('.key'), key)
        served.process.send_signal(signal.SIGHUP)
        assert eventually(lambda: certificate_served() in other.read_text())
        key.write_text('none\n')
        served.process.send_signal(signal.SIGHUP)
        assert served.process.stderr.readline() == DONE
        assert served.process.stderr.readline().startswith('gpu-tracker: SIGHUP: nothing changes: --tls-key: ')
        assert certificate_served() in other.read_text()
        served.process.terminate()
        assert served.process.wait() == 0


def read_by_nobody_else(fifo: Path) -> int | None:
    """Return a descriptor that keeps who reads a FIFO waiting; None while nobody has opened it."""
    try:
        return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[tuple[Dashboard, Path]]:
    """Give a dashboard that reads its password file again, which does not end."""
    passwords = tmp_path / 'passwords'
    passwords.write_text('ann:correct horse\n')
    passwords.chmod(0o600)
    with Dashboard(f'--password-file={passwords}') as shown:
        passwords.unlink()
        os.mkfifo(passwords, 0o600)
        shown.process.send_signal(signal.SIGHUP)
        writer = eventually(lambda: read_by_nobody_else(passwords))
        try:
            yield shown, passwords
        finally:
            os.close(writer)


@pytest.mark.parametrize(('number', 'status'), [(signal.SIGTERM, 0), (signal.SIGINT, -signal.SIGINT)])
def test_a_server_ends_while_a_reload_hangs(
    hanging: tuple[Dashboard, Path], number: signal.Signals, status: int
) -> None:
    shown, _ = hanging
    assert shown.end(number) == status


def test_another_reload_takes_the_place_of_one_that_hangs(hanging: tuple[Dashboard, Path]) -> None:
    shown, passwords = hanging
    passwords.unlink()
    passwords.write_text('ben:battery staple\n')
    passwords.chmod(0o600)
    reload(shown)
    ben = {'Authorization': f'Basic {base64.b64encode(b"ben:battery staple").decode()}'}
    assert shown.get('/', **ben)[0] == 200
    assert 'SIGHUP: the reload before this one was given up, since it had not read all files yet\n' in shown.log
    assert shown.end() == 0
