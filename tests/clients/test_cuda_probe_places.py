"""Wherever the runtime is, and whenever it comes, the calls of it are found and counted."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cuda_probe.cuda_api import Library
from gpu_tracker.cuda_probe.libraries import mapped_files
from support import tracked_program
from support.cuda.cuda_comparison import assert_agree
from support.cuda.probed_program import opened
from support.cuda_stand_in import StandIn, stand_in
from support.cuda_stand_in.running import started
from support.gpus.gpu_machine import Machine
from support.programs import need_program
from support.simulated_nvml import Gpu
from support.tracked_program import environment
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpu_tracker.cuda_probe.cuda_report import CudaReport
    from gpu_tracker.cuda_probe.probe_session import Probe
    from support.cuda_stand_in import Ran, Running

WORK = 'alloc a 1000; alloc b 500; free a; launches 30 axpy default 2 1 1 64 1 1; sync default; fail_alloc'
TESTS = {'PYTHONPATH': os.pathsep.join(path for path in sys.path if path)}


def needs(tool: str) -> str:
    need_program(tool)
    return tool


def copied(fake: StandIn, folder: Path) -> Path:
    """Copy the libraries and programs of a stand-in to where nobody looks for them."""
    assert fake.program().exists()
    return shutil.copytree(fake.folder, folder)


def followed(probe: Probe, running: Running) -> None:
    probe.follow(running.pid)
    probe.start()


def finished(probe: Probe, running: Running) -> tuple[Ran, CudaReport]:
    """Let the program go on to its end; return what it says, and the report."""
    running.go_on()
    ran = running.finish()
    assert ran.returncode == 0
    probe.close()
    return ran, probe.report()


def noted(probe: Probe, word: str) -> Callable[[], list[str]]:
    return lambda: [note for note in probe.report().notes if word in note]


def test_of_a_stripped_program_with_the_runtime_linked_in_the_calls_of_the_driver_are_seen() -> None:
    stripped = stand_in().program(static=True, stripped=True)
    with opened(libraries=[str(stand_in().driver)]) as probe:
        for nested in ('0', '1'):
            variables = {'CUDA_STAND_IN_NESTED': nested}
            with stand_in().started(f'wait; {WORK}', program=stripped, environment=variables) as running:
                running.wait_until_waiting()
                probe.follow(running.pid)
                running.go_on()
                assert running.finish().truth.device.launches == 30
        probe.close()
        (process,) = probe.report().processes
    assert (process.pid, process.launches, process.mean_threads, process.synchronisations) == (running.pid, 30, 128, 1)
    assert (process.allocated, process.memory_max, process.memory_leaked) == (1500, 1500, 500)
    assert [(failure.function, failure.error) for failure in process.failures] == [('cuMemAlloc', 2)]


def test_an_unknown_runtime_is_found_when_it_is_loaded_and_the_report_tells_how_late(tmp_path: Path) -> None:
    odd = copied(stand_in(), tmp_path / 'odd')
    alone = shutil.copy(stand_in().program(late=True), tmp_path / 'alone')
    words = ['sh', '-c', 'read go; "$@"', 'sh', str(alone), f'fork {{ load; wait; {WORK} }}; reap']
    with opened() as probe, started(words, {'LD_LIBRARY_PATH': str(odd)}) as running:
        followed(probe, running)
        running.go_on()
        running.wait_until_waiting()
        (note,) = eventually(noted(probe, 'attached'))
        ran, report = finished(probe, running)
    assert_agree(report, ran.processes)
    (process,) = report.processes
    library = odd / 'libcudart.so.12'
    assert re.fullmatch(
        rf'{library} was attached to \d+ ms after process {process.pid} began to load it: what it has called until '
        rf'then is not reported. To lose nothing, name it before: --library={library}.',
        note,
    )


def test_a_library_in_a_mount_namespace_of_its_own_is_reached(tmp_path: Path) -> None:
    mounted = tmp_path / 'mounted'
    mounted.mkdir()
    assert stand_in().program().exists()
    script = 'mount -t tmpfs none "$1" && cp -r "$2"/. "$1" && shift 2 && exec "$@"'
    words = [needs('unshare'), '--mount', 'sh', '-ec', script, 'sh', str(mounted), str(stand_in().folder)]
    with opened() as probe, stand_in().started(f'wait; {WORK}', program=mounted / 'program', words=words) as running:
        running.wait_until_waiting()
        assert not (mounted / 'program').exists()
        followed(probe, running)
        ran, report = finished(probe, running)
    assert_agree(report, ran.processes)
    note, unread = report.notes
    assert note.startswith(f'Process {running.pid} ran before the probe: ')
    assert unread == 'Some kernels are shown as an address: their program ended before its symbols could be read.'


def test_the_libraries_of_a_chroot_are_reached(root: Path) -> None:
    """In the mount namespace of the probe, to which the kernel names the files with the path of that root in front."""
    odd = copied(stand_in(), root / 'odd')
    for file in mapped_files_of(odd / 'program', odd):
        if not file.startswith(str(root)):
            (root / file[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, root / file[1:])
    words = [needs('chroot'), str(root)]
    variables = {'LD_LIBRARY_PATH': '/odd'}
    with (
        mounted(tempfile.gettempdir(), root),  # where the program says what it has done
        opened() as probe,
        stand_in().started(f'wait; {WORK}', program='/odd/program', words=words, environment=variables) as running,
    ):
        running.wait_until_waiting()
        followed(probe, running)
        ran, report = finished(probe, running)
    assert_agree(report, ran.processes)


@pytest.fixture
def root() -> Iterator[Path]:
    """Give a folder that is in none that the chroot has as well, or it would be found there."""
    with tempfile.TemporaryDirectory(dir='/var/tmp') as folder:
        yield Path(folder)


@contextlib.contextmanager
def mounted(folder: str, root: Path) -> Iterator[None]:
    """Have a folder in another root as well."""
    (root / folder[1:]).mkdir(parents=True)
    subprocess.run([needs('mount'), '--bind', folder, root / folder[1:]], check=True)
    try:
        yield
    finally:
        subprocess.run([needs('umount'), root / folder[1:]], check=True)


def mapped_files_of(program: Path, folder: Path) -> list[str]:
    """Return the loader and the libraries that a program is started with."""
    told = subprocess.run(
        [needs('ldd'), program],
        env={**os.environ, 'LD_LIBRARY_PATH': str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return re.findall(r'(/[^ ]+) \(0x', told.stdout)


def test_a_container_with_a_loader_of_its_own_that_starts_while_it_is_probed(tmp_path: Path) -> None:
    odd = copied(stand_in(), tmp_path / 'odd')
    program = stand_in().program(late=True)
    loader = next(file.shown for file in mapped_files(os.getpid()).files if Library.LOADER in file.libraries)
    script = 'read go; cp "$1" "$2"; mount --bind "$2" "$1"; shift 2; exec "$@"'
    words = [needs('unshare'), '--mount', 'sh', '-ec', script, 'sh', os.path.realpath(loader), str(tmp_path / 'loader')]
    with (
        opened() as probe,
        stand_in().started(f'wait; load {odd}/libcudart.so.12; wait; {WORK}', program=program, words=words) as running,
    ):
        followed(probe, running)
        for _ in range(2):
            running.go_on()
            running.wait_until_waiting()
        eventually(noted(probe, 'attached'))
        ran, report = finished(probe, running)
    assert_agree(report, ran.processes)


def test_a_library_that_was_replaced_while_a_program_has_it(tmp_path: Path) -> None:
    odd = copied(stand_in(), tmp_path / 'odd')
    with opened() as probe, stand_in().started(f'wait; {WORK}', program=odd / 'program') as running:
        running.wait_until_waiting()
        shutil.rmtree(odd)
        followed(probe, running)
        ran, report = finished(probe, running)
    assert_agree(report, ran.processes)


def test_a_program_in_a_pid_namespace_is_seen_from_outside_by_its_id_there() -> None:
    words = [needs('unshare'), '--pid', '--fork', '--mount-proc']
    program = stand_in().started(f'wait; {WORK}; fork {{ alloc c 7 }}', words=words)
    with opened(libraries=[str(stand_in().runtime)]) as probe, program as running:
        running.wait_until_waiting()
        followed(probe, running)
        ran, report = finished(probe, running)
    assert [truth.pid for truth in ran.processes] == [1, 2]
    first, second = report.processes
    assert running.pid < first.pid < second.pid
    assert (first.launches, first.memory_max, first.memory_leaked) == (30, 1500, 500)
    assert (second.allocations, second.memory_leaked) == (1, 7)


INSIDE = """
import sys
from support.cuda.cuda_comparison import assert_told_truly
from support.cuda.probed_program import probed

seen = probed(sys.argv[1])
assert_told_truly(seen)
print([process.pid < 100 for process in seen.report.processes])
"""


def test_a_probe_inside_a_pid_namespace_sees_the_programs_inside() -> None:
    words = (needs('unshare'), '--pid', '--fork', '--mount-proc')
    run = tracked_program.run(INSIDE, f'{WORK}; fork {{ alloc c 7 }}', words=words, env=environment(TESTS))
    assert run.stdout == '[True, True]\n'


def test_the_children_of_a_running_program_are_followed_those_from_before_and_those_that_come() -> None:
    script = 'alloc a 10; fork { alloc b 20; wait; alloc c 30; fork { alloc d 40 }; reap }; reap; alloc e 50'
    with opened() as probe, stand_in().started(script) as running:
        running.wait_until_waiting()
        followed(probe, running)
        ran, report = finished(probe, running)
    child, grandchild = ran.children
    assert {process.pid: process.allocated for process in report.processes} == {
        ran.pid: 50,
        child.pid: 30,
        grandchild.pid: 40,
    }
    assert [note.partition(':')[0] for note in report.notes] == [
        f'Process {pid} ran before the probe' for pid in (ran.pid, child.pid)
    ]


def test_different_runtimes_in_one_tree_are_both_probed() -> None:
    fakes = stand_in(), stand_in(version=13)
    programs = [str(fake.program()) for fake in fakes]
    words = ['sh', '-c', 'read go; "$1" "$3"; "$2" "$3; alloc c 7"', 'sh', *programs, WORK]
    with opened(libraries=[str(fake.runtime) for fake in fakes]) as probe, started(words, {}) as running:
        followed(probe, running)
        ran, report = finished(probe, running)
    assert [truth.leaked for truth in ran.processes] == [500, 507]
    assert_agree(report, ran.processes)
    assert not [note for note in report.notes if ' was attached to ' in note]


IN_PYTHON = """
import ctypes, os, sys

sys.stdin.readline()
for number, path in enumerate(sys.argv[1:]):
    os.environ['CUDA_VISIBLE_DEVICES'] = 'GPU-b' if number == 0 else 'GPU-c'
    runtime = ctypes.CDLL(path)
    runtime.cudaMalloc.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t]
    assert runtime.cudaMalloc(ctypes.byref(ctypes.c_void_p()), 1000 + number) == 0
    assert runtime.cudaDeviceSynchronize() == 0
"""

ON_A_MACHINE_WITH_GPUS = """
import sys
from support.cli_program import eventually
from support.cuda_stand_in.running import started
from support.cuda.probed_program import opened

program, *runtimes = sys.argv[1:]
with opened(libraries=runtimes) as probe, started([sys.executable, '-c', program, *runtimes], {}) as running:
    probe.follow(running.pid)
    probe.start()
    running.go_on()
    assert running.finish().returncode == 0
    eventually(lambda: probe.report().devices)
    probe.close()
    for process in probe.report().processes:
        print(process.pid == running.pid, process.allocated, process.synchronisations)
        print(*[(device.ordinal, device.uuid) for device in process.devices])
    print(*[device.uuid for device in probe.report().devices], *probe.report().notes)
"""


def test_python_may_load_several_runtimes_and_choose_its_gpu_by_a_variable(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.write(gpus=[Gpu(uuid=f'GPU-{name}', pci=f'0:0{name}:0.0') for name in 'abc'])
    runtimes = stand_in().runtime, stand_in(version=13).runtime
    variables = {**machine.environment(), **TESTS, 'CUDA_VISIBLE_DEVICES': 'GPU-a'}
    run = tracked_program.run(ON_A_MACHINE_WITH_GPUS, IN_PYTHON, *runtimes, env=variables)
    assert run.stdout.splitlines() == ['True 2001 2', "(0, 'GPU-b')", 'GPU-a GPU-b GPU-c']


ALTERNATING = """
import ctypes, sys

class Dim3(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint) for name in 'xyz']

launches = [ctypes.CDLL(path).cudaLaunchKernel for path in sys.argv[1:]]
for launch in launches:
    launch.argtypes = [ctypes.c_void_p, Dim3, Dim3, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
print('waiting', flush=True)
sys.stdin.readline()
for _ in range(300):
    for launch in launches:
        assert launch(4096, Dim3(1, 1, 1), Dim3(2, 1, 1), None, 0, None) == 0
"""


@pytest.mark.parametrize('nested', ['0', '1'])
def test_launches_through_two_runtimes_from_one_place_are_all_counted(nested: str) -> None:
    runtimes = [str(stand_in().runtime), str(stand_in(version=13).runtime)]
    assert stand_in().driver.exists()
    assert stand_in(version=13).driver.exists()
    command = [sys.executable, '-c', ALTERNATING, *runtimes]
    with opened(libraries=runtimes) as probe, started(command, {'CUDA_STAND_IN_NESTED': nested}) as running:
        running.wait_until_waiting()
        probe.follow(running.pid)
        probe.start()
        running.go_on()
        assert running.process.wait(TIMEOUT) == 0
        probe.close()
    (process,) = probe.report().processes
    assert (process.launches, process.mean_threads) == (600, 2)


@pytest.mark.parametrize('nested', ['0', '1'])
def test_containers_of_one_image_are_each_counted_once(tmp_path: Path, nested: str) -> None:
    image = copied(stand_in(), tmp_path / 'image')
    runs: list[Running] = []
    with opened() as probe, contextlib.ExitStack() as undoing:
        for number in '12':
            folders = [tmp_path / f'{kind}{number}' for kind in ('upper', 'work', 'merged')]
            for folder in folders:
                folder.mkdir()
            upper, work, merged = folders
            options = f'lowerdir={image},upperdir={upper},workdir={work}'
            if subprocess.run(['mount', '-t', 'overlay', 'overlay', '-o', options, merged], check=False).returncode:
                pytest.skip('needs root, with the right to mount overlay file systems')
            undoing.callback(subprocess.run, ['umount', '--lazy', str(merged)], check=True)
            script = f'wait; launches 500 gemm default 1 1 1 8 1 1; {WORK}'
            environment = {'CUDA_STAND_IN_NESTED': nested}
            running = undoing.enter_context(started([str(merged / 'program'), script], environment))
            running.wait_until_waiting()
            probe.follow(running.pid)
            runs.append(running)
        probe.start()
        for running in runs:
            running.go_on()
        truths = [truth for running in runs for truth in running.finish().processes]
        assert_agree(probe.report(), truths)


def test_a_gpu_that_was_chosen_before_the_probe_came_is_not_known_until_one_is_chosen_again() -> None:
    # Who holds a file of the driver open may have called CUDA.
    holding = 'mount -t tmpfs none /dev && : > /dev/nvidiactl && exec 3</dev/nvidiactl && exec "$@"'
    words = [needs('unshare'), '--mount', 'sh', '-ec', holding, 'sh']
    script = (
        'set_device 1; alloc a 10; wait; launches 3 axpy default 1 1 1 1 1 1; alloc b 20; free b; '
        'set_device 2; launches 4 axpy default 1 1 1 1 1 1'
    )
    with opened(libraries=[str(stand_in().runtime)]) as probe, stand_in().started(script, words=words) as running:
        running.wait_until_waiting()
        followed(probe, running)
        _, report = finished(probe, running)
    (process,) = report.processes
    assert {device.ordinal: (device.launches, device.frees) for device in process.devices} == {None: (3, 1), 2: (4, 0)}
    assert process.memory_max == 20


NEIGHBOUR = """
import sys
from support.cuda_stand_in import stand_in
from support.cuda.probed_program import probing

with probing(sys.argv[2]) as (probe, running):
    print(running.pid, stand_in().folder, flush=True)
    sys.stdin.readline()
    running.go_on()
    running.finish()
    probe.close()
    print([(process.pid, process.launches) for process in probe.report().processes])
"""


def test_a_process_with_the_same_id_in_another_pid_namespace_is_another_one() -> None:
    words = [needs('unshare'), '--pid', '--fork', '--mount-proc']
    script = 'launches 10 axpy default 1 1 1 1 1 1'
    command = [*words, sys.executable, '-c', NEIGHBOUR, '', script]
    pipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE, 'text': True}
    with subprocess.Popen(command, env=environment(TESTS), **pipes) as prober:
        pid, folder = prober.stdout.readline().split()
        # Where each process gets the ID after the one before, the last of these has the same one.
        before = f'for n in $(seq {int(pid) - 2}); do sh -c :; done'
        stranger = [*words, 'sh', '-c', f'{before}; "$0/program" "$1"; echo $?', folder, script.replace('10', '700')]
        assert subprocess.run(stranger, check=True, capture_output=True, text=True).stdout.endswith('0\n')
        told, _ = prober.communicate('\n')
    assert told == f'[({pid}, 10)]\n'
