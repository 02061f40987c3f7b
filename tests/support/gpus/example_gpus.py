"""A machine with eight GPUs, no two of them alike: for tests of what is shown of GPUs, and for the picture of it."""

from __future__ import annotations

from gpu_tracker.gpus.claim import Claim
from gpu_tracker.gpus.model import GpuProcess, GpuReading
from support.gpus.gpu_readings import reading, used_by

NOW = 1_800_000_000.0
USERS = {1000: 'alice', 1001: 'bob'}
A100 = 'NVIDIA A100-SXM4-40GB'
A100_MEMORY = 42_949_672_960
MINUTE = 60
HOUR = 60 * MINUTE


def user_name(user_id: int) -> str:
    """Return the name of a user of the machine."""
    return USERS[user_id]


def uuid(number: int, kind: str = 'GPU') -> str:
    """Return the UUID that has ``number`` everywhere."""
    return f'{kind}-{number:08d}-{number:04d}-{number:04d}-{number:04d}-{number:012d}'


def a100(number: int, *, used: int, utilization: float, temperature: float, clock: int, power: float) -> GpuReading:
    """Return the state of a whole GPU."""
    return reading(
        number,
        uuid(number),
        A100,
        f'00000000:{number + 1:02X}:00.0',
        vendor='nvidia',
        memory_total=A100_MEMORY,
        memory_used=used,
        memory_free=A100_MEMORY - used,
        utilization=utilization,
        temperature=temperature,
        sm_clock=clock * 1_000_000,
        power=power,
        power_limit=400.0,
    )


def idle(number: int) -> GpuReading:
    """Return the state of a GPU that does nothing."""
    return a100(number, used=456_130_560, utilization=0.0, temperature=31.0, clock=210, power=52.3)


def claim(*uuids: str, **differences: object) -> Claim:
    """Return a claim of alice's process 4300 on GPUs."""
    usual = {
        'user_id': 1000,
        'process_id': 4300,
        'made': NOW - 2,
        'expires': None,
        'command': 'python sweep.py --seed 7',
    }
    return Claim(uuids, **(usual | differences))


FREE = used_by(idle(0), ())

IN_USE = used_by(
    a100(1, used=38_211_551_232, utilization=97.0, temperature=64.0, clock=1410, power=287.4),
    (
        GpuProcess(
            4242,
            37_800_000_000,
            'alice',
            NOW - 14 * HOUR - 12 * MINUTE,
            'python -u train.py --epochs 90 --data /scratch/imagenet',
            'train.py',
        ),
    ),
)

SHARED = used_by(
    a100(2, used=21_474_836_480, utilization=58.0, temperature=55.0, clock=1275, power=201.0),
    (
        GpuProcess(5101, 12_000_000_000, 'bob', NOW - 75, 'python evaluate.py', 'evaluate.py'),
        GpuProcess(5102, 6_000_000_000, 'bob', NOW - 70, 'python evaluate.py', 'evaluate.py'),
        GpuProcess(
            5177, 3_000_000_000, 'alice', NOW - 22 * MINUTE, 'python -m ipykernel_launcher -f k.json', 'jupyter'
        ),
    ),
)

UNSEEN = used_by(
    a100(3, used=12_100_000_000, utilization=12.0, temperature=41.0, clock=1095, power=98.6),
    (GpuProcess(999_999, 11_600_000_000),),
)

CLAIMED = used_by(idle(4), (), claim(uuid(4)))

LOST = used_by(reading(5, problem='lost: fallen off the bus or otherwise out of reach (NVML code 15)'))

NOT_PERMITTED = used_by(reading(6, problem='may not be read by this user (NVML code 4)'))


def mig_device(number: int, profile: str, total: int, used: int) -> GpuReading:
    """Return the state of a MIG device of GPU 7."""
    return reading(
        number,
        uuid(70 + number, 'MIG'),
        f'{A100} MIG {profile}',
        vendor='nvidia',
        memory_total=total,
        memory_used=used,
        memory_free=total - used,
    )


_split = a100(7, used=9_300_000_000, utilization=0.0, temperature=44.0, clock=1140, power=131.7)
_split = _split._replace(utilization=None)
_parts = (
    mig_device(0, '3g.20gb', 20_937_965_568, 9_200_000_000),
    mig_device(1, '2g.10gb', 10_468_982_784, 13_107_200),
    mig_device(2, '1g.5gb', 5_100_273_664, 13_107_200),
)
_inferring = GpuProcess(7007, 9_100_000_000, 'bob', NOW - 3 * 24 * HOUR, 'python serve.py --port 8080', 'serve.py')
_for_a_minute = claim(uuid(72, 'MIG'), process_id=None, expires=NOW + 57.2, command=None)

SPLIT = used_by(
    _split,
    (_inferring,),
    None,
    (
        used_by(_parts[0], (_inferring,), parent=_split),
        used_by(_parts[1], (), parent=_split),
        used_by(_parts[2], (), _for_a_minute, parent=_split),
    ),
)

GPUS = (FREE, IN_USE, SHARED, UNSEEN, CLAIMED, LOST, NOT_PERMITTED, SPLIT)

UNIFIED = used_by(
    reading(
        0,
        uuid(0),
        'NVIDIA GB10',
        '0000000F:01:00.0',
        vendor='nvidia',
        utilization=96.0,
        temperature=66.0,
        sm_clock=2_411_000_000,
        power=34.2,
    ),
    (GpuProcess(812, 24_000_000_000, 'alice', NOW - 40, 'python train.py', 'train.py'),),
)
"""A GPU that has no memory of its own."""
