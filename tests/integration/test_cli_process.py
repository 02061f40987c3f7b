from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_tracker.cli import main
from gpu_tracker.cli.running_process import end_of, open_process
from gpu_tracker.errors import ParameterError
from support.cli_program import PROGRAM, Marked, Terminal, called, gpu_tracker, started, text_of
from support.waiting import eventually

COMPLETE = 'Resource tracking complete.'


def tracking(marked: Marked) -> list[int]:
    """Tell whether a sampler runs, which is when the tracking has begun or is about to."""
    return marked.processes('gpu_tracker.sampler')


def handles(process_id: int, number: int) -> int:
    """Tell whether the process has a handler for the signal, proc(5)."""
    with open(f'/proc/{process_id}/status', encoding='ascii') as file:
        caught = next(line for line in file if line.startswith('SigCgt'))
    return int(caught.split()[1], 16) >> (number - 1) & 1


def test_a_process_is_tracked_until_it_ends(target: subprocess.Popen[bytes]) -> None:
    with started('--pid', str(target.pid), '-f', 'json') as process:
        eventually(lambda: handles(process.pid, signal.SIGTERM))
        target.stdin.close()
        output, errors = process.communicate()
    assert errors == f'{COMPLETE}\n'
    assert json.loads(output)['max_ram']['main']['total_rss'] > 0
    assert process.returncode == 0


@pytest.mark.parametrize('name', ['SIGTERM', 'SIGHUP'])
def test_a_signal_ends_the_tracking_only(target: subprocess.Popen[bytes], name: str) -> None:
    with started('--pid', str(target.pid)) as process:
        eventually(lambda: handles(process.pid, signal.SIGQUIT))
        process.send_signal(signal.Signals[name])
        output, errors = process.communicate()
    assert errors == f'{COMPLETE}\n'
    assert output.startswith('Max RAM:')
    assert process.returncode == 0
    assert target.poll() is None


def test_ctrl_c_in_a_terminal_ends_the_tracking_only(target: subprocess.Popen[bytes]) -> None:
    with Terminal([*PROGRAM, '--pid', str(target.pid)]) as terminal:
        eventually(lambda: handles(terminal.process.pid, signal.SIGQUIT))
        terminal.press('\x03')
        assert terminal.wait() == 0
        assert f'{COMPLETE}\nMax RAM:' in terminal.shown
    assert target.poll() is None


def test_no_sampler_is_left(target: subprocess.Popen[bytes]) -> None:
    marked = Marked()
    with started('--pid', str(target.pid), env=marked.environment) as process:
        eventually(lambda: tracking(marked))
        process.kill()
        eventually(lambda: not marked.processes())


def test_a_process_that_does_not_exist(tmp_path: Path) -> None:
    with subprocess.Popen(['true']) as ended:
        pass
    for given in (str(ended.pid), '99999999999999999999'):
        run = called('--pid', given, '-o', str(tmp_path / 'report'))
        assert run.stderr == (
            f"gpu-tracker: --pid must be the ID of a running process, not '{given}'. It has ended, or "
            'it is in a container and has another ID there. See "gpu-tracker explain no-such-process".\n'
        )
        assert run.stdout == ''
        assert run.returncode == 125
    assert os.listdir(tmp_path) == []


def test_a_thread_is_no_process() -> None:
    thread = (
        'import threading, sys\n'
        'def show():\n'
        '    print(threading.get_native_id(), flush=True)\n'
        '    sys.stdin.read()\n'
        'threading.Thread(target=show).start()\n'
    )
    with subprocess.Popen(
        [sys.executable, '-c', thread], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        number = process.stdout.readline().strip()
        run = called('--pid', number)
        process.communicate('')
    assert run.stderr == (
        f"gpu-tracker: --pid must be the ID of a running process, not '{number}'. It is a thread of process "
        f'{process.pid}. '
        'See "gpu-tracker explain no-such-process".\n'
    )
    assert run.returncode == 125


def test_a_process_that_has_ended_and_was_not_waited_for() -> None:
    with subprocess.Popen(['true']) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        run = gpu_tracker('--pid', str(ended.pid))
        quiet = gpu_tracker('--pid', str(ended.pid), '--disable-logs')
    assert run.stderr == (
        f'gpu-tracker: process {ended.pid} has ended, and its parent, {os.getpid()}, has not waited for it. Nothing '
        'can be measured. See "gpu-tracker explain no-such-process".\n'
        f'{COMPLETE}\n'
    )
    assert 'Total RSS: N/A' in run.stdout
    assert (run.returncode, quiet.returncode, quiet.stderr) == (0, 0, f'{COMPLETE}\n')


def test_a_process_whose_first_thread_has_ended_runs_still() -> None:
    program = (
        'import ctypes, sys, threading\n'
        'threading.Thread(target=sys.stdin.read).start()\n'
        'print(flush=True)\n'
        'ctypes.CDLL(None).pthread_exit(None)\n'
    )
    words = [sys.executable, '-c', program]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        eventually(lambda: 'State:\tZ' in text_of(Path(f'/proc/{process.pid}/status')))
        assert end_of(process.pid) is None
        process.stdin.close()


def test_a_process_that_may_not_be_looked_at(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(process_id: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, 'kill', refuse)
    assert main(['--pid', '1']) == 125
    assert capfd.readouterr().err == (
        "gpu-tracker: --pid must be the ID of a running process of your own (not permitted), not '1'. Run "
        'gpu-tracker as the '
        'user of that process, or as root. See "gpu-tracker explain not-permitted".\n'
    )


def test_a_process_of_somebody_else_may_be_looked_at_where_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, target: subprocess.Popen[bytes]
) -> None:
    def refuse(process_id: int, number: int) -> None:
        raise PermissionError

    with monkeypatch.context() as patched:
        patched.setattr(os, 'kill', refuse)
        handle = open_process(target.pid, may_be_of_others=True)
        with pytest.raises(ParameterError, match='of your own'):
            open_process(target.pid)
    if handle is not None:  # before Linux 5.3 there is none
        os.close(handle)


def test_wrong_values_are_found_first(target: subprocess.Popen[bytes]) -> None:
    run = called('--pid', str(target.pid), '--ru=miles')
    assert run.stderr.startswith('gpu-tracker: --ru must be ')
    assert run.returncode == 125
    run = called('--pid', str(target.pid), '-f', 'xml')
    assert run.stderr == "gpu-tracker: --format must be text, json, summary or csv, not 'xml'\n"
    assert run.returncode == 125


def test_the_report_goes_to_the_output_file(target: subprocess.Popen[bytes], tmp_path: Path) -> None:
    path = tmp_path / 'report'
    with started('--pid', str(target.pid), '-o', str(path)) as process:
        eventually(lambda: handles(process.pid, signal.SIGQUIT))
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate()
    assert output == ''
    assert path.read_text().startswith('Max RAM:')


def test_without_descriptors_of_processes_the_end_is_seen_as_well(target: subprocess.Popen[bytes]) -> None:
    # Linux before 5.3, and other systems.
    program = 'import os, sys; del os.pidfd_open; from gpu_tracker.cli import main; sys.exit(main())'
    with subprocess.Popen(
        [sys.executable, '-c', program, '--pid', str(target.pid)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        eventually(lambda: handles(process.pid, signal.SIGQUIT))
        target.stdin.close()
        target.wait()
        output, errors = process.communicate()
    assert errors == f'{COMPLETE}\n'
    assert output.startswith('Max RAM:')
    assert process.returncode == 0
