"""Which GPU a call went to: by the process' own number, and which one of the machine that is."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.cuda_api import Library
from gpu_tracker.cuda_probe.engine.engine import Engine
from gpu_tracker.cuda_probe.kernel_data import UNKNOWN_DEVICE
from gpu_tracker.cuda_probe.libraries import code_file
from gpu_tracker.cuda_probe.limits import Limits
from support.cuda.cuda_comparison import assert_told_truly
from support.cuda.probed_program import opened, probed
from support.cuda_stand_in import stand_in
from support.gpus.gpu_machine import Machine
from support.programs import need_program
from support.simulated_nvml import Gpu
from support.tracked_program import answer

if TYPE_CHECKING:
    from pathlib import Path

VISIBLE = 'CUDA_VISIBLE_DEVICES'
FIRST = 'launch axpy default 1 1 1 1 1 1; wait'
SECOND = f'set_device 1; {FIRST}'
CASES = {
    'no variable': ({}, f'{FIRST}; {SECOND}; set_device 2; {FIRST}', [['GPU-a', 'GPU-b', 'GPU-c']]),
    'in the environment, numbers': ({VISIBLE: '2,0'}, f'{FIRST}; {SECOND}', [['GPU-c', 'GPU-a']]),
    'in the environment, names': ({VISIBLE: 'GPU-c,GPU-b'}, SECOND, [['GPU-b']]),
    'by setenv': ({VISIBLE: '0'}, f'setenv {VISIBLE} 1; {FIRST}', [['GPU-b']]),
    'by putenv': ({}, f'putenv {VISIBLE} 2; {FIRST}', [['GPU-c']]),
    'by unsetenv': ({VISIBLE: '2'}, f'unsetenv {VISIBLE}; {FIRST}', [['GPU-a']]),
    'more than once': ({}, f'setenv {VISIBLE} 0; putenv {VISIBLE} 1; setenv {VISIBLE} 2; {FIRST}', [['GPU-c']]),
    'after the first call': ({VISIBLE: '1'}, f'{FIRST}; setenv {VISIBLE} 2,0; {FIRST}; {SECOND}', [['GPU-b', None]]),
    'none is visible': ({}, f'setenv {VISIBLE} ; {FIRST}', [[None]]),
    'for a child': ({}, f'setenv {VISIBLE} 1; fork {{ {FIRST} }}; reap', [['GPU-b']]),
    'in a child': ({VISIBLE: '1'}, f'fork {{ setenv {VISIBLE} 2; {FIRST} }}; reap; {FIRST}', [['GPU-c'], ['GPU-b']]),
    'for another program': ({}, f'setenv {VISIBLE} 1; exec {{ {FIRST} }}', [['GPU-b']]),
    'in another program': ({VISIBLE: '1'}, f'{FIRST}; exec {{ unsetenv {VISIBLE}; {FIRST} }}', [['GPU-b'], ['GPU-a']]),
    'by another thread': ({}, f'setenv {VISIBLE} 1; threads 1 {{ {FIRST} }}', [['GPU-b']]),
}  # fmt: skip

# Has programs wait until the driver has told the GPUs, and prints the GPUs that were told of each, and of its children.
PROBES = """
import json, os, subprocess, sys
from support.cli_program import eventually
from gpu_tracker.resources.context import open_process_tree
from support.cuda.probed_program import opened

libraries, program, cases = json.loads(sys.argv[1])
with opened(libraries=libraries) as probe:
    running = []
    for variables, script in cases:
        # What holds the device files open may use all of them, whatever its control group is.
        opening = 'read go && exec "$@" 7</dev/nvidia0 8</dev/nvidia1 9</dev/nvidia2'
        words = ['sh', '-c', opening, 'sh', program, script]
        pipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE}
        running.append(subprocess.Popen(words, env=os.environ | variables, text=True, **pipes))
        probe.follow(running[-1].pid)
    probe.start()
    eventually(lambda: probe.report().devices)
    told = []
    for process in running:
        before = len(probe.report().processes)
        line = 'waiting\\n'
        while line == 'waiting\\n':  # what it may open can be seen of it while it lives
            probe.report()
            process.stdin.write('go_on\\n')
            process.stdin.flush()
            line = process.stdout.readline()
        process.communicate()
        assert process.returncode == 0
        told.append([[device.uuid for device in seen.devices] for seen in probe.report().processes[before:]])
    print(json.dumps(told))
"""
# A folder of device files of its own: regular files, that nothing but their names makes those of GPUs.
IN_OWN_FOLDER = 'mount --bind /dev/null "$0/null" && mount --bind "$0" /dev && exec "$@"'


def test_the_gpu_of_the_machine_is_the_one_that_the_variable_chooses(tmp_path: Path):
    need_program('unshare')
    machine = Machine(tmp_path)
    machine.write(gpus=[Gpu(uuid=f'GPU-{letter}') for letter in 'abc'])
    devices = tmp_path / 'dev'
    devices.mkdir()
    for name in ('null', 'nvidia0', 'nvidia1', 'nvidia2'):
        (devices / name).touch()
    libraries = [str(stand_in().runtime), str(stand_in().driver)]
    given = [libraries, str(stand_in().program()), [(variables, script) for variables, script, _ in CASES.values()]]
    told = answer(
        PROBES,
        json.dumps(given),
        words=('unshare', '--mount', 'sh', '-c', IN_OWN_FOLDER, str(devices)),
        env=machine.environment() | {'PYTHONPATH': os.pathsep.join(path for path in sys.path if path)},
    )
    assert dict(zip(CASES, told, strict=True)) == {name: expected for name, (_, _, expected) in CASES.items()}


def test_calls_are_counted_on_the_device_that_the_thread_has_set():
    seen = probed("""
        set_device 2; alloc a 700; launches 3 axpy default 1 1 1 4 1 1
        threads 3 { alloc b 10; launch axpy default 1 1 1 1 1 1; set_device 1; device_sync; set_device 9; alloc c 5 }
        launch axpy default 1 1 1 1 1 1; set_device 0; free a; alloc d 1; sync default
    """)
    assert sorted(seen.truth.devices) == [0, 1, 2]
    assert_told_truly(seen)


def test_a_thread_counts_on_no_known_gpu_once_its_calls_may_have_been_missed():
    runtime = str(stand_in().runtime)
    file = code_file(runtime, runtime, (Library.RUNTIME,))
    assert file is not None
    with opened(libraries=[runtime]):  # skips without the rights
        engine = Engine(Limits(), [file])
    launches = 'launches 100 axpy default 1 1 1 2 1 1; wait'
    script = f'wait; {launches}; {launches}; set_device 0; {launches}'
    with contextlib.closing(engine), stand_in().started(script) as running:
        running.wait_until_waiting()
        number = engine.follow(running.pid)
        assert number is not None
        for step in range(3):
            running.go_on()
            running.wait_until_waiting()
            if step == 0:
                engine.missed_calls(running.pid, number)
        launched = {device.device: device.launches for device in engine.totals().devices}
    assert launched == {0: 200, UNKNOWN_DEVICE: 100}


def test_the_most_memory_is_told_of_each_device_and_of_all_at_once():
    seen = probed("""
        alloc a 1000; alloc b 500; free a
        set_device 1; alloc c 700; alloc d 300; free c
        set_device 0; alloc e 100; free b; free d; alloc f 50
    """)
    assert_told_truly(seen)
    assert [device.memory_max for device in seen.process.devices] == [1500, 1000]
    assert seen.process.memory_max == 1500
    assert seen.process.memory_leaked == 150


def test_a_reset_device_has_nothing_in_use_and_others_keep_what_they_have():
    seen = probed("""
        alloc a 1000; set_device 1; alloc b 70; set_device 0; device_reset; free a; alloc c 300
        launch axpy default 1 1 1 1 1 1; set_device 1; free b; alloc d 5; device_reset; alloc e 7; set_device 0; free c
    """)
    assert seen.truth.failures == {('cudaFree', 1): 1}
    assert_told_truly(seen)
    assert seen.process.memory_leaked == 7


def test_addresses_that_come_again_after_a_reset_are_new_allocations():
    seen = probed('repeat 30 { alloc a 10; alloc b 20; free b; device_reset }; alloc a 10; free a; alloc c 1')
    assert_told_truly(seen)
    assert (seen.process.allocations, seen.process.frees, seen.process.memory_leaked) == (62, 31, 1)
