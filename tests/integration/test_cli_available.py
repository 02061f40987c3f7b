"""``gpu-tracker available``: which GPUs it names, and what it says of those that it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.cli_program import called
from support.gpus.gpu_machine import GB, NO_SUCH_PROCESS, Machine
from support.simulated_nvml import Failure, Gpu, Mig, Process

if TYPE_CHECKING:
    from pathlib import Path

EIGHT = [
    Gpu(total=40 * GB, used=GB, util=0, temperature=31, power_limit=400_000),
    Gpu(total=40 * GB, used=38 * GB, util=97, temperature=64, processes=[Process(NO_SUCH_PROCESS, memory=37 * GB)]),
    Gpu(total=40 * GB, used=8 * GB, util=58, temperature=55, power_limit=300_000),
    Gpu(uuid='GPU-3a', total=80 * GB, util=4, temperature=50, power_limit=700_000),
    Gpu(total=None, uuid='GPU-3b', processes=[Process(1)]),
    Gpu(
        total=80 * GB,
        used=9 * GB,
        temperature=44,
        power_limit=500_000,
        mig=[Mig(uuid='MIG-5-0', gi=1, total=20 * GB, used=9 * GB), Mig(uuid='MIG-5-1', gi=2, total=10 * GB, used=0)],
    ),
    Gpu(missing=True),
    Gpu(total=40 * GB),
]
NOT_PERMITTED = [Failure('nvmlDevice*', 4, gpu=7)]
ZERO, TWO = 'GPU-00000000-0000-0000-0000-000000000000', 'GPU-00000000-0000-0000-0000-000000000002'
HINT = "Try 'gpu-tracker available --help'.\n"
SIZE = 'a size with its unit, such as 10GB (powers of 1000), 8GiB or 8G (powers of 1024)'

IN_USE = '  GPU 1 (NVIDIA Simulated GPU): 95.0 % of its memory is in use; at most 20 % may be\n'
BUSY = '  GPU 2 (NVIDIA Simulated GPU): its utilization is 58 %; a free GPU has less than 5 %\n'
UNIFIED = '  GPU 4 (NVIDIA Simulated GPU): a process computes on it\n'
SPLIT = '  GPU 5 (NVIDIA Simulated GPU): in MIG mode; its MIG devices are chosen by UUID\n'
LOST = '  GPU 6: lost: fallen off the bus or otherwise out of reach (NVML code 15)\n'
CLOSED = '  GPU 7: may not be read by this user (NVML code 4)\n'


@pytest.fixture
def eight(machine: Machine) -> Machine:
    machine.write(gpus=EIGHT, fail=NOT_PERMITTED)
    return machine


def test_free_gpus_are_named(eight: Machine) -> None:
    named = [
        ([], '3,0'),
        (['-l', '1'], '3'),
        (['--limit=2'], '3,0'),
        (['-n', '1'], '3'),
        (['--max-used-percent=20'], '0,2,3'),
        (['--max-used-percent=20', '--order=free'], '3,0,2'),
        (['--max-used-percent=2', '--max-utilization=60'], '3'),
        (['--max-used-percent=19.9'], '0,3'),
        (['--max-used-percent=100'], '0,1,2,3,4'),
        (['--max-utilization=58'], '3,0,2'),
        (['--min-free=30GiB'], '3,0'),  # 32 GB are 29.8 GiB
        (['--max-temperature=50'], '3,0'),
        (['--order=index'], '0,3'),
        (['--order=power', '-l', '2'], '3,0'),
        ([f'--exclude=3, {ZERO}', '--max-used-percent=20'], '2'),
        (['--exclude=GPU-3a'], '0'),
        (['--uuid'], f'GPU-3a,{ZERO},MIG-5-1'),
        (['--uuid', '--order=power'], f'GPU-3a,MIG-5-1,{ZERO}'),
        (['--uuid', '--exclude=0,MIG-5-1', '--max-used-percent=50'], f'{TWO},GPU-3a,MIG-5-0'),
        (['--uuid', '--max-temperature=44'], f'{ZERO},MIG-5-1'),  # a MIG device is as hot as its GPU
    ]
    told = eight.told_each(*(['available', *arguments] for arguments, _ in named))
    assert told == [(0, f'{gpus}\n', '') for _, gpus in named]


def test_where_too_few_are_free_each_gpu_has_its_reason(eight: Machine) -> None:
    said = {
        '-n 4': f'2 GPUs are available, not 4\n{IN_USE}{BUSY}{UNIFIED}{SPLIT}{LOST}{CLOSED}',
        '-n 2 --max-utilization=3': (
            '1 GPU is available, not 2\n'
            f'{IN_USE}'
            '  GPU 2 (NVIDIA Simulated GPU): its utilization is 58 %; at most 3 % may be\n'
            '  GPU 3 (NVIDIA Simulated GPU): its utilization is 4 %; at most 3 % may be\n'
            f'{UNIFIED}{SPLIT}{LOST}{CLOSED}'
        ),
        '-l 1 --max-temperature=30.5': (
            'no GPU is available\n'
            '  GPU 0 (NVIDIA Simulated GPU): it has 31 °C; at most 30.5 °C may be\n'
            f'{IN_USE}'
            f'{BUSY}'
            '  GPU 3 (NVIDIA Simulated GPU): it has 50 °C; at most 30.5 °C may be\n'
            f'{UNIFIED}{SPLIT}{LOST}{CLOSED}'
        ),
        '--min-free=96GiB --max-used-percent=100': (
            'no GPU is available\n'
            '  GPU 0 (NVIDIA Simulated GPU): 39.0 GB of its memory are free; 103.079 GB must be\n'
            '  GPU 1 (NVIDIA Simulated GPU): 2.0 GB of its memory are free; 103.079 GB must be\n'
            '  GPU 2 (NVIDIA Simulated GPU): 32.0 GB of its memory are free; 103.079 GB must be\n'
            '  GPU 3 (NVIDIA Simulated GPU): 80.0 GB of its memory are free; 103.079 GB must be\n'
            '  GPU 4 (NVIDIA Simulated GPU): its free memory is not reported\n'
            f'{SPLIT}{LOST}{CLOSED}'
        ),
        '--uuid -n 5': (
            '3 GPUs are available, not 5\n'
            f'{IN_USE}{BUSY}{UNIFIED}'
            '  GPU 5 MIG 0 (NVIDIA Simulated GPU MIG 1g): 45.0 % of its memory is in use; at most 20 % may be\n'
            f'{LOST}{CLOSED}'
        ),
    }
    told = eight.told_each(*(['available', *arguments.split()] for arguments in said))
    assert told == [(1, '', f'gpu-tracker: {text}') for text in said.values()]


def test_waiting_ends_at_once_where_it_cannot_help(eight: Machine) -> None:
    for wish in (['-n', '6'], ['--min-free=96GiB', '--max-used-percent=100'], ['--exclude=0,1,2,3,4,5']):
        assert eight.told('available', '--wait', *wish) == eight.told('available', *wish)


def test_wrong_arguments_are_named() -> None:
    complaints = [
        (['-l', '0'], "--limit must be a positive whole number, not '0'\n"),
        (['-l', 'two'], "--limit must be a positive whole number, not 'two'\n"),
        (['-n', '1.5'], "--count must be a positive whole number, not '1.5'\n"),
        (['-n', '-1'], "--count must be a positive whole number, not '-1'\n"),
        (['--max-used-percent=all'], "--max-used-percent must be a number, not 'all'\n"),
        (['--max-used-percent=101'], "--max-used-percent must be a percentage from 0 to 100, not '101'\n"),
        (['--max-utilization=nan'], "--max-utilization must be a percentage from 0 to 100, not 'nan'\n"),
        (['--max-temperature=warm'], "--max-temperature must be a number, not 'warm'\n"),
        (['--min-free=10'], f"--min-free must be {SIZE}, not '10'\n"),
        (['--min-free=GB'], f"--min-free must be {SIZE}, not 'GB'\n"),
        (['--order=best'], "--order must be index, free or power, not 'best'\n"),
        (['--wait-seconds=0'], "--wait-seconds must be a positive number of seconds, not '0'\n"),
        (['--wait-seconds=long'], "--wait-seconds must be a number, not 'long'\n"),
        (['--claim', '--claim-seconds=-1'], "--claim-seconds must be a positive number of seconds, not '-1'\n"),
        (
            ['-l', '1', '-n', '1'],
            f'use either --limit (at most) or --count (exactly), not both\n{HINT}',
        ),
        (['--claim'], f'--claim needs --claim-seconds or a command\n{HINT}'),
        (['--claim-seconds=9'], f'--claim-seconds needs --claim\n{HINT}'),
        (['--nonsense'], f'unknown option --nonsense\n{HINT}'),
        (['--wait=5'], f'--wait takes no value\n{HINT}'),
        (['-n'], f'-n needs a value\n{HINT}'),
        (['-l', '1', '-l', '1'], f'-l was given twice\n{HINT}'),
        (['--'], f'the command is empty\n{HINT}'),
        (['-l', '1', '-5'], f'unknown option -5\n{HINT}'),
    ]
    told = [called('available', *arguments) for arguments, _ in complaints]
    assert [(one.returncode, one.stdout) for one in told] == [(125, '')] * len(complaints)
    assert [one.stderr for one in told] == [f'gpu-tracker: {complaint}' for _, complaint in complaints]


def test_gpus_to_be_left_out_must_be_there(eight: Machine) -> None:
    indices = '(indices here: 0, 1, 2, 3, 4, 5, 6, 7)'
    for given in ('8', 'GPU-3'):  # the latter begins two UUIDs
        complaint = f"gpu-tracker: --exclude must be the index or UUID of a GPU {indices}, not '{given}'\n"
        assert eight.told('available', f'--exclude=0,{given}') == (125, '', complaint)
    assert not eight.claims.exists()


def test_help_and_version() -> None:
    told = called('available', '--help')
    assert (told.returncode, told.stderr) == (0, '')
    assert told.stdout.startswith('Lists the free GPUs of this machine, or runs a command on them.\n')
    assert called('available', '-v').stdout == 'gpu-tracker 6.0.0\n'


def test_visible_devices_limit_the_choice(machine: Machine) -> None:
    machine.write(gpus=[Gpu(uuid=uuid, total=GB) for uuid in ('GPU-b1', 'GPU-b2', 'GPU-a')])
    named = {
        '1,0': '0,1',  # what is visible, in the order that was asked for
        '2': '2',
        '0,-1,2': '0',  # CUDA reads up to the first that is none
        '0,9,2': '0',
        'GPU-a': '2',
        'GPU-B1,GPU-a': '0,2',
    }
    told = machine.told_each(*([f'CUDA_VISIBLE_DEVICES={value}', 'available'] for value in named))
    assert told == [(0, f'{gpus}\n', '') for gpus in named.values()]
    none = ['', '-1', 'GPU-b,GPU-a', 'MIG-a', 'none']  # two UUIDs begin with GPU-b
    told = machine.told_each(*([f'CUDA_VISIBLE_DEVICES={value}', 'available', '--wait'] for value in none))
    for (code, output, errors), value in zip(told, none, strict=True):
        reasons = [f'  GPU {number}: left out by CUDA_VISIBLE_DEVICES={value}\n' for number in range(3)]
        assert (code, output, errors) == (1, '', f'gpu-tracker: no GPU is available\n{"".join(reasons)}')


def test_a_visible_gpu_stands_for_its_mig_devices_and_a_mig_device_for_itself(eight: Machine) -> None:
    assert eight.available('--uuid', env={'CUDA_VISIBLE_DEVICES': 'MIG-5-1'}) == 'MIG-5-1'
    assert eight.available('--uuid', env={'CUDA_VISIBLE_DEVICES': '5,3'}) == 'GPU-3a,MIG-5-1'


def test_an_index_that_cuda_may_read_otherwise_is_warned_of(machine: Machine) -> None:
    machine.write(gpus=[Gpu(name='NVIDIA T4', total=GB), Gpu(name='NVIDIA H100', total=GB)])
    chosen = {'CUDA_VISIBLE_DEVICES': '1'}
    assert machine.told('available', env=chosen) == (
        0,
        '1\n',
        (
            'gpu-tracker: CUDA_VISIBLE_DEVICES=1 was read in PCI bus order, but CUDA uses another order by '
            'default: set CUDA_DEVICE_ORDER=PCI_BUS_ID\n'
        ),
    )
    assert machine.available(env=chosen | {'CUDA_DEVICE_ORDER': 'PCI_BUS_ID'}) == '1'


def test_indices_are_in_pci_bus_order_whatever_the_driver_s_is(machine: Machine) -> None:
    machine.write(
        gpus=[
            Gpu(uuid='GPU-a', pci='00000000:C1:00.0', total=10 * GB, used=9 * GB),
            Gpu(uuid='GPU-b', pci='00000000:41:00.0', total=10 * GB),
            Gpu(uuid='GPU-c', pci='00000000:01:00.0', total=10 * GB),
        ]
    )
    assert machine.available() == '0,1'
    assert machine.available('--uuid') == 'GPU-c,GPU-b'


def test_a_gpu_that_is_lost_before_others_may_move_their_indices(machine: Machine) -> None:
    gpus = [Gpu(total=GB), Gpu(total=GB), Gpu(total=GB)]
    machine.write(gpus=gpus, fail=[Failure('nvmlDeviceGetMemoryInfo*', 15, gpu=1)])  # it is opened, and lost then
    warning = 'gpu-tracker: GPU 1 cannot be read, so CUDA may number the remaining GPUs differently: use --uuid\n'
    assert machine.told('available') == (0, '0,2\n', warning)
    assert machine.available('-l', '1') == '0'
    assert machine.available('--uuid', '--exclude=0') == TWO


def test_unified_memory_is_free_while_nothing_computes_on_it(machine: Machine) -> None:
    machine.write(
        gpus=[
            Gpu(total=None, processes=[Process(NO_SUCH_PROCESS, types='G')]),
            Gpu(total=0),
            Gpu(total=None, processes=[Process(NO_SUCH_PROCESS), Process(1)]),
            Gpu(total=None),
        ],
        fail=[Failure('nvmlDeviceGet*RunningProcesses*', 3, gpu=3)],
    )
    assert machine.available() == '0,1'
    assert machine.told('available', '-n', '3')[2] == (
        'gpu-tracker: 2 GPUs are available, not 3\n'
        '  GPU 2 (NVIDIA Simulated GPU): 2 processes compute on it\n'
        '  GPU 3 (NVIDIA Simulated GPU): neither its memory nor its processes are reported\n'
    )


def test_what_is_not_reported_is_not_within_a_limit(machine: Machine) -> None:
    machine.write(gpus=[Gpu(total=GB, util=None)])
    start = 'gpu-tracker: no GPU is available\n  GPU 0 (NVIDIA Simulated GPU): its'
    assert machine.told('available', '--max-utilization=99') == (1, '', f'{start} utilization is not reported\n')
    assert machine.told('available', '--wait', '--max-temperature=99') == (
        1,
        '',
        f'{start} temperature is not reported\n',
    )


def test_a_machine_without_a_gpu(machine: Machine, tmp_path: Path) -> None:
    told = (
        'gpu-tracker: no GPU is available\n  this machine has no GPU with a driver. '
        'See "gpu-tracker explain no-gpu-driver".\n'
    )
    nothing = (1, '', told)
    assert machine.told('available') == nothing  # the library answers that no driver is loaded
    machine.write(gpus=[])
    assert machine.told('available', '--wait') == nothing
    (tmp_path / 'libnvidia-ml.so.1').write_text('')
    assert machine.told('available', env={'LD_LIBRARY_PATH': str(tmp_path)}) == nothing


def test_driver_trouble_is_no_lack_of_gpus(machine: Machine) -> None:
    machine.write(gpus=[Gpu(total=GB)], fail=[Failure('nvmlInit*', 18)])
    code, printed, errors = machine.told('available', '-l', '1', '--', 'echo', 'ran')
    assert (code, printed) == (125, '')
    assert errors.startswith('gpu-tracker: The NVIDIA driver and its library have different versions (NVML code 18)')


@pytest.mark.parametrize(
    ('option', 'asks'), [('--order=index', False), ('--max-temperature=90', True), ('--order=power', True)]
)
def test_sensors_are_read_only_if_they_decide(machine: Machine, option: str, asks: bool) -> None:
    machine.write(gpus=[Gpu(total=GB, temperature=30, power_limit=500_000)])
    assert machine.available(option) == '0'
    assert ('nvmlDeviceGetTemperature' in machine.driver.calls()) is asks
    assert ('nvmlDeviceGetEnforcedPowerLimit' in machine.driver.calls()) is asks
