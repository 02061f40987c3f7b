"""Tracking with ``cuda=True`` and ``--cuda``, with a stand-in for the probe in the table of resources."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from gpu_tracker.installation import install_command
from support.cli_program import gpu_tracker, started, text_of
from support.cuda.table_of_resources import with_stand_in
from support.tracked_program import Samplers, answer, environment, run
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

PROBE = """
from gpu_tracker.cuda_probe.probe_session import open_probe as probe_of
from gpu_tracker.cuda_probe.section import CudaSection
from gpu_tracker.resources.context import open_process_tree
from support.cuda.fake_probe import StandInProbe

class Probe(StandInProbe):
    def follow(self, pid):
        self.followed += open_process_tree('proc', pid).members

def opened(target):
    return CudaSection(probe_of(Probe, target.pid), target.pid)
"""
"""Sees one CUDA program in each process that is there when it begins to look."""

TELLS_TARGET = """
class Section:
    def __init__(self, target):
        self.note = repr([target.pid, sorted(target.descendants), target.command, target.folder])

    def read(self, members):
        return {'engine': 'told', 'notes': [self.note]}

opened = Section
"""

FAILS_LATER = """
class Section:
    looks = 0

    def __init__(self, target):
        pass

    def read(self, members):
        self.looks += 1
        if self.looks > 1:
            raise OSError(5, 'the ring is gone')
        return {'engine': 'told', 'main': {'launches': 7}}

    def close(self):
        pass

opened = Section
"""

NO_EXTRA = "raise ModuleNotFoundError(\"No module named 'lz4'\", name='lz4')\n"
NO_EXTRA_SAID = f"CUDA calls cannot be probed: a package is missing (No module named 'lz4'): {install_command('cuda')}"

NO_RIGHT = """
from gpu_tracker.errors import ProbeUnavailableError

def opened(target):
    raise ProbeUnavailableError('CUDA calls cannot be probed: this process lacks CAP_BPF.')
"""
NO_RIGHT_SAID = 'CUDA calls cannot be probed: this process lacks CAP_BPF.'

SECTIONS = ['max_ram', 'max_gpu_ram', 'cpu_utilization', 'gpu_utilization', 'compute_time']


def installed(folder: Path, source: str) -> dict[str, str]:
    """Return the environment in which a package offers that probe."""
    return environment(with_stand_in(folder, 'opener', source))


def report(folder: Path, source: str, *arguments: str, **options: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the report of a run with --cuda that goes well, and what was printed on standard error."""
    (output := folder / 'output').mkdir()
    words = ['--cuda', '-f', 'json', '--gru=megabytes', '-o', str(output / 'report'), *arguments]
    finished = gpu_tracker(*words, env=installed(folder, source), **options)
    assert finished.returncode == 0, finished.stderr
    return json.loads((output / 'report').read_text()), (finished.stdout + finished.stderr).splitlines()


def test_the_section_stands_after_the_documented_five(tmp_path: Path) -> None:
    found, said = report(tmp_path, PROBE, '-e', 'true')
    assert [name for name in found if name != 'lower_bounds'] == [*SECTIONS, 'cuda']
    # A command as short as this one may have ended before its memory could be read, which is told too.
    assert 'Resource tracking complete. Process completed with status code: 0' in said
    assert not any('CUDA' in line for line in said)
    cuda = found['cuda']
    assert (cuda['problem'], cuda['unit'], cuda['engine'], cuda['seconds']) == (None, 'megabytes', 'uprobe.multi', 10.0)
    assert (cuda['main']['launches'], cuda['main']['memory_max'], cuda['descendants']['launches']) == (1000, 2.0, 0)
    assert cuda['processes'][0]['kernels'][0]['name'] == 'saxpy(float*, int)'


def test_without_the_option_nothing_of_it_is_looked_up(tmp_path: Path) -> None:
    trace = tmp_path / 'trace'
    finished = gpu_tracker('-e', 'true', '-f', 'json', env=installed(tmp_path, f'open({str(trace)!r}, "w")\n{PROBE}'))
    assert finished.returncode == 0
    found = json.loads(finished.stdout.partition('Resource')[0])
    assert [name for name in found if name != 'lower_bounds'] == SECTIONS
    assert not trace.exists()


def test_the_sampler_imports_nothing_for_it() -> None:
    assert (
        answer(
            """
import json, sys
import gpu_tracker.sampler.process, gpu_tracker.sampler.loop, gpu_tracker.sampler.publisher, gpu_tracker.result.formats
import gpu_tracker.tracker
from gpu_tracker.resources import chosen
for entry in chosen(()):
    entry.load()
own = ('gpu_tracker.cuda', 'gpu_tracker.resources.threaded', 'gpu_tracker.totals')
heavy = ('dataclasses', 'importlib.metadata', *own)
print(json.dumps([name for name in sys.modules if name.startswith(heavy)]))
"""
        )
        == []
    )


def test_a_process_and_those_that_it_has_already_are_followed(tmp_path: Path) -> None:
    main, descendants, pids, lines, in_json = answer(
        """
import json, os, subprocess
import gpu_tracker as gput
with subprocess.Popen(['cat'], stdin=subprocess.PIPE) as child:
    with gput.Tracker(cuda=True, gpu_ram_unit='bytes') as tracker:
        pass
    usage = tracker.resource_usage.cuda
    pids = [process.pid for process in usage.processes] == sorted([os.getpid(), child.pid])
text = str(tracker)
lines = text[text.index('CUDA:'):].splitlines()[:4]
in_json = 'cuda' in tracker.to_json()
print(json.dumps([usage.main.launches, usage.descendants.memory_current, pids, lines, in_json]))
""",
        env=installed(tmp_path, PROBE),
    )
    assert (main, descendants, pids, in_json) == (1000, 1_000_000.0, True, True)
    assert lines == ['CUDA:', '   Unit: bytes', '   Engine: uprobe.multi', '   Seconds: 10.0']


@pytest.mark.parametrize(('source', 'said'), [(NO_EXTRA, NO_EXTRA_SAID), (NO_RIGHT, NO_RIGHT_SAID)])
def test_what_is_missing_is_one_warning_and_the_run_goes_on(tmp_path: Path, source: str, said: str) -> None:
    found, lines = report(tmp_path, source, '-e', 'exit 0')
    assert [line for line in lines if 'CUDA' in line] == [f'gpu-tracker: {said}']
    assert 'Resource tracking complete. Process completed with status code: 0' in lines
    assert found['cuda']['problem'] == said
    assert found['cuda']['main']['launches'] is None
    assert found['max_ram']['main']['total_rss'] is not None


def test_the_warning_comes_before_the_command_starts(tmp_path: Path) -> None:
    with started('--cuda', '-f', 'text', 'cat', env=installed(tmp_path, NO_RIGHT), stdin=subprocess.PIPE) as process:
        assert process.stderr.readline() == f'gpu-tracker: {NO_RIGHT_SAID}\n'
        printed, _ = process.communicate('')
    assert process.returncode == 0
    assert f'CUDA:\n   Problem: {NO_RIGHT_SAID}' in printed


def test_warnings_are_not_printed_where_nobody_wants_them(tmp_path: Path) -> None:
    found, lines = report(tmp_path, NO_RIGHT, '--disable-logs', '-e', 'true')
    assert lines == ['Resource tracking complete. Process completed with status code: 0']
    assert found['cuda']['problem'] == NO_RIGHT_SAID


def test_what_fails_later_leaves_what_was_known(tmp_path: Path) -> None:
    found, lines = report(tmp_path, FAILS_LATER, '-e', 'true')
    problem = 'CUDA calls cannot be probed: OSError: [Errno 5] the ring is gone.'
    assert f'gpu-tracker: {problem}' in lines
    assert (found['cuda']['problem'], found['cuda']['main']['launches']) == (problem, 7)


def test_the_probe_is_told_what_will_run_and_where(tmp_path: Path) -> None:
    found, _ = report(tmp_path, TELLS_TARGET, '--', 'sh', '-c', 'echo $$ > pid', cwd=tmp_path)
    pid = int((tmp_path / 'pid').read_text())
    assert found['cuda']['notes'] == [repr([pid, [], ('sh', '-c', 'echo $$ > pid'), str(tmp_path)])]


def test_a_process_that_runs_already_has_no_words(tmp_path: Path) -> None:
    with subprocess.Popen(['cat'], stdin=subprocess.PIPE) as process:
        (output := tmp_path / 'output').mkdir()
        words = (f'--pid={process.pid}', '--cuda', '-f', 'json', '-o', str(output / 'report'))
        with started(*words, env=installed(tmp_path, TELLS_TARGET)) as watching:
            eventually(lambda: text_of(output / 'report'))
            process.stdin.close()
            watching.communicate()
            assert watching.returncode == 0
    assert json.loads((output / 'report').read_text())['cuda']['notes'] == [repr([process.pid, [], (), ''])]


def test_a_killed_sampler_has_left_the_section(tmp_path: Path) -> None:
    launches, warnings = answer(
        """
import json, logging, os, select, signal
import gpu_tracker as gput
records = []
handler = logging.Handler(logging.WARNING)
handler.emit = records.append
logging.getLogger().addHandler(handler)
with gput.Tracker(cuda=True) as tracker:
    handle = os.pidfd_open(tracker._run.session.pid)
    os.kill(tracker._run.session.pid, signal.SIGKILL)
    select.select([handle], [], [])
print(json.dumps([tracker.resource_usage.cuda.main.launches, [record.getMessage() for record in records]]))
""",
        env=installed(tmp_path, PROBE),
    )
    assert launches == 1000
    assert warnings == ['The sampler was ended from outside; the result is what it had measured until then.']


def test_the_file_of_a_program_that_was_killed_has_the_section(tmp_path: Path) -> None:
    usage = tmp_path / 'usage.json'
    samplers = Samplers()
    finished = run(
        f"""
import os
import gpu_tracker as gput
gput.Tracker(cuda=True, resource_usage_file={str(usage)!r}).start()
os._exit(0)
""",
        env=samplers.environment | with_stand_in(tmp_path, 'opener', PROBE),
    )
    assert finished.stderr == ''
    assert samplers.none_left()
    assert json.loads(usage.read_text())['cuda']['main']['launches'] == 1000


def test_processes_read_through_psutil_are_probed_too(tmp_path: Path) -> None:
    launches = answer(
        """
import json
import gpu_tracker as gput
with gput.Tracker(cuda=True) as tracker:
    pass
print(json.dumps(tracker.resource_usage.cuda.combined.launches))
""",
        env=installed(tmp_path, PROBE) | {'GPU_TRACKER_READER': 'psutil'},
    )
    assert launches == 1000


def test_many_programs_find_room(tmp_path: Path) -> None:
    crowd = """
from gpu_tracker.cuda_probe.probe_session import open_probe as probe_of
from gpu_tracker.cuda_probe.section import CudaSection
from support.cuda.fake_probe import StandInProbe, device, process, report

def opened(target):
    crowd = [process(pid, name='x' * 300, command='y' * 300, devices=(device(),) * 16) for pid in range(1, 500)]
    return CudaSection(probe_of(lambda: StandInProbe(report(*crowd)), target.pid), target.pid)
"""
    found, _ = report(tmp_path, crowd, '-e', 'true')
    assert found['cuda']['combined']['launches'] == 499_000
    assert len(found['cuda']['processes']) == 64
    assert os.path.getsize(tmp_path / 'output' / 'report') > 2 * 65_536
