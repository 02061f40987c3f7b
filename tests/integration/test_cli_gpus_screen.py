"""``gpu-tracker gpus`` on a terminal, and ``--watch``."""

from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING

import pytest

from support.gpus.gpu_machine import GB, Machine
from support.simulated_nvml import UNKNOWN, Failure, Gpu, Hang
from support.tracked_program import status_of
from support.waiting import eventually

if TYPE_CHECKING:
    from support.cli_program import Terminal

HEADER = 'GPU       type           util  memory GB  temp  MHz  power  users  since  pids  command\n'
ROWS = """\
0    [ ]  Simulated GPU    0%    1.0/9.0   N/A  N/A    N/A
1    [x]  lost: fallen off the bus or otherwise out of reach (NVML code 15)
"""


pytestmark = pytest.mark.machine(gpus=[Gpu(total=9 * GB, used=GB), Gpu(missing=True)])


def shown(terminal: Terminal) -> str:
    with terminal:
        assert terminal.wait() == 0
        return terminal.shown


def test_colours_are_for_terminals_and_for_those_who_want_them(machine: Machine) -> None:
    wide = {'COLUMNS': '120'}
    colored = shown(machine.terminal('gpus', env=wide | {'NO_COLOR': ''}))
    assert colored == (
        f'\x1b[1m{HEADER.rstrip()}\x1b[0m\n'
        '0    \x1b[32m[ ]\x1b[0m  Simulated GPU    0%    1.0/9.0   N/A  N/A    N/A\n'
        '1    \x1b[35m[x]\x1b[0m  \x1b[35mlost: fallen off the bus or otherwise out of reach (NVML code 15)\x1b[0m\n'
    )
    assert shown(machine.terminal('ls', '--no-color', env=wide)) == HEADER + ROWS
    assert shown(machine.terminal('gpus', env=wide | {'NO_COLOR': '1'})) == HEADER + ROWS
    assert machine.told('gpus') == (0, HEADER + ROWS, '')
    assert '\x1b' not in shown(machine.terminal('gpus', '--json'))


def test_the_table_is_as_wide_as_the_terminal(machine: Machine) -> None:
    narrow = ('sh', '-c', 'stty cols 50; exec "$@"', 'sh')
    header, free, lost = shown(machine.terminal('gpus', '--no-color', before=narrow)).splitlines()
    assert (header[:3], free[:8]) == ('GPU', '0    [ ]')
    assert lost == '1    [x]  lost: fallen off the bus or otherwise o…'
    assert max(len(header), len(free)) < len(lost) == 50


def frame(*lines: str) -> str:
    return '\x1b[J' + ''.join(f'{line}\n' for line in lines)


def test_watching_redraws_in_place_until_ctrl_c(machine: Machine) -> None:
    header, *rows = (HEADER + ROWS).splitlines()
    wide = ('sh', '-c', 'stty cols 120 rows 30; exec "$@"', 'sh')
    with machine.terminal('gpus', '--watch', '--interval=0.01', '--no-color', before=wide) as terminal:
        before = frame(header, *rows)
        three_up, two_up = '\x1b[3A', '\x1b[2A'
        eventually(lambda: terminal.shown.count(three_up + before) >= 2)
        assert terminal.shown.startswith(before + three_up + before)
        machine.write(gpus=[Gpu(total=9 * GB, used=9 * GB // 5)])
        after = frame(header, rows[0].replace('1.0/9.0', '1.8/9.0'))
        eventually(lambda: terminal.shown.count(two_up + after) >= 2)
        assert three_up + after in terminal.shown
        terminal.press('\x03')
        assert terminal.wait() == -signal.SIGINT
        left = terminal.shown
    for part in (before, after, three_up, two_up):
        left = left.replace(part, '')
    assert left in {'^C', ''}


def test_watching_shows_what_fits_on_the_screen(machine: Machine) -> None:
    machine.write(gpus=[Gpu(total=GB) for _ in range(9)])
    low = ('sh', '-c', 'stty cols 200 rows 4; exec "$@"', 'sh')
    with machine.terminal('ls', '--watch', '--interval=1000', '--no-color', before=low) as terminal:
        eventually(lambda: '\x1b[J' in terminal.shown)
        lines = [line.replace('1.0/9.0', '0.0/1.0') for line in (HEADER + ROWS).splitlines()]
        assert terminal.shown == frame(lines[0], lines[1], lines[1].replace('0', '1', 1))


def test_watching_on_a_dumb_terminal_or_in_a_pipe_puts_one_below_the_other(machine: Machine) -> None:
    text = HEADER + ROWS + '\n'
    with machine.terminal('gpus', '--watch', '--interval=0.01', env={'COLUMNS': '120', 'TERM': 'dumb'}) as terminal:
        eventually(lambda: text + text in terminal.shown)
    with machine.started('gpus', '--watch', '--interval=0.01') as process:
        assert ''.join(process.stdout.readline() for _ in range(8)) == text + text
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == -signal.SIGINT


def test_watching_with_json_prints_an_object_a_line_until_nobody_reads(machine: Machine) -> None:
    with machine.started('gpus', '--watch', '--json', '--interval=0.001') as process:
        lines = [json.loads(process.stdout.readline()) for _ in range(2)]
        assert [[gpu['status'] for gpu in line['gpus']] for line in lines] == [['free', 'unreadable']] * 2
        assert lines[0]['time'] < lines[1]['time']
        machine.write(gpus=[Gpu(total=9 * GB, used=8 * GB)])
        eventually(lambda: json.loads(process.stdout.readline())['gpus'][0]['memory_used_bytes'] == 8 * GB)
        process.stdout.close()
        assert process.stderr.read() == ''
    assert process.returncode == 128 + signal.SIGPIPE


def test_watching_a_machine_without_a_gpu(machine: Machine) -> None:
    machine.write(gpus=[])
    with machine.terminal('gpus', '--watch', '--interval=1000') as terminal:
        eventually(lambda: '\x1b[J' in terminal.shown)
        assert terminal.shown == frame('no GPU')


def test_watching_goes_on_where_a_gpu_fails_for_a_moment(machine: Machine) -> None:
    machine.write(gpus=[Gpu(total=GB)], fail=[Failure('nvmlDeviceGetMemoryInfo*', UNKNOWN, after=1, times=2)])
    with machine.started('ls', '--watch', '--json', '--interval=0.01') as process:
        looks = [json.loads(process.stdout.readline())['gpus'][0]['status'] for _ in range(4)]
    assert looks == ['free', 'unreadable', 'unreadable', 'free']


def test_watching_goes_on_where_the_driver_fails_for_a_moment(machine: Machine) -> None:
    # Asked at the opening and at each look; the second and third look fail.
    machine.write(gpus=[Gpu(total=GB)], fail=[Failure('nvmlDeviceGetCount*', UNKNOWN, after=2, times=2)])
    with machine.started('ls', '--watch', '--json', '--interval=0.01') as process:
        looks = [json.loads(process.stdout.readline()) for _ in range(4)]
        process.terminate()
        told = process.stderr.read()
    assert [look['gpus'] and look['gpus'][0]['status'] for look in looks] == ['free', None, None, 'free']
    problem = looks[1]['driver_problem']
    assert 'unknown error' in problem
    assert [look['driver_problem'] for look in looks] == [None, problem, problem, None]
    assert told == f'gpu-tracker: {problem}\n'


def test_watching_in_place_shows_that_the_driver_fails(machine: Machine) -> None:
    machine.write(gpus=[Gpu(total=GB)], fail=[Failure('nvmlDeviceGetCount*', UNKNOWN, after=2)])
    with machine.terminal('gpus', '--watch', '--interval=0.01') as terminal:
        problem = 'The NVIDIA driver could not be initialized: it reports an unknown error'
        eventually(lambda: terminal.shown.count(f'\x1b[1A\x1b[Jnot known: {problem}') >= 2)
        assert terminal.shown.count(f'gpu-tracker: {problem}') == 1


def test_watching_in_place_keeps_to_the_width_of_the_terminal(machine: Machine) -> None:
    narrow = ('sh', '-c', 'stty cols 50 rows 20; exec "$@"', 'sh')
    with machine.terminal('gpus', '--watch', '--interval=1000', env={'COLUMNS': '200'}, before=narrow) as terminal:
        eventually(lambda: terminal.shown.endswith('\n'))
        assert max(len(line) for line in re.sub('\x1b\\[[0-9]*[mJ]', '', terminal.shown).splitlines()) <= 50


def test_watching_ends_with_its_terminal(machine: Machine) -> None:
    with machine.terminal('gpus', '--watch') as terminal:
        eventually(lambda: '\x1b[J' in terminal.shown)
        terminal.close()
        assert terminal.wait() == -signal.SIGHUP


@pytest.mark.parametrize('where', ['nvmlInit*', 'nvmlDeviceGetMemoryInfo*'])
def test_ctrl_c_ends_the_look_at_a_driver_that_hangs(machine: Machine, where: str) -> None:
    machine.write(gpus=[Gpu(total=GB)], hang=[Hang(where), Hang('nvmlShutdown')])
    with machine.terminal('gpus') as terminal:
        eventually(lambda: status_of(terminal.process.pid, 'Threads') == 2)
        terminal.press('\x03')
        assert terminal.wait() == -signal.SIGINT
        assert terminal.shown == '^C'


def test_a_long_interval(machine: Machine) -> None:
    with machine.started('gpus', '--watch', '--interval=1e300') as process:
        assert ''.join(process.stdout.readline() for _ in range(4)) == HEADER + ROWS + '\n'
        process.terminate()
        assert process.communicate() == ('', '')
    assert process.returncode == -signal.SIGTERM
