"""The real atop and atopsar, which show what atopgpud tells them of simulated GPUs.

They take a sample when the daemon has read the GPUs as they are then, so that of a sum only the number of summands is
left to chance.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from support.atop.atop_daemon import AtopDaemon
from support.atop.honest_client import samples
from support.atop.real_atop import Atop, Atopsar
from support.gpus.gpu_machine import GIB, Machine, running, sees_all_processes
from support.simulated_nvml import GPU_IS_LOST, Failure, Gpu, Process
from support.tracked_program import as_root
from support.waiting import eventually

if TYPE_CHECKING:
    from support.atop.atop_client import AtopClient
    from support.own_network import OwnNetwork

pytestmark = [as_root, sees_all_processes]

MANY_INTERVAL = 0.25
"""The simulated driver reads the figures of 1,600 processes anew at each call."""

LOST = 0
"""What the daemon tells of the size of a lost GPU's memory."""

H200 = Gpu(name='NVIDIA H200', pci='00000000:17:00.0', total=80 * GIB, used=6 * GIB, util=75, memory_util=40)
OLD = Gpu(name='NVIDIA GeForce GT 710', pci='00000000:65:00.0', total=2 * GIB, used=GIB, util=None, memory_util=None)


def gpu_line(start: str, shown: str) -> str:
    """Return a line that ends with as many samples as the shown one has, and the sums of figures that are as now.

    What is unknown, -1, stays so.
    """
    busy, memory_busy, _, memory = map(int, start.split()[3:])
    count = int(shown.split()[7])
    assert count > 0
    busy_total, memory_busy_total = (-1 if figure == -1 else figure * count for figure in (busy, memory_busy))
    return f'{start} {count} {busy_total} {memory_busy_total} {memory * count}'


def process_line(start: str, shown: str) -> str:
    """Return a line that ends with the sum of a memory that is as now, and as many samples as the shown line has."""
    memory, count = (int(line.rpartition(' ')[2]) for line in (start, shown))
    return f'{start} {memory * count} {count}'


def read_anew(client: AtopClient) -> None:
    """Wait until the daemon has read each GPU that is not lost twice, and so once as it is now."""
    before = samples(client)

    def is_read() -> bool:
        gpus = client.statistics()
        return all(gpu.memory_size == LOST or gpu.samples >= was + 2 for gpu, was in zip(gpus, before, strict=True))

    eventually(is_read)


def test_processes_that_live_and_end_on_two_gpus(machine: Machine, network: OwnNetwork) -> None:
    with running() as lives, ExitStack() as programs:
        ending = programs.enter_context(ExitStack())
        ends = ending.enter_context(running())
        on_h200 = Process(lives, memory=2 * GIB, sm=60, memory_util=30)
        on_old = Process(lives, memory=GIB // 4, sm=10, memory_util=5)
        brief = Process(ends, memory=GIB // 2, sm=20, memory_util=10)
        machine.write(gpus=[replace(H200, processes=[on_h200]), replace(OLD, processes=[on_old, brief])])
        daemon = programs.enter_context(AtopDaemon(machine, network=network))
        client = programs.enter_context(daemon.over_tcp())
        atop = programs.enter_context(Atop(network, 3))

        gpus, processes = atop.sample()
        assert gpus == [
            gpu_line('0 0000:17:00.0 NVIDIA_H200 75 40 83886080 6291456', gpus[0]),
            gpu_line('1 0000:65:00.0 Force_GT_710 -1 -1 2097152 1048576', gpus[1]),
        ]
        # A process that is on two GPUs is shown with the sums of their figures.
        assert processes[lives].startswith('S A 2 3 70 35 2359296 ')
        assert processes[ends] == process_line('S A 1 2 20 10 524288', processes[ends])

        ending.close()
        on_h200 = Process(lives, memory=3 * GIB, sm=50, memory_util=25)
        h200 = replace(H200, processes=[on_h200], util=50, memory_util=20, used=7 * GIB)
        machine.write(gpus=[h200, replace(OLD, processes=[on_old], used=GIB // 2)])
        read_anew(client)
        gpus, processes = atop.sample()
        assert gpus[0].startswith('0 0000:17:00.0 NVIDIA_H200 50 20 83886080 7340032 ')
        assert gpus[1].startswith('1 0000:65:00.0 Force_GT_710 -1 -1 2097152 524288 ')
        # It has ended, as atop has seen for itself, and was on one GPU, the second: bit 2.
        assert processes[ends] == process_line('E E 1 2 20 10 524288', processes[ends])

        read_anew(client)
        gpus, processes = atop.sample()
        assert gpus == [
            gpu_line('0 0000:17:00.0 NVIDIA_H200 50 20 83886080 7340032', gpus[0]),
            gpu_line('1 0000:65:00.0 Force_GT_710 -1 -1 2097152 524288', gpus[1]),
        ]
        first, second = (int(gpu.split()[7]) for gpu in gpus)
        total = 3145728 * first + 262144 * second
        assert processes[lives] == f'S A 2 3 60 30 3407872 {total} {first + second}'
        assert ends not in processes


def test_atopsar_shows_a_gpu_without_utilization_and_one_that_is_lost_and_comes_back(
    machine: Machine, network: OwnNetwork
) -> None:
    machine.write(gpus=[H200, OLD])
    with (
        AtopDaemon(machine, network=network) as daemon,
        daemon.over_tcp() as client,
        Atopsar(network, 4, gpus=2) as atopsar,
    ):
        assert atopsar.head == 'busaddr gpubusy membusy memocc memtot memuse gputype _gpu_'
        h200 = '0/0000:17:0 75% 40% 7% 81920M 6144M NVIDIA_H200'
        old = '1/0000:65:0 N/A N/A 50% 2048M 1024M Force_GT_710'
        read_anew(client)
        assert atopsar.sample() == [h200, old]
        machine.write(gpus=[H200, OLD], fail=[Failure('nvmlDevice*', GPU_IS_LOST, gpu=0)])
        eventually(lambda: client.statistics()[0].memory_size == LOST)
        read_anew(client)
        assert atopsar.sample() == ['0/0000:17:0 N/A N/A 0% 0M 0M NVIDIA_H200', old]
        machine.write(gpus=[H200, OLD])
        eventually(lambda: client.statistics()[0].memory_size != LOST)
        for _ in range(2):
            read_anew(client)
            assert atopsar.sample() == [h200, old]


def test_eight_gpus_with_200_processes_each(machine: Machine, network: OwnNetwork) -> None:
    """There is no room for all: atop goes on to show the GPUs, and the processes with the most memory."""
    with running() as large, running() as local, running() as small, ExitStack() as programs:
        others = [Process(pid, memory=GIB // 64, sm=1) for pid in range(3_000_000, 3_000_198)]
        on_each = [*others, Process(large, memory=2 * GIB, sm=10, memory_util=5)]
        on_last = [*on_each, Process(local, memory=4 * GIB, sm=20, memory_util=10)]
        on_first = [*on_each, Process(small, memory=GIB // 1024, sm=1)]
        on_others = [*on_each, Process(4_000_000, memory=0)]
        gpus = [
            replace(H200, pci=f'00000000:{number}0:00.0', processes=processes)
            for number, processes in enumerate([on_first, *[on_others] * 6, on_last])
        ]
        assert [len(gpu.processes) for gpu in gpus] == [200] * 8
        machine.write(gpus=gpus)
        daemon = programs.enter_context(AtopDaemon(machine, network=network, interval=MANY_INTERVAL))
        client = programs.enter_context(daemon.over_tcp())
        atop = programs.enter_context(Atop(network, 3))
        for _ in range(3):
            read_anew(client)
            shown, processes = atop.sample()
            assert len(shown) == 8
            assert shown == [
                gpu_line(f'{number} 0000:{number}0:00.0 NVIDIA_H200 75 40 83886080 6291456', line)
                for number, line in enumerate(shown)
            ]
            assert processes[large].startswith('S A 8 ff 80 40 16777216 ')
            assert processes[local] == process_line('S A 1 80 20 10 4194304', processes[local])
            assert processes[small].startswith('S N ')  # atop knows it, and of no GPU that it uses
        assert eventually(lambda: re.search(r'the \d+ smallest processes were left out', daemon.log))
