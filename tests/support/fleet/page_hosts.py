"""Hosts and GPUs that were never there: for tests of the page, its pictures in the documentation, and its benchmark."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

from gpu_tracker.fleet.hosts.history import HALF_AN_HOUR, FleetHistory, Past, Series
from gpu_tracker.fleet.hosts.host import UP, HostState
from gpu_tracker.fleet.hosts.report import ClaimReport, GpuReport, HostReport, ProcessReport
from gpu_tracker.fleet.hosts.totals import totals_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_tracker.fleet.hosts.fleet import Fleet

NOW = 1_800_000_000.0
MINUTE = 60
HOUR = 60 * MINUTE
A100 = 'NVIDIA A100-SXM4-40GB'
A100_MEMORY = 42_949_672_960
H100 = 'NVIDIA H100 80GB HBM3'
H100_MEMORY = 85_520_809_984
STEP = 10.0

JOBS = (
    ('alice', 'train.py', 'python -u train.py --epochs 90 --data /scratch/imagenet'),
    ('bob', 'finetune.py', 'torchrun --nproc-per-node 8 finetune.py --config configs/llama.toml'),
    ('chen', 'jupyter', 'python -m ipykernel_launcher -f /run/user/1003/kernel-4711.json'),
    ('dara', 'serve.py', 'python serve.py --model mistral --port 8080'),
    ('eva', 'gmx', 'gmx mdrun -deffnm npt -nb gpu -pme gpu -ntomp 8'),
)


def free_gpu(number: int, **differences: object) -> GpuReport:
    """Return a GPU on which nothing runs."""
    usual = {
        'key': f'GPU-{number}',
        'number': number,
        'uuid': f'GPU-{number:08d}-0000-0000-0000-{number:012d}',
        'pci_bus_id': f'00000000:{number + 1:02X}:00.0',
        'type': A100,
        'status': 'free',
        'utilization_percent': 0.0,
        'memory_total_bytes': A100_MEMORY,
        'memory_used_bytes': 456_130_560,
        'memory_free_bytes': A100_MEMORY - 456_130_560,
        'temperature_celsius': 31.0,
        'sm_clock_hertz': 210_000_000,
        'power_watts': 52.3,
        'power_limit_watts': 400.0,
        'processes': (),
    }
    return GpuReport(**(usual | differences))


def busy_gpu(number: int, **differences: object) -> GpuReport:
    """Return a GPU on which alice trains."""
    usual = {
        'status': 'in_use',
        'utilization_percent': 97.0,
        'memory_used_bytes': 38_211_551_232,
        'memory_free_bytes': A100_MEMORY - 38_211_551_232,
        'temperature_celsius': 64.0,
        'sm_clock_hertz': 1_410_000_000,
        'power_watts': 287.4,
        'processes': (process(4242 + number),),
    }
    return free_gpu(number, **(usual | differences))


def process(pid: int = 4242, **differences: object) -> ProcessReport:
    """Return a process of alice's."""
    user, program, command = JOBS[0]
    usual = {
        'pid': pid,
        'user': user,
        'program': program,
        'command': command,
        'started': NOW - 14 * HOUR - 12 * MINUTE,
        'memory_bytes': 37_800_000_000,
        'computes': True,
    }
    return ProcessReport(**(usual | differences))


def unseen_gpu(number: int) -> GpuReport:
    """Return a GPU that is in use by a process which cannot be looked up."""
    hidden = ProcessReport(999_999, memory_bytes=11_600_000_000, computes=True)
    return busy_gpu(number, status='in_use_unseen', utilization_percent=12.0, processes=(hidden,))


def claimed_gpu(number: int) -> GpuReport:
    """Return a free GPU that alice has claimed."""
    claim = ClaimReport(
        'alice', 1000, 4300, in_another_container=False, made=NOW - 2, command='python sweep.py --seed 7'
    )
    return free_gpu(number, status='claimed', claim=claim)


def lost_gpu(number: int) -> GpuReport:
    """Return a GPU that cannot be read."""
    problem = 'lost: fallen off the bus or otherwise out of reach (NVML code 15)'
    return GpuReport(f'index:{number}', number, status='unreadable', problem=problem)


def split_gpu(number: int) -> GpuReport:
    """Return a GPU with three MIG devices, one of them in use."""
    job = process(7007, user='dara', program='serve.py', command=JOBS[3][2], memory_bytes=9_100_000_000)

    def part(device: int, profile: str, total: int, **differences: object) -> GpuReport:
        usual = {
            'key': f'MIG-{number}-{device}',
            'uuid': f'MIG-{number:08d}-0000-0000-0000-{device:012d}',
            'pci_bus_id': None,
            'type': f'{A100} MIG {profile}',
            'utilization_percent': None,
            'memory_total_bytes': total,
            'memory_used_bytes': 13_107_200,
            'temperature_celsius': None,
            'sm_clock_hertz': None,
            'power_watts': None,
            'power_limit_watts': None,
        }
        return free_gpu(device, **(usual | differences))

    return busy_gpu(
        number,
        status='split',
        utilization_percent=None,
        memory_used_bytes=9_300_000_000,
        processes=(job,),
        mig_devices=(
            part(0, '3g.20gb', 20_937_965_568, status='in_use', memory_used_bytes=9_200_000_000, processes=(job,)),
            part(1, '2g.10gb', 10_468_982_784),
            part(2, '1g.5gb', 5_100_273_664),
        ),
    )


def report(*gpus: GpuReport, hostname: str = 'node', agent: str = 'gpu-tracker 6.0.0', **others: object) -> HostReport:
    """Return what a host reports."""
    return HostReport(hostname, agent, gpus, **others)


def up(host_id: str, name: str, *gpus: GpuReport, group: str | None = None, **others: object) -> HostState:
    """Return a host that has just reported these GPUs, each of which has a UUID that no other host's has."""
    own = [
        gpu._replace(uuid=gpu.uuid and gpu.uuid.replace('-0000-0000-0000-', f'-{host_id:0>4}-0000-0000-'))
        for gpu in gpus
    ]
    return HostState(host_id, name, group, UP, None, NOW, report(*own, hostname=name, **others))


def made_up_hosts(count: int, gpus: int = 8, seed: int = 1) -> list[HostState]:
    """Return a fleet in the middle of a day; the same for the same seed."""
    return [made_up_host(number, gpus, random.Random(seed * 1_000_003 + number)) for number in range(count)]  # noqa: S311


def made_up_host(number: int, gpus: int, chance: random.Random) -> HostState:
    """Return a host whose GPUs are in use here and there."""
    kind, memory = ((A100, A100_MEMORY), (H100, H100_MEMORY))[number % 3 == 2]
    name = f'node{number + 1:03d}'
    job = chance.choice(JOBS)
    listed = []
    for index in range(gpus):
        if chance.random() < 0.2:
            job = chance.choice(JOBS)
        listed.append(_made_up_gpu(number, index, kind, memory, job, chance))
    return up(str(number), name, *listed, group=('training', 'research', 'serving')[number % 3])


def _made_up_gpu(
    host: int, index: int, kind: str, memory: int, job: tuple[str, str, str], chance: random.Random
) -> GpuReport:
    uuid = f'GPU-{host:08x}-{index:04x}-4b1d-9c2e-{host * 64 + index:012x}'
    common = {'key': uuid, 'uuid': uuid, 'type': kind, 'memory_total_bytes': memory}
    if chance.random() < 0.3:
        return free_gpu(index, **common, temperature_celsius=float(chance.randint(27, 36)))
    user, program, command = job
    load, used = chance.uniform(0.35, 1), round(memory * chance.uniform(0.3, 0.98))
    pid = chance.randint(2000, 4_000_000)
    started = NOW - chance.choice((40, 25 * MINUTE, 3 * HOUR, 14 * HOUR, 50 * HOUR)) * chance.uniform(1, 2)
    return busy_gpu(
        index,
        **common,
        utilization_percent=float(round(100 * load)),
        memory_used_bytes=used,
        memory_free_bytes=memory - used,
        temperature_celsius=float(round(38 + 32 * load)),
        sm_clock_hertz=round(1_000 + 410 * load) * 1_000_000,
        power_watts=round(90 + 280 * load, 1),
        processes=(process(pid, user=user, program=program, command=command, started=started, memory_bytes=used),),
    )


def made_up_totals_history(hosts: Sequence[HostState], now: Callable[[], float]) -> FleetHistory:
    """Return a half hour of a fleet in waves that end where it is now; its dashboard stood still for two minutes.

    :param now: Returns seconds since 1970; time goes on as it says.
    """
    totals = totals_of(hosts)
    began = now()
    past = [began - HALF_AN_HOUR]
    history = FleetHistory(lambda: now() if not past else past[0], now)
    busy, used, size = totals.utilization_percent, totals.memory_used_bytes, totals.memory_total_bytes
    for step in range(round(HALF_AN_HOUR / STEP)):
        past[0] += STEP
        if 60 <= step < 72:
            continue
        wave = 0.25 * math.sin(math.pi * (step + 1) / 30) * (1 - step / 180)
        history.record(
            totals._replace(
                utilization_percent=busy and min(100.0, busy * (1 + wave)),
                memory_used_bytes=used and size and min(size, round(used * (1 - wave / 2))),
            )
        )
    past.clear()
    return history


class MadeUpSource:
    """A source whose hosts change when a test says so, and whose GPUs have had a half hour.

    :param seed: Of that half hour.
    """

    def __init__(self, fleet: Fleet, seed: int = 1) -> None:
        self.fleet = fleet
        self._seed = seed
        self.asked: list[str] = []
        """The hosts whose past was asked for."""

    async def run(self) -> None:
        """Change nothing."""

    async def past(self, host_id: str, seconds: float) -> Past | None:
        """Return curves that end where the GPUs are now."""
        host = self.fleet.state(host_id)
        if host is None:
            return None
        self.asked.append(host_id)
        gpus = (host.report.gpus if host.report else None) or ()
        count = max(1, min(180, round(seconds / STEP)))
        return Past(STEP, self.fleet.now(), {gpu.key: self._series(gpu, count) for gpu in gpus})

    def _series(self, gpu: GpuReport, count: int) -> Series:
        chance = random.Random(f'{self._seed} {gpu.key}')  # noqa: S311 - a picture, not a secret
        began = 0 if gpu.status == 'free' and chance.random() < 0.7 else chance.randint(0, count)
        phase, pace = chance.uniform(0, 6), chance.uniform(0.05, 0.3)
        busy = gpu.utilization_percent or chance.uniform(40, 95)
        was_busy = gpu.status != 'free'

        def load(step: int) -> float | None:
            if gpu.utilization_percent is None:
                return None
            if (step >= began) != was_busy:
                return 0.0
            return round(min(100.0, max(0.0, busy + 6 * math.sin(phase + pace * step) + chance.uniform(-5, 5))), 1)

        memory = gpu.memory_used_percent
        return Series(
            [load(step) for step in range(count)],
            [
                None if memory is None else round(memory if (step >= began) == was_busy else 1.1, 1)
                for step in range(count)
            ],
        )
