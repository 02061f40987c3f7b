"""A simulated NVIDIA driver: a stand-in for ``libnvidia-ml.so.1`` that the real nvidia-ml-py works on.

    driver = SimulatedDriver(tmp_path)
    driver.write(gpus=[Gpu(total=8 * GIB, used=GIB, util=40, processes=[Process(pid, memory=GIB)])])
    subprocess.run(command, env=os.environ | driver.environment())

The library reads its state file anew at each call, so a test changes what a running program sees with another
``write``. Without a state file the driver answers "Driver Not Loaded". The dynamic loader finds the library by
LD_LIBRARY_PATH when a process starts: the program under test runs in a process of its own.

A value may change over the script's time, which begins when the driver is made: ``steps((0, 10), (2.5, 90))``,
``ramp((0, 0), (10, 100))``. ``None`` is a value that the driver does not know.
"""

from __future__ import annotations

import functools
import os
import subprocess
import time
from dataclasses import KW_ONLY, dataclass, field, fields
from pathlib import Path

from support.compiled import cache_folder, compiled_once

_SOURCES = Path(__file__).parent

NO_PERMISSION = 4
DRIVER_NOT_LOADED = 9
LIBRARY_NOT_FOUND = 12
GPU_IS_LOST = 15
VERSION_MISMATCH = 18
UNKNOWN = 999

WHOLE_GPU = -1
"""The MIG device that a failure names where it concerns only the GPU itself."""

Value = int | str | None
"""A number, a script (see steps and ramp), or None: not known."""


def steps(*points: tuple[float, int]) -> str:
    """Return a script: from each point's second on, the value is that point's."""
    return ','.join(f'{second}:{value}' for second, value in points)


def ramp(*points: tuple[float, int]) -> str:
    """Return a script: between two points the value changes evenly."""
    return '~' + steps(*points)


@dataclass(frozen=True, kw_only=True)
class Mig:
    """A MIG device of a GPU: its instance ids, and its memory in bytes."""

    uuid: str
    gi: int
    ci: int = 0
    name: str = 'NVIDIA Simulated GPU MIG 1g'
    total: Value = None
    used: Value = None
    multiprocessors: int = 0
    sm_activity: Value = None
    """Percent, of its GPU instance."""


@dataclass(frozen=True)
class Process:
    """A process on a GPU; memory in bytes, utilization in percent, from and until in seconds of the script."""

    pid: int
    _: KW_ONLY
    memory: Value = None
    types: str = 'C'
    """The lists it stands in: C compute, G graphics, M MPS."""
    gi: int | None = None
    ci: int | None = None
    sm: Value = 0
    memory_util: Value = 0
    encoder: Value = 0
    decoder: Value = 0
    time_us: int | None = None
    starts: float | None = None
    ends: float | None = None


@dataclass(frozen=True, kw_only=True)
class Account:
    """What accounting mode kept of a process: bytes, milliseconds, percent."""

    pid: int
    max_memory: Value
    util: Value = 0
    memory_util: Value = 0
    time: Value = 0
    start_us: int | None = None
    running: int = 1


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """A GPU in NVML's units (bytes, percent, milliwatts, MHz, degrees Celsius, millijoules); None: not supported."""

    uuid: str | None = None
    """None: GPU-00000000-0000-0000-0000-00000000000 and the index."""
    name: str = 'NVIDIA Simulated GPU'
    pci: str | None = None
    """None: 00000000:NN:00.0, NN being the index plus one."""
    minor: int | None = None
    cores: Value = None
    capability: Value = None
    """The compute capability, 10 times the major number plus the minor one."""
    total: Value = 0
    used: Value = 0
    reserved: Value = 0
    """Bytes that the driver keeps for itself: version 1 of the memory call counts them as used, version 2 does not."""
    util: Value = 0
    memory_util: Value = 0
    samples: bool = True
    """False: the driver has no buffer of utilization samples."""
    sample_period: int = 100
    """Milliseconds between two utilization samples."""
    encoder: Value = None
    decoder: Value = None
    bar1_total: Value = None
    bar1_used: Value = None
    temperature: Value = None
    temperature_limit: Value = None
    power: Value = None
    power_limit: Value = None
    energy: Value = None
    ecc_volatile_corrected: Value = None
    ecc_volatile_uncorrected: Value = None
    ecc_aggregate_corrected: Value = None
    ecc_aggregate_uncorrected: Value = None
    remapped_corrected: Value = None
    remapped_uncorrected: Value = None
    remap_pending: Value = None
    remap_failed: Value = None
    throttle_reasons: Value = None
    """The bits nvmlClocksThrottleReason*."""
    pcie_sent: Value = None
    pcie_received: Value = None
    nvlink_sent: Value = None
    """KiB through all links."""
    nvlink_received: Value = None
    sm_activity: Value = None
    """Percent by the GPU's own counters (GPM); None: it has no such counters."""
    sm_occupancy: Value = None
    tensor_activity: Value = None
    dram_activity: Value = None
    pcie_sent_rate: Value = None
    """MiB a second."""
    pcie_received_rate: Value = None
    nvlink_sent_rate: Value = None
    nvlink_received_rate: Value = None
    fan: Value = None
    graphics_clock: Value = None
    sm_clock: Value = None
    memory_clock: Value = None
    video_clock: Value = None
    max_graphics_clock: Value = None
    max_sm_clock: Value = None
    max_memory_clock: Value = None
    max_video_clock: Value = None
    persistence: Value = None
    performance_state: Value = None
    compute_mode: Value = None
    accounting: Value = None
    """None: not supported; 0: off; 1: on."""
    mig: list[Mig] | None = None
    """None: the GPU is not in MIG mode; a list, be it empty: it is."""
    processes: list[Process] = field(default_factory=list)
    accounts: list[Account] = field(default_factory=list)
    xid_errors: list[tuple[int, float]] = field(default_factory=list)
    """The codes of XID errors, each with the second of the script at which it comes; see the option ``events``."""
    missing: bool = False
    """The driver counts this GPU but says that it is lost."""


@dataclass(frozen=True)
class Failure:
    """Calls that fail: functions matching a glob, of one GPU or all, in a window of the script or after some calls."""

    functions: str
    code: int
    _: KW_ONLY
    gpu: int | None = None
    mig: int | None = None
    """None: the GPU and all its MIG devices; WHOLE_GPU: only the GPU itself; a number: only that MIG device."""
    starts: float | None = None
    ends: float | None = None
    after: int | None = None
    times: int | None = None


@dataclass(frozen=True)
class Hang:
    """Calls that do not return for so many seconds, or until the state file no longer says so."""

    functions: str
    seconds: float = 3600
    _: KW_ONLY
    gpu: int | None = None
    starts: float | None = None
    ends: float | None = None


_FILE_NAMES = {'starts': 'from', 'ends': 'until'}
_NO_FIELDS_OF_THE_FILE = {'processes', 'accounts', 'xid_errors', 'missing'}


def _line(kind: str, entry: object, **more: object) -> str:
    """Return the line of an entry; what is None is left out, and the library then answers that it does not know it."""
    values = {f.name: getattr(entry, f.name) for f in fields(entry) if f.name not in _NO_FIELDS_OF_THE_FILE} | more  # type: ignore[arg-type]
    texts = [kind]
    for name, value in values.items():
        if value is not None:
            texts.append(f'{_FILE_NAMES.get(name, name)}={int(value) if isinstance(value, bool) else value}')
    return '\t'.join(texts)


class SimulatedDriver:
    """A simulated driver with a state file of its own in the folder.

    :param folder: Where the state file and the log of the calls go.
    :param generation: 0 is a driver of today, 1 one without the ``_v3`` process lists and GPM, 2 one without the
        ``_v2`` lists and memory call either.
    """

    def __init__(self, folder: Path, generation: int = 0) -> None:
        self.state_file = folder / 'nvml-state'
        self.log_file = folder / 'nvml-calls'
        self.start = time.time()
        self._library_folder = library_folder(generation)

    def environment(self) -> dict[str, str]:
        """Return the environment variables with which a new process finds this driver."""
        return {
            'LD_LIBRARY_PATH': str(self._library_folder),
            'SIMULATED_NVML_STATE': str(self.state_file),
            'SIMULATED_NVML_LOG': str(self.log_file),
        }

    def write(
        self,
        *,
        gpus: list[Gpu] | None = None,
        fail: list[Failure] | None = None,
        hang: list[Hang] | None = None,
        now: float | None = None,
        **options: object,
    ) -> None:
        """Replace the state, atomically.

        :param gpus: The GPUs, by index.
        :param fail: Calls that fail.
        :param hang: Calls that hang.
        :param now: Freezes the script at that second.
        :param options: ``live=True`` lists only processes that exist; ``garbage=True`` adds nonsense samples;
            ``duplicates=True`` lists each process twice; ``idle_success=True`` answers 0 process samples with success
            instead of NOT_FOUND; ``events=True`` reports XID errors; ``driver``, ``nvml`` and ``cuda`` are versions.
        """
        lines = [f'clock\tstart={self.start!r}' + (f'\tnow={now!r}' if now is not None else '')]
        lines += [f'option\t{name}={int(v) if isinstance(v, bool) else v}' for name, v in options.items()]
        for index, gpu in enumerate(gpus or []):
            lines += _gpu_lines(index, gpu)
        lines += [_line('fail', failure) for failure in fail or []]
        lines += [_line('hang', hanging) for hanging in hang or []]
        unfinished = self.state_file.with_suffix('.new')
        unfinished.write_text('\n'.join(lines) + '\n')
        os.replace(unfinished, self.state_file)

    def calls(self) -> list[str]:
        """Return the names of the functions that have been called, in order."""
        if not self.log_file.exists():
            return []
        return [line.split()[2] for line in self.log_file.read_text().splitlines()]


def _gpu_lines(index: int, gpu: Gpu) -> list[str]:
    uuid = gpu.uuid or f'GPU-00000000-0000-0000-0000-{index:012d}'
    pci = gpu.pci or f'00000000:{index + 1:02X}:00.0'
    lines = [_line('gpu', gpu, index=index, uuid=uuid, pci=pci, mig=int(gpu.mig is not None))]
    lines += [_line('mig', mig, gpu=index, index=number) for number, mig in enumerate(gpu.mig or [])]
    lines += [_line('process', process, gpu=index) for process in gpu.processes]
    lines += [_line('account', account, gpu=index) for account in gpu.accounts]
    lines += [f'xid\tgpu={index}\tcode={code}\tat={at}' for code, at in gpu.xid_errors]
    if gpu.missing:
        lines.append(_line('fail', Failure('nvmlDevice*', GPU_IS_LOST, gpu=index)))
    return lines


@functools.cache
def library_folder(generation: int = 0) -> Path:
    """Return the folder of the compiled library; generations: SimulatedDriver."""
    sources = sorted(_SOURCES.glob('*.c'))
    warnings = ['-Wall', '-Wextra', '-Werror']
    kind = ['-std=gnu11', '-O1', '-g', '-shared', '-fPIC', '-fvisibility=hidden', '-Wl,-soname,libnvidia-ml.so.1']
    words = ['cc', *kind, *warnings, f'-DOLD_DRIVER={generation}', *map(str, sources), '-lpthread']
    folder = cache_folder('simulated-nvml', [*sources, *_SOURCES.glob('*.h')], *words)
    compiled_once(folder / 'libnvidia-ml.so.1', lambda to: subprocess.run([*words, '-o', str(to)], check=True))
    return folder
