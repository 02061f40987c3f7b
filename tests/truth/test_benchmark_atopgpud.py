"""What the benchmark of the daemon stands on: its servers, its clients, and that it can be run."""

import contextlib
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from benchmarks import simulated_driver
from benchmarks.atop_clients import AGAIN, SPREAD, TOGETHER, connected_clients
from benchmarks.atopgpud import FLOOR, GREEDY, PACED, PART, Load, measure
from benchmarks.environments import CHECKOUT, Environment
from benchmarks.peers import OURS
from benchmarks.results import Results
from benchmarks.session import FailedError, Session
from benchmarks.statistics_servers import constant_server, daemon

from support.compiled import require_compiler
from support.simulated_nvml import Gpu, Process, SimulatedDriver
from support.waiting import TIMEOUT

ENVIRONMENT = Environment(OURS.name, Path(sys.executable).parent.parent, '6')
LONGEST = 8192
HEAD = 4
A_SECOND = {'cpu', 'driver cpu', 'own cpu', 'driver calls', 'rss', 'pss'}


@pytest.fixture(autouse=True)
def compiler():
    require_compiler()


@contextlib.contextmanager
def answering(answer):
    """Yield the address of a server that answers one client's requests as told."""

    def serve():
        with contextlib.suppress(OSError), listener.accept()[0] as connection:
            while request := connection.recv(2):
                connection.sendall(answer(request))

    with socket.create_server(('127.0.0.1', 0)) as listener:
        server = threading.Thread(target=serve, daemon=True)
        server.start()
        yield str(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)
        server.join(TIMEOUT)


def framed(version, length):
    return bytes([version]) + length.to_bytes(3, 'big') + b'@' * length


@pytest.mark.parametrize(('manner', 'over_tcp'), [(SPREAD, False), (TOGETHER, True)])
def test_each_client_asks_once_a_second(manner, over_tcp):
    with constant_server(ENVIRONMENT) as server:
        address = str(server.port) if over_tcp else f'@{server.name}'
        with connected_clients(address, 2 - over_tcp, 3, 2, manner) as clients:
            clients.ask()
            asked = clients.asked()
    assert asked.answers == 6
    assert asked.size == 6 * (HEAD + LONGEST)
    assert len(asked.latencies) == 6
    assert min(asked.latencies) > 0
    assert asked.seconds > max(asked.latencies)


def test_clients_that_ask_again_at_once_have_more_answers():
    with constant_server(ENVIRONMENT) as server, connected_clients(f'@{server.name}', 2, 3, 1, AGAIN) as clients:
        clients.ask()
        asked = clients.asked()
    assert asked.answers > 6
    assert asked.seconds >= 1
    assert asked.latencies == ()


@pytest.mark.parametrize(
    ('answer', 'reason'),
    [
        (lambda request: framed(1, LONGEST + 1), 'an answer is in another version, or too long for atop'),
        (lambda request: framed(2, 10), 'an answer is in another version, or too long for atop'),
        (lambda request: framed(1, 10) + b'!', 'more has come than was asked for'),
    ],
)
def test_clients_take_no_answer_that_atop_would_not_take(answer, reason):
    with (
        answering(answer) as address,
        pytest.raises(FailedError, match=f'^{reason}$'),
        connected_clients(address, 1, 1, 1, SPREAD) as clients,
    ):
        clients.ask()


def test_clients_that_find_nobody_say_so():
    with socket.socket() as nobody:
        nobody.bind(('127.0.0.1', 0))
        clients = connected_clients(str(nobody.getsockname()[1]), 1, 1, 1, SPREAD)
        with pytest.raises(FailedError, match=r'^connect: Connection refused$'), clients:
            pass


def test_a_daemon_that_ends_is_no_figure(tmp_path):
    variables = SimulatedDriver(tmp_path).environment()  # without a state there is no GPU, and it ends at once
    with pytest.raises(FailedError, match=r'nothing to do$|^ended with 0$'), daemon(ENVIRONMENT, variables):
        pass


def test_the_driver_that_keeps_its_state_tells_what_its_calls_cost(tmp_path):
    driver = SimulatedDriver(tmp_path)
    driver.write(gpus=[Gpu(total=8000, used=1000, processes=[Process(pid, memory=10) for pid in (4_194_303, 7)])])
    variables = driver.environment() | {'LD_LIBRARY_PATH': str(simulated_driver.kept_library().parent)}
    with daemon(ENVIRONMENT, variables) as server:
        driver.state_file.unlink()  # it has been read
        with connected_clients(f'@{server.name}', 2, 1, 1, SPREAD) as clients:
            clients.ask()
            assert clients.asked().answers == 1
        used = server.used()
    assert used.driver_calls > 0
    assert 0 < used.driver_cpu < used.cpu


def test_each_load_has_its_figures():
    session = Session([], {OURS.name: ENVIRONMENT}, Results(), None, quick=True)
    small = [
        Load('alone', processes=9, seconds=1, ours_only=True),
        Load('accounting mode', 2, TOGETHER, processes=9, accounting=True, seconds=1),
        Load('at once', 2, AGAIN, over_tcp=True, processes=9, seconds=1),
    ]
    measure(session, small)
    assert session.results.gaps == []
    kinds = {}
    for figure in session.results.figures:
        assert (figure.part, figure.round) == (PART, 0)
        kinds.setdefault((figure.row, figure.peer), set()).add(figure.kind)
    paced, at_once = A_SECOND | {'size', 'p50', 'p99'}, A_SECOND | {'size', 'answers', 'cpu an answer'}
    assert kinds == {
        ('alone', OURS.name): A_SECOND,
        ('accounting mode', OURS.name): paced,
        ('accounting mode', FLOOR): paced,
        ('at once', OURS.name): at_once,
        ('at once', FLOOR): at_once,
    }


def test_the_command_makes_the_tables_from_raw_figures(tmp_path):
    results = Results(machine={'Processor': 'one'}, versions={OURS.name: '6'}, conditions={PART: 'today'})
    for load in (*PACED, *GREEDY):
        results.add(PART, load.name, OURS.name, 0, dict.fromkeys((*A_SECOND, 'p50', 'p99', 'answers'), 0.25))
    results.save(tmp_path / 'raw')
    words = [sys.executable, '-m', 'benchmarks', f'--from={tmp_path / "raw"}']
    printed = subprocess.run(words, cwd=CHECKOUT, check=True, capture_output=True, text=True).stdout
    assert '* Measured, atopgpud: today\n' in printed
    titles = [line for line in printed.splitlines() if line.startswith('**atopgpud: ')]
    assert titles == [
        '**atopgpud: answers a second**',
        '**atopgpud: milliseconds to an answer**',
        '**atopgpud: CPU milliseconds a second**',
        '**atopgpud: memory (MB)**',
    ]
