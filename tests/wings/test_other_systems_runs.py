"""Whole runs as they go on macOS and Windows, on Linux that shows gpu-tracker another system.

They say that the code for those systems works together, and nothing of the systems themselves.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from support.cli_program import number_in, state_of
from support.deadlines import UNTIL, until
from support.other_system import SYSTEMS, interpreter
from support.recordings import write_recording
from support.simulated_nvml import Gpu, Process
from support.tracked_program import MEGABYTE, TICKS_PER_SECOND, Samplers
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.simulated_nvml import SimulatedDriver

UNTIL_MEASURED = f"""{UNTIL}
import os
written = set()

def is_measured(path):
    if os.path.exists(path):
        written.add(os.stat(path).st_mtime_ns)
    return len(written) > 1

until(lambda: is_measured({{!r}}))
"""
"""Lets a Python program run until its report was written anew: on Windows is known of it what samples have seen."""

UNKNOWN = {'private_rss': None, 'shared_rss': None}

SEEN = 0.3
"""CPU seconds of the worker that samples have to see: on Windows its parent knows nothing more."""
WORKER = """
import sys, time
block = bytearray(b'1') * 120_000_000
while time.process_time() < 0.5: pass
print(time.process_time(), flush=True)
sys.stdin.read()
"""

PROGRAM = """
import json, subprocess, sys, time
import gpu_tracker as gput

with gput.Tracker(sleep_time=0.05, ram_unit='bytes', time_unit='seconds', **json.loads(sys.argv[1])) as tracker:
    with gput.region('load', part=1):
        block = bytearray(b'1') * 100_000_000
    worker = subprocess.Popen([sys.argv[2], '-c', sys.argv[3]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    worker.stdout.readline()
    deadline = time.monotonic() + 300
    def seen(figure):
        return tracker._run.session.evidence()[figure]['descendants'][0] or 0
    while seen('ram') < 120_000_000 or seen('cpu') <= float(sys.argv[4]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    worker.communicate()
regions = [(region.name, region.attributes, region.has_ended) for region in tracker.regions]
print(json.dumps({'usage': tracker.to_json(), 'regions': regions}))
"""


class OtherSystem:
    """gpu-tracker as on another system, with a folder of its own for temporary files."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.temporary = folder / 'temporary'
        self.temporary.mkdir()
        self.python = interpreter(folder, name)
        self.samplers = Samplers()
        self.environment = {
            **self.samplers.environment,
            'TMPDIR': str(self.temporary),
            'COMPUTERNAME': 'a-windows-machine',
        }

    def run(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        settings = {'capture_output': True, 'text': True, 'timeout': TIMEOUT, 'env': self.environment}
        return subprocess.run([self.python, *words], check=False, **{**settings, **options})

    def gpu_tracker(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return self.run('-m', 'gpu_tracker', *words, **options)

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.python, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment
        )


@pytest.fixture(params=SYSTEMS)
def system(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OtherSystem]:
    """Give another system; in the end nothing may be left of what ran there."""
    made = OtherSystem(request.param, tmp_path)
    yield made
    assert made.samplers.none_left()
    assert os.listdir(made.temporary) == []


class Recorded(NamedTuple):
    """A recording that was made on another system, and what the program has printed."""

    system: OtherSystem
    path: str
    printed: dict[str, Any]


@pytest.fixture
def windows(tmp_path: Path) -> OtherSystem:
    """Return Windows."""
    return OtherSystem('win32', tmp_path)


@pytest.fixture(scope='module', params=SYSTEMS)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """Give the recording of a program that tracks itself."""
    folder = tmp_path_factory.mktemp(request.param)
    made, path = OtherSystem(request.param, folder), str(folder / 'run.db')
    options = {'tracking_file': path, 'per_process': True, 'sections': ['io', 'energy']}
    ended = made.run('-c', PROGRAM, json.dumps(options), sys.executable, WORKER, str(SEEN))
    assert ended.stderr == ''
    yield Recorded(made, path, json.loads(ended.stdout))
    assert made.samplers.none_left()
    assert os.listdir(made.temporary) == []


def test_a_program_that_tracks_itself(recorded: Recorded) -> None:
    usage = recorded.printed['usage']
    ram, cpu = usage['max_ram'], usage['cpu_utilization']
    totals = {group: ram[group]['total_rss'] for group in ('main', 'descendants', 'combined')}
    assert 100 * MEGABYTE < totals['main'] < 150 * MEGABYTE
    assert 120 * MEGABYTE < totals['descendants'] < 160 * MEGABYTE
    assert totals['combined'] > 220 * MEGABYTE
    for group, total in totals.items():
        assert ram[group] == {'total_rss': total, **UNKNOWN}
    assert cpu['descendants']['mean_sum_percent'] * usage['compute_time']['time'] / 100 > SEEN
    assert recorded.printed['regions'] == [['load', {'part': 1}, True]]


def test_a_recording(recorded: Recorded) -> None:
    io, name = recorded.printed['usage']['io'], recorded.system.name
    assert io['main']['read'] is None
    by_calls, faults = io['combined']['read_by_calls'], io['combined']['minor_page_faults']
    assert [by_calls is None, faults is None] == ([True, False] if name == 'darwin' else [False, True])
    shown = recorded.system.gpu_tracker('show', recorded.path, '-f', 'json')
    assert shown.stderr == ''
    meta = json.loads(shown.stdout)['meta']
    assert meta['host'] == ('a-windows-machine' if name == 'win32' else os.uname().nodename)
    exported = recorded.system.gpu_tracker('export', recorded.path, '-f', 'csv')
    assert exported.stdout.startswith('t,')


RUN = """
import json, sys
import gpu_tracker as gput

path, *command = sys.argv[1:]
code, usage = gput.run(command, ram_unit='bytes', tracking_file=path, resource_usage_file=path + '.json')
with open(path + '.json') as file, gput.load(path) as recording:
    same = gput.ResourceUsage.from_json(file.read()) == usage == recording.summary()
    print(json.dumps([code, usage.max_ram.main.total_rss, same, recording.meta.exit_code]))
try:
    gput.run(['no-such-program'])
except FileNotFoundError as error:
    print(json.dumps(error.filename))

@gput.track(report=lambda usage: print(json.dumps(usage.max_ram.unit)))
def work():
    return 0

work()
"""


def until_it_is_there(path: Path | str) -> str:
    """Let a command run until it was measured: on Windows it runs already while the sampler starts."""
    return until(f'[ -s {path} ]')


def test_a_command_and_a_function_of_a_program(system: OtherSystem, tmp_path: Path) -> None:
    path = str(tmp_path / 'run.db')
    command = 'import sys, time; block = bytearray(b"1") * 100_000_000' + UNTIL_MEASURED.format(f'{path}.json')
    ended = system.run('-c', RUN, path, sys.executable, '-c', f'{command}sys.exit(3)')
    assert ended.stderr == ''
    code, ram, same, recorded_code = json.loads(ended.stdout.splitlines()[0])
    assert (code, same, recorded_code) == (3, True, 3)
    assert 100 * MEGABYTE < ram < 150 * MEGABYTE
    assert ended.stdout.splitlines()[1:] == ['"no-such-program"', '"gigabytes"']


def test_a_command(system: OtherSystem, tmp_path: Path) -> None:
    report = tmp_path / 'report.json'
    options = ('--st=0.05', '--ru=bytes', '--tu=seconds', '-f', 'json', '-o', str(report))
    wait = UNTIL_MEASURED.format(f'{report}')
    ended = system.gpu_tracker(*options, '--', sys.executable, '-c', WORKER + wait, stdin=subprocess.DEVNULL)
    assert ended.stderr == ''
    assert ended.returncode == 0
    used = json.loads(report.read_bytes())
    assert b'\r' not in report.read_bytes()
    assert used['max_ram']['main'].items() >= UNKNOWN.items()
    assert 120 * MEGABYTE < used['max_ram']['main']['total_rss'] < 160 * MEGABYTE
    assert used['max_ram']['descendants']['total_rss'] is None  # one that no sample has seen would not be known
    seconds = used['compute_time']['time']
    measured = used['cpu_utilization']['main']['mean_sum_percent'] * seconds / 100
    truth = float(ended.stdout)
    if system.name == 'darwin':
        assert measured == pytest.approx(truth, abs=0.1)  # with the start and the end of the interpreter
    else:
        assert 0.8 * truth < measured < truth + 0.1
    assert seconds > truth - 1 / TICKS_PER_SECOND


def test_a_command_for_the_shell(system: OtherSystem, tmp_path: Path) -> None:
    report = tmp_path / 'report.txt'
    wait = until_it_is_there(report)
    ended = system.gpu_tracker('-f', 'summary', '-o', str(report), '-e', f'echo one && {wait} && exit 3')
    assert report.read_text().startswith('Time ')
    assert ended.stdout == 'one\n'
    assert ended.stderr.endswith('Process completed with status code: 3\n')
    assert ended.returncode == 3


MISTAKES = [
    (['--', 'no-such-program'], 127, "cannot start 'no-such-program': No such file or directory"),
    (['--', '/etc/passwd'], 126, "cannot start '/etc/passwd': Permission denied"),
    (['-f', 'xml', '-e', 'true'], 125, "--format must be text, json, summary or csv, not 'xml'"),
    (['--pid=4194305'], 125, 'See "gpu-tracker explain no-such-process".'),
    (['idle', '-c', '/dev/null'], 125, 'idle runs on Linux only'),
    (['atopgpud'], 125, 'atopgpud runs on Linux only'),
    (['probe', '--', 'true'], 125, 'probe runs on Linux only'),
    (['grant-devices', '--pid=1'], 125, 'grant-devices runs on Linux only'),
    (['region', '--shell'], 125, 'region --shell runs on Linux only'),
]
MISTAKES_ON_WINDOWS = [
    (
        ['watch', '1'],
        125,
        'watching a process needs Linux or another POSIX system: record the process, and watch the recording',
    ),
    (['agent', '--jobs=ranks'], 125, '--jobs needs Linux or another POSIX system'),
]
COMMANDS = """
import json, sys
from gpu_tracker.cli import main
print([main(words) for words in json.loads(sys.argv[1])])
"""


def test_what_fails(system: OtherSystem) -> None:
    mistakes = MISTAKES + (MISTAKES_ON_WINDOWS if system.name == 'win32' else [])
    ended = system.run('-c', COMMANDS, json.dumps([words for words, _, _ in mistakes]))
    assert ended.stdout == f'{[code for _, code, _ in mistakes]}\n'
    for (words, _, message), line in zip(mistakes, ended.stderr.splitlines(), strict=True):
        assert line.startswith('gpu-tracker: '), words
        assert line.endswith(message), words


def test_without_control_groups_a_line_says_so_and_the_command_runs(system: OtherSystem, tmp_path: Path) -> None:
    report = tmp_path / 'report.json'
    words = ('--cgroup', '--nec=allowed', '-f', 'json', '-o', str(report), '-e', until_it_is_there(report))
    ended = system.gpu_tracker(*words)
    assert ended.stderr.splitlines() == [
        'gpu-tracker: --cgroup: the command gets no control group of its own: only Linux has control groups',
        'Resource tracking complete. Process completed with status code: 0',
    ]
    used = json.loads(report.read_text())
    assert used['cpu_utilization']['n_expected_cores'] == os.cpu_count()
    assert not {'control_group', 'own_group'} & used.keys()


def test_without_a_terminal_that_can_be_drawn_on_a_line_says_so_and_the_command_runs(
    windows: OtherSystem, tmp_path: Path
) -> None:
    report = tmp_path / 'report.txt'
    wait = until_it_is_there(report)
    ended = windows.gpu_tracker('--live', '-f', 'summary', '-o', str(report), '-e', wait)
    assert ended.stderr.splitlines()[0].endswith('it needs a terminal of Linux or another POSIX system')
    assert report.read_text().startswith('Time ')
    assert ended.returncode == 0


def test_a_command_that_is_started_in_the_place_of_gpu_tracker(windows: OtherSystem, driver: SimulatedDriver) -> None:
    driver.write(gpus=[Gpu(total=8 * 10**9)])
    environment = {**windows.environment, **driver.environment()}
    command = ('--', 'sh', '-c', 'echo $CUDA_VISIBLE_DEVICES; exit 3')
    chosen = windows.gpu_tracker('available', '-n', '1', *command, env=environment)
    assert (chosen.returncode, chosen.stdout) == (3, '0\n')
    unrecorded = windows.gpu_tracker('region', 'step', *command)
    assert (unrecorded.returncode, unrecorded.stdout) == (3, '\n')


def test_a_command_that_ends_before_anything_is_measured(windows: OtherSystem) -> None:
    ended = windows.gpu_tracker('--', 'true')
    assert ended.stderr == ('gpu-tracker: nothing was measured: the command ended before the sampler was ready\n')
    assert ended.stdout == ''
    assert ended.returncode == 125


def test_a_command_of_a_program_that_ends_before_anything_is_measured(windows: OtherSystem) -> None:
    ended = windows.run('-c', "import gpu_tracker as gput; gput.run(['sh', '-c', 'exit 3'])")
    assert ended.returncode == 1
    assert ended.stderr.endswith(
        'SamplerError: Nothing was measured: the command ended before the sampler was ready.\n'
        'The command has run, and ended with exit code 3.\n'
    )


def test_steps_of_a_command(system: OtherSystem, tmp_path: Path) -> None:
    path = str(tmp_path / 'run.db')
    step = [
        system.python,
        '-m',
        'gpu_tracker',
        'region',
        'step',
        '-a',
        'n=1',
        '--',
        'sh',
        '-c',
        f'{until_it_is_there(path)}; exit 4',
    ]
    ended = system.gpu_tracker(f'--tf={path}', '-f', 'summary', '--', *step)
    assert ended.returncode == 4
    shown = json.loads(system.gpu_tracker('show', path, '-f', 'json').stdout)
    (region,) = shown['regions']
    assert (region['path'], region['calls'], region['errors']) == (['step'], 1, 1)


def test_a_request_to_end_is_passed_on(system: OtherSystem, tmp_path: Path) -> None:
    command = f'trap "echo ended; exit 5" TERM; echo $$ > {tmp_path}/pid; while :; do sleep 0.05; done'
    with system.start('-m', 'gpu_tracker', '-f', 'summary', '--', 'sh', '-c', command) as process:
        number_in(tmp_path / 'pid')
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=TIMEOUT)
    assert output.startswith('ended\n')
    assert process.returncode == 5


def test_a_limit_of_time(system: OtherSystem) -> None:
    stubborn = 'trap "" TERM; sleep 1000 & while :; do sleep 0.05; done'
    ended = system.gpu_tracker('-f', 'json', '--time-limit=1', '--kill-after=0.1', '--', 'sh', '-c', stubborn)
    assert ended.stderr.startswith('gpu-tracker: --time-limit=1 was exceeded: ')
    assert json.loads(ended.stdout)['termination_reason'] == 'time_limit'
    assert ended.returncode == 124
    assert system.samplers.processes() == []


def test_a_process_that_runs_already(system: OtherSystem, target: subprocess.Popen[bytes], tmp_path: Path) -> None:
    report = tmp_path / 'report.json'
    words = ('-m', 'gpu_tracker', f'--pid={target.pid}', '--st=0.05', '--ru=bytes', '-f', 'json', '-o', str(report))
    with system.start(*words) as process:
        eventually(lambda: report.exists() or process.poll() is not None)  # after the first sample
        target.stdin.close()
        target.wait()
        process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0
    assert json.loads(report.read_text())['max_ram']['main']['total_rss'] > 0


STUCK = """
import os, signal, gpu_tracker
tracker = gpu_tracker.Tracker(n_join_attempts=2, join_timeout=0.1)
tracker.start()
os.kill(tracker._run.session.pid, signal.SIGSTOP)
tracker.stop()
"""


def test_a_sampler_that_does_not_answer(system: OtherSystem) -> None:
    ended = system.run('-c', STUCK)
    assert ended.stderr.endswith(
        'The sampler has not answered for 0.2 s and was ended; the result is what it had measured until then.\n'
    )
    assert ended.returncode == 0


def test_a_sampler_that_is_killed(system: OtherSystem) -> None:
    # It needs a CPU to end, and is waited for longer than one that hangs.
    killed = STUCK.replace('SIGSTOP', 'SIGKILL').replace('n_join_attempts=2, join_timeout=0.1', '')
    ended = system.run('-c', killed)
    assert ended.stderr.endswith('The sampler was ended from outside; the result is what it had measured until then.\n')
    assert ended.returncode == 0


def test_the_sampler_ends_with_a_program_that_is_killed(system: OtherSystem) -> None:
    program = "import gpu_tracker; gpu_tracker.Tracker().start(); print('started', flush=True); input()"
    with system.start('-c', program) as process:
        assert process.stdout.readline() == 'started\n'
        assert len(system.samplers.alive()) == 1
        process.kill()
    eventually(lambda: not os.listdir(system.temporary))


def test_the_sampler_ends_also_where_a_worker_of_the_killed_program_goes_on(tmp_path: Path) -> None:
    macos = OtherSystem('darwin', tmp_path)
    program = """
import os, sys, gpu_tracker
gpu_tracker.Tracker().start()
if os.fork():
    print('started', flush=True)
sys.stdin.read()
"""
    with macos.start('-c', program) as process:
        assert process.stdout.readline() == 'started\n'
        process.kill()
        assert macos.samplers.none_left()
        process.stdin.close()


def test_gpus(system: OtherSystem, driver: SimulatedDriver, tmp_path: Path) -> None:
    driver.write(gpus=[Gpu(total=8 * 10**9, used=3 * 10**9, processes=[Process(os.getpid(), memory=2 * 10**9)])])
    environment = {**system.environment, **driver.environment()}
    listed = system.gpu_tracker('gpus', '--json', env=environment)
    assert listed.stderr == ''
    (gpu,) = json.loads(listed.stdout)['gpus']
    assert [process['pid'] for process in gpu['processes']] == [os.getpid()]
    report = tmp_path / 'report.json'
    options = ('--gru=bytes', '-f', 'json', '-o', str(report))
    tracked = system.gpu_tracker(*options, '-e', until_it_is_there(report), env=environment)
    assert tracked.returncode == 0
    assert json.loads(report.read_text())['max_gpu_ram']['system'] == 3 * 10**9


SUB_TRACKED = """
import sys, gpu_tracker
for _ in range(2):
    with gpu_tracker.SubTracker('load', sub_tracking_file=sys.argv[1]):
        sum(range(1000))
"""


@pytest.mark.parametrize('ending', ['csv', 'sqlite'])
def test_code_blocks_as_of_gpu_tracker_5(system: OtherSystem, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f'blocks.{ending}'
    for is_first in (True, False):
        ended = system.run('-c', SUB_TRACKED, str(path))
        assert ended.returncode == 0
        assert ('has code blocks from before this program was started' in ended.stderr) is not is_first
    content = path.read_bytes()
    assert content.count(b'load') >= 8  # two blocks of two programs begin and end
    assert ending == 'sqlite' or b'\r' not in content


def test_pages_and_screens_of_a_recording_over_an_older_one(system: OtherSystem, tmp_path: Path) -> None:
    run, page, report = write_recording(tmp_path / 'run.db'), tmp_path / 'run.html', tmp_path / 'report.txt'
    words = (f'--tf={run}', '--overwrite', '-o', str(report), '-e', until_it_is_there(report))
    assert system.gpu_tracker(*words).returncode == 0
    made = system.gpu_tracker('report', run, '-o', str(page))
    assert (made.stderr, made.returncode) == (f'The report is in {page}\n', 0)
    assert page.read_bytes().startswith(b'<!doctype html>')
    assert 'RAM' in system.gpu_tracker('watch', run).stdout


@pytest.mark.parametrize('name', ['darwin', 'win32'])
def test_a_claim(name: str, driver: SimulatedDriver, tmp_path: Path) -> None:
    made = OtherSystem(name, tmp_path)
    driver.write(gpus=[Gpu(total=8 * 10**9)])
    environment = {**made.environment, **driver.environment(), 'GPU_TRACKER_CLAIMS': str(tmp_path / 'claims')}
    words = ('available', '-n', '1', '--claim', '--', 'sh', '-c', 'exit 3')
    ended = made.gpu_tracker(*words, env=environment)
    assert (ended.returncode, ended.stderr) == (125, 'gpu-tracker: GPUs can be claimed on Linux only\n')
    assert made.gpu_tracker('available', env=environment).stdout == '0\n'


def test_a_rank_of_a_job(system: OtherSystem, tmp_path: Path) -> None:
    folder = str(tmp_path / 'job')
    wait = until(f'[ -n "$(find {folder} -name "*.db" -size +0)" ]')
    environment = {**system.environment, 'JOB_COMPLETION_INDEX': '0'}
    assert system.gpu_tracker(f'--job={folder}', '-e', wait, env=environment).returncode == 0
    merged = json.loads(system.gpu_tracker('merge', folder, '-f', 'json').stdout)
    assert [rank['state'] for rank in merged['ranks']] == ['ended']


AGENT = """
import asyncio, sys

def refuse(*_): raise NotImplementedError

if sys.argv[1] == 'win32':
    asyncio.SelectorEventLoop.add_signal_handler = refuse
from gpu_tracker.cli import main
sys.exit(main(['agent', '--port=0']))
"""


def metrics(url: str) -> bytes:
    with urllib.request.urlopen(f'{url}/metrics', timeout=TIMEOUT) as answer:  # noqa: S310 - the test's own agent
        return answer.read()


def test_an_agent(system: OtherSystem, driver: SimulatedDriver) -> None:
    driver.write(gpus=[Gpu(total=8 * 10**9)])
    environment = {**system.environment, **driver.environment()}
    words = [system.python, '-c', AGENT, system.name]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            url = process.stderr.readline().split()[-1]
            eventually(lambda: b'gpu_tracker_driver_up 1.0' in metrics(url))  # after its first look
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=TIMEOUT)
        finally:
            process.kill()
    assert errors == ''
    assert process.returncode == (130 if system.name == 'win32' else -signal.SIGINT)


STUBBORN = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if len(sys.argv) > 1:
    words = [sys.executable, '-S', '-c', sys.argv[1]]
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    child.stdout.readline()
    with open('pids', 'w') as file:
        print(os.getpid(), child.pid, file=file)
    child.stdin.close()
else:
    print('ready', flush=True)
    sys.stdin.read()
    block = bytearray(b'1') * 120_000_000
while True: pass
"""


@pytest.mark.parametrize(
    ('limit', 'reason'), [('--cpu-limit=1.5', 'cpu_limit'), ('--memory-limit=100MB', 'memory_limit')]
)
def test_a_limit_ends_the_command_with_its_children(
    system: OtherSystem, tmp_path: Path, limit: str, reason: str
) -> None:
    words = ['--', sys.executable, '-S', '-c', STUBBORN, STUBBORN]
    ended = system.gpu_tracker(limit, '--kill-after=0.2', '--st=0.1', '-f', 'json', *words, cwd=tmp_path)
    assert ended.returncode == 124
    assert re.match(rf'gpu-tracker: {limit}( \(100,000,000 bytes\))? was exceeded: ', ended.stderr)
    assert json.loads(ended.stdout)['termination_reason'] == reason
    states = {state_of(int(pid)) for pid in (tmp_path / 'pids').read_text().split()}
    assert states <= {'', 'Z'}  # init reaps the child when it gets round to it
