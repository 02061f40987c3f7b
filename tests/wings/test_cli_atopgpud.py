"""The command line of atopgpud: its options, and both names under which it is started."""

from __future__ import annotations

import importlib.metadata
import json
import signal
import sys

import pytest

import gpu_tracker
from gpu_tracker.cli import atopgpud
from support.atop.atopgpud_program import OwnSocket
from support.atop.honest_client import busy
from support.cli_program import called
from support.simulated_nvml import Gpu
from support.tracked_program import environment, run_words, start
from support.waiting import TIMEOUT, eventually

AS_ATOPGPUD = 'import sys; from gpu_tracker.cli.atopgpud import main; sys.exit(main())'
"""What the console script does."""

HOST = '--host must be a host name or an IP address of this machine, not {}'
PORT = '--port must be a number from 0 to 65535, not {}'
SOCKET = '--socket must be a name of 1 to 107 bytes, not {}'
INTERVAL = '--interval must be a number of seconds from 0.01 to 60, not {}'
TRY = "\nTry 'gpu-tracker atopgpud --help'."

WRONG = {
    '--host=': HOST.format("''"),
    '--host=192.0.2.1': HOST.format("'192.0.2.1'"),  # for documentation only, RFC 5737
    '--host=::ffff:127.0.0.1': HOST.format("'::ffff:127.0.0.1'"),  # IPv4 on a socket of IPv6
    '--host=a..b': HOST.format("'a..b'"),
    '--port=': PORT.format("''"),
    '--port=atop': PORT.format("'atop'"),
    '--port=-1': PORT.format("'-1'"),
    '--port=65536': PORT.format("'65536'"),
    '--port=1.5': PORT.format("'1.5'"),
    '--port=59_123': PORT.format("'59_123'"),
    '--socket=': SOCKET.format("''"),
    '--socket=' + 108 * 'x': SOCKET.format(repr(108 * 'x')),
    '--socket=' + 54 * 'é': SOCKET.format(repr(54 * 'é')),
    '--interval=': INTERVAL.format("''"),
    '--interval=0': INTERVAL.format("'0'"),
    '--interval=0.009': INTERVAL.format("'0.009'"),
    '--interval=60.1': INTERVAL.format("'60.1'"),
    '--interval=-1': INTERVAL.format("'-1'"),
    '--interval=nan': INTERVAL.format("'nan'"),
    '--interval=inf': INTERVAL.format("'inf'"),
    '--interval=often': INTERVAL.format("'often'"),
    '--daemon=yes': f'--daemon takes no value{TRY}',
    '--enable-accounting=1': f'--enable-accounting takes no value{TRY}',
    '--nothing': f'unknown option --nothing{TRY}',
    '--port': f'--port needs a value{TRY}',
    '-x': f'unknown option -x{TRY}',
    '-vv': f'-v was given twice{TRY}',
    'start': f'these arguments do not fit. Usage:\n  gpu-tracker atopgpud [options]{TRY}',
}


pytestmark = pytest.mark.machine(gpus=[Gpu(name='NVIDIA H200', pci='00000000:17:00.0', util=75)])


def test_wrong_options_are_told_before_anything_is_done(machine) -> None:
    answers = [called('atopgpud', word) for word in WRONG]
    told = [(answer.returncode, answer.stdout, answer.stderr) for answer in answers]
    assert told == [(125, '', f'gpu-tracker: {text}\n') for text in WRONG.values()]
    both = f'--daemon and --foreground do not go together{TRY}'
    in_background = machine.told_each(
        ['atopgpud', '--daemon', '--port=atop'],
        ['atopgpud', '--daemon', '--host=a..b'],
        ['atopgpud', '--daemon', '-f'],
    )
    expected = [WRONG['--port=atop'], WRONG['--host=a..b'], both]
    assert in_background == [(125, '', f'gpu-tracker: {text}\n') for text in expected]
    assert machine.driver.calls() == []


def test_help_and_version() -> None:
    for words in (['--help'], ['-h'], ['--daemon', '--help']):
        helped = called('atopgpud', *words)
        assert (helped.returncode, helped.stderr) == (0, '')
        assert helped.stdout.strip() == atopgpud.TEXT.strip()
    version = called('atopgpud', '--version')
    assert (version.returncode, version.stdout) == (0, f'gpu-tracker {gpu_tracker.__version__}\n')
    assert max(map(len, atopgpud.TEXT.splitlines())) <= 90


def test_the_console_script_is_this_command() -> None:
    found = importlib.metadata.entry_points(group='console_scripts', name='atopgpud')
    if not found:
        pytest.skip('needs gpu-tracker, installed with pip')
    (script,) = found
    assert script.value == 'gpu_tracker.cli.atopgpud:main'
    assert script.load() is atopgpud.main


def test_under_its_own_name_it_takes_the_same_options(machine) -> None:
    words = [sys.executable, '-c', AS_ATOPGPUD]
    assert run_words([*words, '--version'], env=environment()).stdout == f'gpu-tracker {gpu_tracker.__version__}\n'
    own = OwnSocket()
    with start(AS_ATOPGPUD, '-v', *own.options, env=machine.environment()) as process:
        try:
            eventually(own.is_served)
            with own.client() as client:
                assert busy(client) == [75]
            process.send_signal(signal.SIGTERM)
            assert process.wait(TIMEOUT) == 0
        finally:
            process.kill()


def test_help_imports_nothing_of_the_daemon() -> None:
    program = (
        'import json, sys; from gpu_tracker.cli import main; main(["atopgpud", "--version"])\n'
        'print(json.dumps([name for name in sys.modules if name == "asyncio" or ".atopgpud." in name]))'
    )
    lines = run_words([sys.executable, '-c', program]).stdout.splitlines()
    assert json.loads(lines[1]) == []
