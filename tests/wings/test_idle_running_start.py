from __future__ import annotations

import json
import os
import re
import stat
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.idle.config.idle_settings import GpuId
from gpu_tracker.idle.running.guardian_protocol import NotStarted
from gpu_tracker.idle.state import WatchedGpu
from support.cli_program import text_of
from support.idle.guarded_program import Guarded

if TYPE_CHECKING:
    from pathlib import Path


USE = """
import time
held = bytearray(50_000_000)
end = time.process_time() + 0.3
while time.process_time() < end:
    pass
time.sleep(0.1)
"""
TELL = """
import json, os, signal, sys
print(json.dumps({
    'environment': dict(os.environ),
    'folder': os.getcwd(),
    'descriptors': {name: os.readlink(f'/proc/self/fd/{name}') for name in os.listdir('/proc/self/fd')
                    if os.path.exists(f'/proc/self/fd/{name}')},
    'signals': {line[:6]: int(line[8:], 16) for line in open('/proc/self/status') if line[:6] in ('SigBlk', 'SigIgn')},
    'words': sys.argv[1:],
    'session': os.getsid(0) == os.getpgrp() == os.getpid(),
}))
"""


pytestmark = pytest.mark.usefixtures('marked')


def told(log: Path, *words: str, **options: object) -> dict[str, object]:
    """Return what a program is told that gets these words."""
    with Guarded([TELL, *words], log=str(log), **options) as guarded:
        guarded.started()
        assert guarded.ended().code == 0, text_of(log)
    return json.loads(next(line for line in text_of(log).splitlines() if line.startswith('{')))


def test_a_program_gets_the_environment_of_the_monitor_its_own_and_its_gpus(log: Path) -> None:
    inherited = {**os.environ, 'HOME': '/home/alice', 'CUDA_VISIBLE_DEVICES': '7', 'LD_LIBRARY_PATH': '/opt/lib'}
    gpus = (WatchedGpu(GpuId(0)), WatchedGpu(GpuId(3)))
    environment = told(log, inherited=inherited, gpus=gpus, environment=(('MODE', 'a b'), ('LANG', 'C.UTF-8')))[
        'environment'
    ]
    added = {'MODE': 'a b', 'LANG': 'C.UTF-8', 'CUDA_VISIBLE_DEVICES': '0,3', 'CUDA_DEVICE_ORDER': 'PCI_BUS_ID'}
    assert re.fullmatch(
        rf'{os.getpid()}-{os.stat("/proc/self/ns/pid").st_ino}-[0-9a-f]{{16}}', environment.pop('GPU_TRACKER_IDLE')
    )
    assert environment == {**inherited, **added}


def test_the_gpus_stand_in_the_command(log: Path) -> None:
    gpus = (WatchedGpu(GpuId(0)), WatchedGpu(GpuId(3)))
    assert told(log, '--gpu={gpu}', '{}', '{x}', gpus=gpus)['words'] == ['--gpu=0,3', '{}', '{x}']


def test_nothing_of_the_monitor_leaks_into_a_program(log: Path, tmp_path: Path) -> None:
    with open(tmp_path / 'open', 'w') as file:
        os.set_inheritable(file.fileno(), True)
        found = told(log, folder=str(tmp_path))
    assert found['descriptors'] == {'0': '/dev/null', '1': str(log), '2': str(log)}
    assert found['folder'] == str(tmp_path)
    assert found['session'] is True
    # Python ignores SIGPIPE (13) and SIGXFSZ (25) itself. 32 and 33 are the C library's own, out of programs' reach:
    # its posix_spawn may have them ignored in whoever has started these tests.
    of_the_c_library = 0b11 << 31
    assert found['signals']['SigBlk'] == 0
    assert found['signals']['SigIgn'] & ~of_the_c_library == 0x01001000


def test_a_log_gets_lines_for_start_and_end_and_what_was_there_stays(log: Path) -> None:
    log.write_text('before\n')
    with Guarded(['sh', '-c', 'echo "it runs"; exit 3'], log=str(log)) as guarded:
        program = guarded.started().pid
        guarded.ended()
    text = re.sub(r'(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ', 'NOW ', log.read_text())
    text = re.sub(r'after \d+\.\d s', 'after T s', re.sub(r'0\.000\d GPU', 'T GPU', text))
    text = re.sub(r'RAM (\d+\.\d [kM]B at most|N/A), CPU 0\.\d s', 'RAM R, CPU C', text)
    assert text == (
        'before\n'
        f'NOW gpu-tracker: starting sh -c \'echo "it runs"; exit 3\' (pid {program}) on GPU 0: GPU 0 is idle\n'
        'it runs\n'
        'NOW gpu-tracker: ended sh -c \'echo "it runs"; exit 3\' after T s; exit code 3; '
        'T GPU hours, GPU utilization N/A, GPU RAM N/A, RAM R, CPU C\n'
    )


def test_a_log_says_why_a_program_was_stopped(log: Path) -> None:
    with Guarded(['sleep', '3600'], log=str(log)) as guarded:
        guarded.started()
        guarded.running.stop('GPU 0 used by py\x1bthon (pid 17, alice)', 10)
        guarded.ended()
    assert ': GPU 0 used by py?thon (pid 17, alice); killed by SIGTERM; 0.0' in text_of(log)


def test_a_log_is_made_as_the_umask_says(log: Path) -> None:
    before = os.umask(0o027)
    try:
        told(log)
    finally:
        os.umask(before)
    assert stat.S_IMODE(log.stat().st_mode) == 0o640


def test_a_full_disk_keeps_no_program_from_running() -> None:
    with Guarded(['sh', '-c', 'exit 4'], log='/dev/full') as guarded:
        guarded.started()
        assert guarded.ended().code == 4


def test_a_program_without_a_log_writes_where_the_monitor_does(capfd: pytest.CaptureFixture[str]) -> None:
    with Guarded(['sh', '-c', 'echo out; echo err >&2']) as guarded:
        guarded.started()
        guarded.ended()
    assert capfd.readouterr() == ('out\n', 'err\n')


def test_an_environment_may_be_larger_than_a_pipe(log: Path) -> None:
    large = {**os.environ, 'LARGE': 'x' * 100_000, 'MORE': 'y' * 100_000}
    environment = told(log, inherited=large)['environment']
    assert (environment['LARGE'], environment['MORE']) == (large['LARGE'], large['MORE'])


def test_variables_of_python_reach_the_program_and_not_its_guardian(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('PYTHONSTARTUP', '/nowhere')
    monkeypatch.setenv('PYTHONHASHSEED', 'nonsense')
    with Guarded(['sh', '-c', 'echo $PYTHONHASHSEED'], log=str(log)) as guarded:
        guarded.started()
        guarded.ended()
    assert '\nnonsense\n' in text_of(log)


def test_what_a_program_has_used_is_known(log: Path) -> None:
    with Guarded([USE], log=str(log)) as guarded:
        guarded.started()
        ended = guarded.ended()
    usage = ended.usage
    assert usage.cpu_seconds == pytest.approx(0.3, abs=0.2)
    assert usage.max_ram_bytes is not None
    assert 50e6 < usage.max_ram_bytes < 80e6


def test_children_and_daemons_of_a_program_count_as_its_use(log: Path) -> None:
    burn = 'end = time.process_time() + 0.2\nwhile time.process_time() < end:\n    pass\n'
    program = (
        f'import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nfirst = os.fork()\n{burn}'
        "if not first:\n    print('ready', flush=True)\nos._exit(0)\n"
    )
    with Guarded([program], log=str(log), stop_grace=60) as guarded:
        guarded.started()
        usage = guarded.ended().usage
    assert 'ready\n' in text_of(log)
    assert usage.cpu_seconds is not None
    assert usage.cpu_seconds > 0.4


def test_a_program_that_cannot_be_measured_runs_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('GPU_TRACKER_READER', 'nonsense')
    with Guarded(['sh', '-c', 'exit 3']) as guarded:
        assert guarded.started().unmeasured == (
            "the environment variable GPU_TRACKER_READER must be proc or psutil, not 'nonsense'"
        )
        ended = guarded.ended()
    assert (ended.code, ended.usage.max_ram_bytes) == (3, None)
    assert ended.usage.cpu_seconds is not None


def _reason(command: list[str], **options: object) -> str:
    with Guarded(command, **options) as guarded:
        reason = guarded.next(NotStarted).reason
        assert guarded.running.final == NotStarted(reason)
        return reason


def test_why_a_program_cannot_be_started_is_told(tmp_path: Path) -> None:
    folder = str(tmp_path)
    for name, mode, text in (
        ('closed', 0o644, '#!/bin/sh\n'),
        ('plain', 0o755, 'echo hello\n'),
        ('broken', 0o755, '#!/no/such/interpreter\n'),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    assert _reason(['no-such-program']) == 'no-such-program is in no folder of PATH'
    assert _reason(['./missing'], folder=folder) == f'./missing does not exist in {folder}'
    assert _reason(['/no/such']) == '/no/such does not exist'
    assert _reason(['./closed'], folder=folder) == (
        './closed may not be run: it is not executable, or a folder on its path is closed'
    )
    assert _reason(['./plain'], folder=folder) == (
        './plain is no program: a script needs a first line such as #!/bin/sh'
    )
    assert _reason(['./broken'], folder=folder) == (
        './broken is there, but what it needs to run is not: the interpreter that its first line names'
    )


def test_why_a_folder_a_user_or_a_log_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / 'file').touch()
    assert _reason(['true'], folder='/no/such') == 'its folder /no/such does not exist'
    assert _reason(['true'], folder=str(tmp_path / 'file')) == f'its folder {tmp_path}/file is no folder'
    assert _reason(['true'], log='/no/such/log') == 'its log /no/such/log cannot be opened: No such file or directory'
    assert _reason(['true'], user='no-such-user') == 'there is no user no-such-user'


def test_why_it_was_not_started_stands_in_the_log_too(log: Path) -> None:
    _reason(['/no/such'], log=str(log))
    assert log.read_text().splitlines()[-1].endswith(' gpu-tracker: cannot start /no/such: /no/such does not exist')


def test_a_program_that_is_stopped_at_once_is_not_started(tmp_path: Path) -> None:
    with Guarded(['touch', str(tmp_path / 'started')]) as guarded:
        guarded.running.stop('alice is back', 10)
        assert guarded.next(NotStarted) == NotStarted('alice is back', stopped=True)
    assert not (tmp_path / 'started').exists()
