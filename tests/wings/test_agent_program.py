"""``gpu-tracker agent`` as a program: what it answers, and how it begins and ends."""

from __future__ import annotations

import gzip
import json
import os
import signal
import socket
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pytest

import gpu_tracker
from support.fleet.agent_program import AgentProgram, agent
from support.gpus.gpu_machine import GB, NO_SUCH_PROCESS, Machine, running, sees_all_processes
from support.simulated_nvml import UNKNOWN, Failure, Gpu, Hang, Mig, Process
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUICK = '--interval=0.25'
NO_DRIVER = (
    'gpu-tracker: no GPU driver is installed or loaded on this machine. See "gpu-tracker explain no-gpu-driver".\n'
)
IDLE = Gpu(name='NVIDIA H200', total=141 * GB, used=GB, util=3, temperature=31, sm_clock=345, power=75_000)


pytestmark = [pytest.mark.machine(gpus=[IDLE])]


class Shared(NamedTuple):
    """An agent that serves all tests of this file, and the machine whose state they write."""

    machine: Machine
    served: AgentProgram

    def show(self, *gpus: Gpu) -> None:
        """Give the machine these GPUs, and wait until the agent has read them.

        All have the same name: it cannot change while the driver is open.
        """
        self.machine.write(gpus=[replace(gpu, name=IDLE.name) for gpu in gpus])
        expected = outline(self.machine.gpus())
        eventually(lambda: outline(self.served.host()['gpus'] or []) == expected)


def outline(gpus: list[dict]) -> list[tuple]:
    """Return what tells the states of two tests apart."""
    return [(gpu['type'], gpu['memory_used_bytes'], [one['pid'] for one in gpu['processes'] or ()]) for gpu in gpus]


def shared(folder: Path, *options: str) -> Iterator[Shared]:
    machine = Machine(folder)
    machine.write(gpus=[IDLE])
    with agent(machine, QUICK, *options) as served:
        served.seen()
        yield Shared(machine, served)
        served.process.terminate()
        assert served.process.wait(TIMEOUT) == 0


@pytest.fixture(scope='module')
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """Give an agent without options."""
    yield from shared(tmp_path_factory.mktemp('plain'))


@pytest.fixture(scope='module')
def detailed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """Give an agent that reports processes, users and whole command lines."""
    options = ('--export-processes', '--export-users', '--commands=full')
    yield from shared(tmp_path_factory.mktemp('detailed'), *options)


def up_hosts(served: AgentProgram) -> list[dict]:
    return [host for host in served.get('/api/v1/fleet').json['hosts'] if host['state'] == 'up']


def test_what_it_answers(plain: Shared) -> None:
    before = time.time()
    plain.show(IDLE)
    served = plain.served
    host = eventually(lambda: found if (found := served.get('/api/v1/host')).json['time'] >= before else None)
    assert (host.status, host.headers['content-type']) == (200, 'application/json')
    told = host.json
    extra = {name: told.pop(name) for name in ('age_seconds', 'interval_seconds', 'agent_version')}
    assert (extra['interval_seconds'], extra['agent_version']) == (0.25, gpu_tracker.__version__)
    assert 0 <= extra['age_seconds'] < TIMEOUT
    assert before <= told.pop('time') <= time.time()
    expected = json.loads(plain.machine.told('gpus', '--json')[1])
    del expected['time']
    assert told == expected
    assert served.nvgpu()['gpus'][0]['type'] == 'NVIDIA H200'
    assert [report['hostname'] for report in served.get('/cluster_status').json] == [os.uname().nodename]
    health = served.get('/healthz')
    assert (health.status, health.text, health.headers['content-type'].partition(';')[0]) == (
        200,
        'ok\n',
        'text/plain',
    )
    page = served.get('/')
    assert (page.status, page.headers['content-type'].partition(';')[0]) == (200, 'text/html')
    (host,) = eventually(lambda: found if (found := up_hosts(served)) else None)
    assert (host['hostname'], host['state'], host['gpus'][0]['type']) == (
        os.uname().nodename,
        'up',
        'NVIDIA H200',
    )


def test_metrics_in_both_forms(plain: Shared) -> None:
    plain.show(IDLE)
    served = plain.served
    text = served.get('/metrics')
    assert text.headers['content-type'].startswith('text/plain; version=0.0.4')
    openmetrics = served.get('/metrics', Accept='application/openmetrics-text; version=1.0.0')
    assert openmetrics.headers['content-type'].startswith('application/openmetrics-text')
    assert openmetrics.text.endswith('# EOF\n')
    found = served.metrics()
    assert found['gpu_tracker_driver_up'] == 1
    (used,) = [value for name, value in found.items() if name.startswith('gpu_tracker_gpu_memory_used_bytes')]
    assert used == GB
    assert not any('pid="' in name or 'user="' in name for name in found)


@pytest.mark.parametrize(
    ('accepted', 'is_compressed'),
    [
        ('gzip', True),
        ('deflate, GZIP;q=0.5', True),
        ('identity', False),
        ('gzip;q=0', False),
        ('br, gzip; q=0.0', False),
    ],
)
def test_metrics_are_compressed_for_who_takes_that(plain: Shared, accepted: str, is_compressed: bool) -> None:
    served = plain.served
    answer = served.get('/metrics', Accept_Encoding=accepted)
    assert answer.headers.get('content-encoding') == ('gzip' if is_compressed else None)
    text = (gzip.decompress(answer.body) if is_compressed else answer.body).decode()
    assert '\ngpu_tracker_driver_up{' in text or '\ngpu_tracker_driver_up ' in text


def test_processes_and_users_in_metrics(detailed: Shared) -> None:
    detailed.show(Gpu(total=GB, used=GB, processes=[Process(NO_SUCH_PROCESS, memory=GB)]))
    names = detailed.served.metrics()
    assert any(name.startswith('gpu_tracker_gpu_process_memory_bytes{') and 'user="?"' in name for name in names)
    assert any(name.startswith('gpu_tracker_gpu_user_processes{') for name in names)


def test_only_reading_is_possible(plain: Shared) -> None:
    plain.show(IDLE)
    served = plain.served
    for path in ('/healthz', '/api/v1/host', '/gpu_status', '/cluster_status', '/metrics', '/'):
        for method in ('POST', 'PUT', 'DELETE'):
            assert served.get(path, method).status == 405
        head = served.get(path, 'HEAD')
        assert (head.status, head.body) == (200, b'')
    assert served.get('/api/v1/nothing').status == 404
    assert [served.get(path).status for path in ('/api/v1/fleet/', '/metrics/', '/static/')] == [404] * 3
    assert served.get('//gpu_status').status == 200  # as masters of nvgpu ask


def test_a_request_never_touches_the_driver(machine: Machine) -> None:
    with agent(machine, '--interval=3600') as served:
        served.seen()
        calls = len(machine.driver.calls())
        for path in ('/api/v1/host', '/gpu_status', '/cluster_status', '/metrics', '/healthz', '/', '/api/v1/fleet'):
            assert served.get(path).status == 200
        assert len(machine.driver.calls()) == calls


def test_a_driver_that_hangs_makes_the_readings_old_and_not_the_agent_slow(plain: Shared) -> None:
    plain.show(IDLE)
    machine, served = plain
    first = served.host()
    machine.write(gpus=[IDLE], hang=[Hang('nvmlDeviceGetMemoryInfo*')])
    age = eventually(lambda: found if (found := served.host()['age_seconds']) > 1 else None)
    assert served.get('/metrics').status == 200
    assert served.host()['age_seconds'] >= age
    assert served.host()['gpus'] == first['gpus']
    machine.write(gpus=[IDLE, IDLE])
    assert eventually(lambda: len(served.host()['gpus']) == 2)


def test_a_driver_that_hangs_from_the_beginning(machine: Machine) -> None:
    machine.write(gpus=[IDLE], hang=[Hang('nvmlInit*')])
    with agent(machine, QUICK) as served:
        host = served.host()
        assert (host['gpus'], host['age_seconds']) == (None, None)
        assert host['driver_problem'] == 'the GPU driver has not answered yet'
        status = served.get('/gpu_status')
        assert (status.status, status.text) == (503, 'the GPU driver has not answered yet\n')
        assert served.get('/healthz').status == 200
        assert served.get('/cluster_status').json == [{'error': 'the GPU driver has not answered yet'}]
        assert served.metrics()['gpu_tracker_driver_up'] == 0
        machine.write(gpus=[IDLE])
        assert eventually(lambda: served.host()['gpus'])
        assert served.nvgpu()['gpus'][0]['is_available']


@sees_all_processes
def test_a_command_line_of_many_braces_ends_nothing(detailed: Shared) -> None:
    with running('sh', '-c', 'read x', '{' * 20_001) as pid:
        detailed.show(Gpu(total=GB, used=GB, processes=[Process(pid, memory=GB)]))
        served = detailed.served
        command = served.host()['gpus'][0]['processes'][0]['command']
        assert (len(command), command[-3:]) == (4000, '{{…')
        assert served.get('/gpu_status').status == 200
        assert eventually(lambda: up_hosts(served))


@pytest.fixture
def job(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """Give the process ID and the path of a program that runs with a password as argument."""
    script = tmp_path / 'job.py'
    script.write_text('input()\n')
    with running(sys.executable, script, '--password=hunter2') as pid:
        yield pid, script


def shown(served: AgentProgram, pid: int) -> tuple[str | None, str | None, bool]:
    """Return command and program of the process on the GPU, and whether its password is in any answer."""
    process = served.seen()['gpus'][0]['processes'][0]
    assert process['pid'] == pid
    assert served.nvgpu()['gpus'][0]['cmd'] == process['program']
    (label,) = [name for name in served.metrics() if name.startswith('gpu_tracker_gpu_process_memory_bytes')]
    assert f'program="{process["program"] or ""}"' in label
    everything = ''.join(served.get(path).text for path in ('/api/v1/host', '/gpu_status', '/metrics', '/'))
    return process['command'], process['program'], 'hunter2' in everything


@sees_all_processes
@pytest.mark.parametrize(
    ('options', 'expected'),
    [
        ((), (f'{os.path.basename(sys.executable)} job.py', 'job.py', False)),
        (('--commands=none',), (None, None, False)),
    ],
)
def test_who_asks_an_agent_reads_no_arguments(
    machine: Machine, job: tuple[int, Path], options: tuple[str, ...], expected: tuple[str | None, str | None, bool]
) -> None:
    pid, _ = job
    machine.write(gpus=[Gpu(total=GB, used=GB, processes=[Process(pid, memory=GB)])])
    with agent(machine, '--export-processes', *options) as served:
        assert shown(served, pid) == expected


@sees_all_processes
def test_an_agent_shows_arguments_if_it_was_told_to(detailed: Shared, job: tuple[int, Path]) -> None:
    pid, script = job
    detailed.show(Gpu(total=GB, used=GB, processes=[Process(pid, memory=GB)]))
    command = f'{sys.executable} {script} --password=hunter2'
    assert shown(detailed.served, pid) == (command, str(script), True)


@pytest.mark.parametrize('version', ['abc', '"1.0.0"', 'x.y'])
def test_a_version_of_metrics_that_is_none_is_answered_in_plain_text(plain: Shared, version: str) -> None:
    found = plain.served.get('/metrics', Accept=f'application/openmetrics-text; version={version}')
    assert (found.status, found.headers['content-type']) == (200, 'text/plain; version=0.0.4; charset=utf-8')


def test_a_driver_that_fails_for_a_while(machine: Machine) -> None:
    with agent(machine, QUICK) as served:
        eventually(lambda: served.host()['gpus'])
        machine.write(gpus=[IDLE], fail=[Failure('nvmlDeviceGetCount*', UNKNOWN)])
        problem = eventually(lambda: served.host()['driver_problem'])
        assert 'unknown error' in problem
        status = served.get('/gpu_status')
        assert (status.status, status.text) == (503, f'{problem}\n')
        assert served.get('/cluster_status').json == [{'error': problem}]
        found = served.metrics()
        assert found['gpu_tracker_driver_up'] == 0
        assert {name.partition('{')[0] for name in found if name.startswith('gpu_tracker_gpu_')} == {
            'gpu_tracker_gpu_counts_as',
            'gpu_tracker_gpu_info',
        }
        machine.write(gpus=[IDLE])
        assert eventually(lambda: served.host()['driver_problem'] is None)
        assert served.metrics()['gpu_tracker_driver_up'] == 1
        served.process.terminate()
        assert served.process.stderr.read() == f'gpu-tracker: {problem}\n'


def test_gpus_of_all_kinds(plain: Shared) -> None:
    mig_devices = [
        Mig(uuid='MIG-a', gi=1, total=20 * GB, used=9 * GB),
        Mig(uuid='MIG-b', gi=2, total=20 * GB, used=0),
    ]
    processes = [Process(NO_SUCH_PROCESS, memory=9 * GB, gi=1, ci=0)]
    machine, served = plain
    machine.write(
        gpus=[
            Gpu(total=None),
            Gpu(total=80 * GB, mig=mig_devices, processes=processes),
            Gpu(missing=True),  # the third: of the first two the agent would know the names
        ]
    )
    expected = machine.gpus()
    eventually(lambda: served.host()['gpus'] == expected)
    rows = [(gpu['index'], gpu['is_available'], gpu['users']) for gpu in served.nvgpu()['gpus']]
    indices = [name for name in served.metrics() if name.startswith('gpu_tracker_gpu_info')]
    assert rows == [('0', True, ''), ('1', False, ''), ('1:0', False, '?'), ('1:1', True, ''), ('2', False, '?')]
    assert [name.partition('index="')[2].partition('"')[0] for name in indices] == ['0', '1', '1:0', '1:1', '2']


def test_a_gpu_that_is_lost_keeps_its_name_in_all_that_is_told(plain: Shared) -> None:
    machine, served = plain
    gpus = [IDLE, Gpu(uuid='GPU-b', name='NVIDIA H200', total=GB)]
    plain.show(*gpus)
    before = served.host()['gpus'][1]
    machine.write(gpus=gpus, fail=[Failure('nvmlDevice*', 15, gpu=1)])
    lost = eventually(lambda: found if (found := served.host()['gpus'][1])['status'] == 'unreadable' else None)
    assert (lost['uuid'], lost['type'], lost['pci_bus_id']) == ('GPU-b', 'NVIDIA H200', before['pci_bus_id'])
    unreadable = [name for name, value in served.metrics().items() if value and 'status="unreadable"' in name]
    assert len(unreadable) == 1
    assert 'index="1"' in unreadable[0]
    assert 'uuid="GPU-b"' in unreadable[0]


def test_a_machine_without_a_driver(tmp_path: Path) -> None:
    with agent(Machine(tmp_path)) as served:
        host = served.seen()
        assert (host['gpus'], host['driver_problem']) == ([], None)
        assert served.nvgpu() == {'hostname': os.uname().nodename, 'gpus': []}
        assert served.metrics()['gpu_tracker_driver_up'] == 1
        served.process.terminate()
        assert [*served.said, *served.process.stderr] == [NO_DRIVER]


@sees_all_processes
def test_commands_that_are_no_text(detailed: Shared) -> None:
    with running('sh', '-c', 'read x', b'\x80\x1b[2J<b>.py') as pid:
        detailed.show(Gpu(total=GB, used=GB, processes=[Process(pid, memory=GB)]))
        served = detailed.served
        assert served.host()['gpus'][0]['processes'][0]['program'] == '\ufffd\x1b[2J<b>.py'
        assert served.nvgpu()['gpus'][0]['cmd'] == '\ufffd\x1b[2J<b>.py'
        assert any('program="\ufffd?[2J<b>.py"' in name for name in served.metrics())
        assert eventually(lambda: up_hosts(served))


@pytest.mark.parametrize(
    ('number', 'code', 'hanging'),
    [
        (signal.SIGTERM, 0, [Hang('nvmlInit*'), Hang('nvmlShutdown')]),
        (signal.SIGINT, -signal.SIGINT, []),
    ],
    ids=['SIGTERM, with a driver that hangs', 'SIGINT'],
)
def test_a_signal_ends_it_with_a_page_open(machine: Machine, number: int, code: int, hanging: list[Hang]) -> None:
    machine.write(gpus=[IDLE], hang=hanging)
    with agent(machine) as served:
        place = served.url.removeprefix('http://').split(':')
        with socket.create_connection((place[0], int(place[1]))) as stream:
            stream.sendall(f'GET /api/v1/events HTTP/1.1\r\nHost: {place[0]}\r\n\r\n'.encode())
            assert stream.recv(64).startswith(b'HTTP/1.1 200')
            served.process.send_signal(number)
            assert served.process.wait(TIMEOUT) == code
        assert served.process.stderr.read() == ''
