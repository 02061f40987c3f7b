"""What the probe needs, and the sentence that names what is missing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cuda_probe.engine.attaching import MULTI, PERF, SESSION
from gpu_tracker.cuda_probe.engine.libbpf import open_libbpf
from gpu_tracker.cuda_probe.engine.loading import LoadedObject, read_object
from gpu_tracker.cuda_probe.limits import Limits
from support import tracked_program
from support.cli_program import PROGRAM
from support.cuda_stand_in import stand_in
from support.cuda_stand_in.running import started
from support.gpus.gpu_machine import running, words_as_nobody
from support.programs import need_program
from support.tracked_program import PACKAGE_PARENT, environment

if TYPE_CHECKING:
    from pathlib import Path

TESTS = {'PYTHONPATH': os.pathsep.join(path for path in sys.path if path)}
SCRIPT = 'alloc a 1000; alloc b 500; free a; launches 30 axpy default 2 1 1 64 1 1; sync default; fail_alloc'

COUNTS = """
import sys
from support.cuda.probed_program import probed
from support.cuda.cuda_comparison import assert_told_truly

seen = probed(sys.argv[1])
assert_told_truly(seen)
print(seen.report.engine, seen.process.launches, [failure.count for failure in seen.process.failures])
"""

FOLLOWS = """
import sys
from gpu_tracker.cuda_probe.probe_session import Probe

probe = Probe(libraries=sys.argv[2:])
probe.open()
probe.follow(int(sys.argv[1]))
probe.start()
print('waiting', flush=True)
sys.stdin.readline()
probe.close()
for process in probe.report().processes:
    print(process.pid, process.launches, process.memory_leaked)
print(*probe.report().notes)
"""

OPENS = """
import sys
from gpu_tracker.cuda_probe.probe_session import Probe
from gpu_tracker.errors import ProbeUnavailableError

probe = Probe(engine=None if len(sys.argv) == 1 else sys.argv[1])
try:
    probe.open()
except ProbeUnavailableError as error:
    print(error)
else:
    print('open')
    probe.close()
"""


def needs(tool: str) -> str:
    need_program(tool)
    return tool


def with_capabilities(*names: str) -> tuple[str, ...]:
    """Return the words that start a program as root with these capabilities alone."""
    bounding = ','.join(['-all', *(f'+{name}' for name in names)])
    return (needs('setpriv'), f'--bounding-set={bounding}', '--inh-caps=-all')


def run_words(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)


def opening(*arguments: str, words: tuple[str, ...] = (), changes: dict[str, str] | None = None) -> str:
    """Open a probe in a process of its own; return what comes of it: "open", or why it cannot be."""
    run = tracked_program.run(OPENS, *arguments, words=words, env=environment({**TESTS, **(changes or {})}))
    assert run.stderr == ''
    return run.stdout.rstrip('\n')


def test_two_capabilities_suffice_and_the_counts_are_right() -> None:
    run = tracked_program.run(COUNTS, SCRIPT, words=with_capabilities('bpf', 'perfmon'), env=environment(TESTS))
    assert run.stdout in {'uprobe.session 30 [1]\n', 'uprobe.multi 30 [1]\n'}  # as new as the kernel is


@pytest.mark.parametrize(
    ('has', 'lacks', 'what'),
    [
        ((), 'CAP_PERFMON and CAP_BPF', 'these capabilities'),
        (('bpf',), 'CAP_PERFMON', 'this capability'),
        (('perfmon',), 'CAP_BPF', 'this capability'),
    ],
    ids=['none', 'without CAP_PERFMON', 'without CAP_BPF'],
)
def test_root_without_a_capability_is_told_which(has: tuple[str, ...], lacks: str, what: str) -> None:
    assert opening(words=with_capabilities(*has)) == (
        f'CUDA calls cannot be probed: this process is root without {lacks}, as in a container: start that with {what}.'
    )


def test_perf_events_take_another_capability() -> None:
    assert opening('perf', words=with_capabilities('bpf', 'perfmon')) == (
        'CUDA calls cannot be probed: this process is root without CAP_SYS_ADMIN, as in a container: start that with '
        'this capability.'
    )


def test_the_root_of_a_user_namespace_is_told_so() -> None:
    assert opening(words=(needs('unshare'), '--user', '--map-root-user')) == (
        'CUDA calls cannot be probed: this process is root in a user namespace alone, as in a rootless container; run '
        'it as root outside.'
    )


@pytest.mark.parametrize(
    ('kept', 'why'),
    [
        (None, 'is missing; reinstall gpu-tracker.'),
        (0, 'is damaged; reinstall gpu-tracker.'),
        (9000, 'is damaged; reinstall gpu-tracker.'),
    ],
    ids=['missing', 'empty', 'truncated'],
)
def test_without_the_compiled_probe(tmp_path: Path, kept: int | None, why: str) -> None:
    shutil.copytree(PACKAGE_PARENT / 'gpu_tracker', tmp_path / 'gpu_tracker')
    for path in tmp_path.rglob('*.bpf.o'):
        os.truncate(path, kept or 0)
        if kept is None:
            path.unlink()
    told = opening(changes={'PYTHONPATH': str(tmp_path)})
    assert re.fullmatch(rf'CUDA calls cannot be probed: .*this installation of gpu-tracker {why}', told)


def test_without_libbpf() -> None:
    assert open_libbpf()
    with open('/proc/self/maps', encoding='utf-8') as maps:
        library = next(line.split()[-1] for line in maps if '/libbpf.so.1' in line)
    script = 'mount --bind /dev/null "$1"; shift; exec "$@"'
    assert opening(words=(needs('unshare'), '--mount', 'sh', '-ec', script, 'sh', library)) == (
        'CUDA calls cannot be probed: the library libbpf.so.1 is missing (Debian and Ubuntu have it in libbpf1, Fedora '
        'in libbpf).'
    )


def test_without_the_types_of_the_kernel() -> None:
    script = 'mount -t tmpfs none /sys/kernel/btf; exec "$@"'
    assert opening(words=(needs('unshare'), '--mount', 'sh', '-ec', script, 'sh')) == (
        'CUDA calls cannot be probed: the kernel does not show its types (/sys/kernel/btf/vmlinux): it was built '
        'without CONFIG_DEBUG_INFO_BTF.'
    )


def test_as_another_user_the_sentence_is_told_and_a_command_runs_all_the_same() -> None:
    problem = (
        'CUDA calls cannot be probed: this process lacks CAP_PERFMON and CAP_BPF; run it as root, or give it these '
        'capabilities.'
    )

    def probed(what: str) -> subprocess.CompletedProcess[str]:
        return run_words(words_as_nobody(*PROGRAM, 'probe', '--json', what))

    ran = probed('--execute=exit 5')
    assert (json.loads(ran.stdout), ran.returncode) == ({'problem': problem}, 5)
    assert ran.stderr.splitlines()[0] == f'gpu-tracker: {problem} The command runs without the probe.'
    with running(*words_as_nobody('cat')) as pid:
        looked = probed(f'--pid={pid}')
    assert (looked.stdout, looked.stderr, looked.returncode) == ('', f'gpu-tracker: {problem}\n', 125)


def test_a_program_with_more_rights_than_the_probe_is_counted_and_what_could_not_be_looked_at_is_told() -> None:
    words = with_capabilities('bpf', 'perfmon')
    with stand_in().started(f'wait; {SCRIPT}') as program:
        program.wait_until_waiting()
        command = [*words, sys.executable, '-c', FOLLOWS, str(program.pid), str(stand_in().runtime)]
        with started(command, environment(TESTS)) as probe:
            probe.wait_until_waiting()
            program.go_on()
            program.finish()
            told, _ = probe.process.communicate(b'\n')
    assert told.decode().splitlines()[0] == f'{program.pid} 30 500'
    assert f'Which libraries process {program.pid} has loaded cannot be read' in told.decode()


def test_a_living_process_that_proc_hides_is_no_missing_one() -> None:
    hiding = 'mount -t proc -o hidepid=2 proc /proc && exec "$@"'
    rights = (
        '--reuid=65534',
        '--regid=65534',
        '--clear-groups',
        '--inh-caps=+bpf,+perfmon',
        '--ambient-caps=+bpf,+perfmon',
    )
    words = (needs('unshare'), '--mount', 'sh', '-c', hiding, 'sh', needs('setpriv'), *rights, *PROGRAM, 'probe')
    with running('cat') as pid:
        seen = run_words((*words, f'--pid={pid}'))
        assert seen.stderr == (
            f"gpu-tracker: Process {pid} is another user's, and /proc is mounted with hidepid. Run gpu-tracker "
            "as root, with CAP_SYS_PTRACE, or in the group of /proc's mount option gid. "
            'See "gpu-tracker explain not-permitted".\n'
        )
        assert seen.returncode == 125
    gone = run_words((*words, f'--pid={pid}'))
    assert gone.stderr == (
        f"gpu-tracker: --pid must be the ID of a running process, not '{pid}'. It has ended, or it is in a "
        'container and has another ID there. See "gpu-tracker explain no-such-process".\n'
    )


def test_on_a_kernel_that_does_not_know_links_to_both_ends_the_others_are_used() -> None:
    unknown = read_object().replace(b'bpf_session_is_return', b'bpf_session_is_unborn')
    assert unknown != read_object()
    with pytest.raises(OSError, match=r'.'):
        LoadedObject(open_libbpf(), unknown, Limits(), SESSION)
    for kind in (MULTI, PERF):
        LoadedObject(open_libbpf(), unknown, Limits(), kind).close()
