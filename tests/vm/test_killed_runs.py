"""A control group that the kernel kills as a whole for lack of memory (``memory.oom.group``)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support.vm import GROUPS

if TYPE_CHECKING:
    from support.vm import VirtualMachine

GROUP = f'{GROUPS}/killed'
MEBIBYTE = 1 << 20
PROGRAM = """
import gpu_tracker as gput
data = bytearray(b'x') * 40_000_000
gput.Tracker().start()
print('started', flush=True)
data = [bytearray(b'x') * 1_000_000 for _ in range(200)]
"""


def test_a_group_that_is_killed_with_the_sampler_keeps_its_result(machine: VirtualMachine):
    machine.write(f'{GROUPS}/cgroup.subtree_control', '+memory')
    machine.make_group(GROUP)
    machine.write(f'{GROUP}/memory.max', str(120 * MEBIBYTE))
    machine.write(f'{GROUP}/memory.oom.group', '1')
    home = {'HOME': '/tmp'}
    done = machine.run(['python', '-c', PROGRAM], group=GROUP, environment=home)
    assert (done.code, done.output) == (-9, 'started\n')
    assert 'oom_group_kill 1\n' in machine.read(f'{GROUP}/memory.events')
    (found,) = json.loads(machine.run(['gpu-tracker', 'runs', '--json'], environment=home).output)
    assert found['path'] == f'/tmp/.local/state/gpu-tracker/runs/{found["id"]}.run'
    assert found['max_ram'] > 40_000_000
    machine.remove_group(GROUP)
    machine.write(f'{GROUPS}/cgroup.subtree_control', '-memory')
