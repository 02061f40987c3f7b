"""A report of literal totals and times."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from gpu_tracker.cuda_probe.binaries.cubin import Kernel
from gpu_tracker.cuda_probe.binaries.cubin import KernelVariant as CompiledVariant
from gpu_tracker.cuda_probe.binaries.kernel_names import KernelAt
from gpu_tracker.cuda_probe.collecting import RunTotals
from gpu_tracker.cuda_probe.cuda_api import FUNCTIONS
from gpu_tracker.cuda_probe.cuda_report import (
    KernelReport,
    KernelVariant,
    ProcessReport,
    RunRecord,
    known_gpus,
    omission_notes,
    process_report,
)
from gpu_tracker.cuda_probe.devices.host_gpus import HostGpu, HostGpus, PhysicalGpu
from gpu_tracker.cuda_probe.kernel_data import DeviceTotals, FailureTotals, KernelTotals, ProcessTotals
from gpu_tracker.cuda_probe.model.window import CoresUse, DeviceRun, ProcessRun
from gpu_tracker.result.cuda_usage import CUDAFailure, CUDAGpu

SECOND = 1_000_000_000
BEGAN, NOW = 100 * SECOND, 110 * SECOND
MB = 1_000_000

PROCESS = ProcessTotals(7, 4242, 0, 'train', BEGAN, None, streams=3, graph_launches=0, unknown_graph_launches=0)
FIRST = DeviceTotals(7, 0, 900, 90_000, 5, 2, 50 * MB, 20 * MB, 30 * MB, 40 * MB, 10, SECOND // 2, 4)
SECOND_GPU = DeviceTotals(7, 1, 100, 20_000, 1, 0, 5 * MB, 0, 5 * MB, 5 * MB, 2, SECOND // 4, 0)
TOGETHER = DeviceTotals(7, None, 0, 0, 0, 0, 0, 0, 35 * MB, 42 * MB, 0, 0, 0)
KNOWN_CORES = CoresUse(800.0, core_nanoseconds=2_000.0 * SECOND, nanoseconds=11 * SECOND)


class Visibility:
    def __init__(self, gpus: dict[int, PhysicalGpu]) -> None:
        self._gpus = gpus

    def gpu_of(self, ordinal: int) -> PhysicalGpu | None:
        return self._gpus.get(ordinal)


class Program:
    """Stands in for what is known of a program run."""

    command: str | None = 'python train.py'
    control_group = f'/system.slice/docker-{"4f" * 32}.scope'

    def __init__(self, *kernels: tuple[int, KernelAt], gpus: dict[int, PhysicalGpu] | None = None) -> None:
        self.visibility = Visibility(gpus or {})
        self._kernels = dict(kernels)

    def gpu_of(self, device: int) -> PhysicalGpu | None:
        return self.visibility.gpu_of(device)

    def kernel(self, address: int) -> KernelAt:
        return self._kernels.get(address) or KernelAt(None, f'libfoo.so+{address:#x}', None, None)


def run(*devices: DeviceTotals, ended: int | None = None, **more: Any) -> RunTotals:
    known = {'together': TOGETHER, 'kernels': (), 'failures': ()} | more
    return RunTotals(PROCESS._replace(ended=ended), {device.device: device for device in devices}, **known)


def device_run(busy: int, cores: CoresUse | None = None, seen: int = 11 * SECOND) -> DeviceRun:
    return DeviceRun(seen=seen, busy=busy, used_cores_normalised=cores or CoresUse())


def times(busy: int, *devices: DeviceRun, kernels: dict[int, int] | None = None) -> ProcessRun:
    return ProcessRun(seen=11 * SECOND, busy=busy, devices=dict(enumerate(devices)), kernels=kernels or {})


def told(
    totals: RunTotals, spans: ProcessRun | None = None, program: Program | None = None, **asked: int
) -> ProcessReport:
    return process_report(RunRecord(totals, spans, program), asked.get('now', NOW), asked.get('most', 10))


def test_every_figure_of_a_process_that_runs() -> None:
    spans = times(4 * SECOND, device_run(3 * SECOND, KNOWN_CORES), device_run(2 * SECOND, KNOWN_CORES))
    seen = told(run(FIRST, SECOND_GPU), spans, Program())
    assert asdict(replace(seen, devices=())) == {
        'pid': 4242,
        'run': 7,
        'name': 'train',
        'command': 'python train.py',
        'control_group': f'/system.slice/docker-{"4f" * 32}.scope',
        'container': '4f' * 32,
        'ended': False,
        'seconds': 10.0,
        'launches': 1000,
        'launches_per_second': 100.0,
        'active_percent': 40.0,
        'used_cores': 400.0,
        'mean_threads': 110.0,
        'streams': 3,
        'synchronisations': 12,
        'synchronising_seconds': 0.75,
        'copies': 4,
        'launch_to_sync_seconds': 4.0,
        'allocations': 6,
        'frees': 2,
        'allocated': 55 * MB,
        'freed': 20 * MB,
        'memory_current': 35 * MB,
        'memory_max': 42 * MB,
        'memory_leaked': None,
        'host_allocations': 0,
        'host_memory_current': 0,
        'host_memory_max': 0,
        'graph_launches': 0,
        'kernels_total': 0,
        'devices': (),
        'kernels': (),
        'failures': (),
    }


def test_every_figure_of_one_of_its_gpus() -> None:
    gpu = PhysicalGpu('GPU-1', 'nvidia', 'Model A', '570')
    spans = times(4 * SECOND, device_run(3 * SECOND, KNOWN_CORES), device_run(2 * SECOND, KNOWN_CORES))
    first, second = told(run(FIRST, SECOND_GPU), spans, Program(gpus={0: gpu})).devices
    assert asdict(first) == {
        'ordinal': 0,
        'uuid': 'GPU-1',
        'launches': 900,
        'launches_per_second': 90.0,
        'active_percent': 30.0,
        'used_cores': 200.0,
        'mean_threads': 100.0,
        'synchronisations': 10,
        'synchronising_seconds': 0.5,
        'copies': 4,
        'launch_to_sync_seconds': 3.0,
        'allocations': 5,
        'frees': 2,
        'allocated': 50 * MB,
        'freed': 20 * MB,
        'memory_current': 30 * MB,
        'memory_max': 40 * MB,
        'memory_leaked': None,
    }
    assert (second.ordinal, second.uuid) == (1, None)


def test_what_was_not_freed_at_the_end_was_leaked_and_nothing_is_in_use() -> None:
    seen = told(run(FIRST, SECOND_GPU, ended=BEGAN + 4 * SECOND))
    assert (seen.ended, seen.seconds, seen.launches_per_second) == (True, 4.0, 250.0)
    assert (seen.memory_current, seen.memory_leaked, seen.memory_max) == (0, 35 * MB, 42 * MB)
    assert [(one.memory_current, one.memory_leaked) for one in seen.devices] == [(0, 30 * MB), (0, 5 * MB)]


def test_times_of_which_no_event_came_are_not_known() -> None:
    seen = told(run(FIRST))
    for one in (seen, *seen.devices):
        assert (one.active_percent, one.used_cores, one.launch_to_sync_seconds) == (None, None, None)
    assert seen.command is None


def test_means_and_rates_of_nothing_are_not_known() -> None:
    seen = told(run(FIRST._replace(launches=0, threads=0)), times(0, device_run(0)), now=BEGAN)
    for one in (seen, *seen.devices):
        assert (one.launches, one.launch_to_sync_seconds) == (0, 0.0)
        assert (one.launches_per_second, one.mean_threads) == (None, None)
        assert (one.active_percent, one.used_cores) == (None, None)


def test_a_process_that_calls_while_the_report_is_made_was_not_seen_for_less_than_no_time() -> None:
    seen = told(run(FIRST), times(SECOND, device_run(SECOND, KNOWN_CORES)), now=BEGAN - 5)
    assert (seen.seconds, seen.launches_per_second, seen.active_percent, seen.used_cores) == (0.0, None, None, None)


def test_more_than_the_whole_time_is_told_as_all_of_it() -> None:
    seen = told(run(FIRST), times(11 * SECOND, device_run(11 * SECOND)))
    assert (seen.active_percent, seen.devices[0].active_percent) == (100.0, 100.0)


def test_time_in_which_the_cores_were_not_known_does_not_count_as_unused() -> None:
    half = CoresUse(800.0, core_nanoseconds=2_000.0 * SECOND, nanoseconds=5 * SECOND)
    (device,) = told(run(FIRST), times(SECOND, device_run(SECOND, half, seen=10 * SECOND))).devices
    assert device.used_cores == 400.0


def test_the_cores_of_all_gpus_are_not_known_where_those_of_one_are_not() -> None:
    spans = times(SECOND, device_run(SECOND, KNOWN_CORES), device_run(SECOND))
    seen = told(run(FIRST, SECOND_GPU), spans)
    assert [device.used_cores for device in seen.devices] == [200.0, None]
    assert seen.used_cores is None
    idle = told(run(FIRST, SECOND_GPU._replace(launches=0)), spans)
    assert idle.used_cores == 200.0


def test_a_process_that_has_allocated_nothing_has_nothing() -> None:
    seen = told(run(together=None, ended=NOW))
    assert (seen.memory_current, seen.memory_max, seen.memory_leaked) == (0, 0, 0)
    assert (seen.launches, seen.synchronisations, seen.devices) == (0, 0, ())


def test_kernels_are_told_that_were_launched_most_or_had_the_most_time() -> None:
    kernels = tuple(KernelTotals(7, address, 100 - address, 256 * (100 - address)) for address in range(1, 7))
    spans = times(SECOND, kernels={6: 5 * SECOND, 4: 4 * SECOND, 1: SECOND})
    seen = told(run(FIRST, kernels=kernels[::-1]), spans, most=2)
    assert [(one.address, one.launches, one.span_seconds) for one in seen.kernels] == [
        (1, 99, 1.0),
        (2, 98, None),
        (4, 96, 4.0),
        (6, 94, 5.0),
    ]
    assert (seen.kernels_total, seen.launches) == (6, 900)
    assert omission_notes([seen, seen]) == (
        'Kernels not listed one by one: 4, beyond the limit "kernels_told". Their launches are counted.',
    )


def test_lists_with_all_kernels_are_no_cause_for_a_remark() -> None:
    kernels = tuple(KernelTotals(7, address, 1, 32) for address in range(10))
    assert omission_notes([told(run(FIRST, kernels=kernels)), told(run(FIRST))]) == ()


def test_a_kernel_has_what_is_known_of_its_code() -> None:
    variants = (
        CompiledVariant(90, '', 12, 384, 0, reserved_shared=1024, constant=544, module_constant=64, stack=8),
        CompiledVariant(100, '', None, None, None, None, None, None, None),
    )
    code = Kernel('_Z4axpyPf', 'axpy(float*)', variants)
    program = Program((0x5000, KernelAt('_Z4axpyPf', 'axpy(float*)', '/srv/train', code)))
    totals = run(FIRST, kernels=(KernelTotals(7, 0x5000, 8, 1024), KernelTotals(7, 0x6000, 2, 0)))
    assert told(totals, times(SECOND, kernels={0x5000: SECOND // 2}), program).kernels == (
        KernelReport(
            name='axpy(float*)',
            symbol='_Z4axpyPf',
            file='/srv/train',
            address=0x5000,
            launches=8,
            mean_threads=128.0,
            span_seconds=0.5,
            variants=(KernelVariant(90, '', 12, 384, 0, 544), KernelVariant(100, '', None, None, None, None)),
        ),
        KernelReport('libfoo.so+0x6000', None, 2, 0.0, None, symbol=None, address=0x6000),
    )


def test_a_kernel_of_a_program_that_ended_too_soon_has_its_address_as_its_name() -> None:
    (kernel,) = told(run(FIRST, kernels=(KernelTotals(7, 0xABC0, 1, 32),))).kernels
    assert kernel == KernelReport('0xabc0', None, 1, 32.0, None, symbol=None, address=0xABC0)


def number(symbol: str) -> int:
    return next(function.number for function in FUNCTIONS if function.symbol == symbol)


def test_failed_calls_are_told_by_function_and_error_the_most_frequent_first() -> None:
    failures = (
        FailureTotals(7, number('cudaMalloc'), 2, 3),
        FailureTotals(7, number('cudaStreamSynchronize'), 700, 2),
        FailureTotals(7, number('cudaStreamSynchronize_ptsz'), 700, 4),
        FailureTotals(7, number('cudaStreamSynchronize_ptsz'), 1, 3),
        FailureTotals(7, number('cuMemAlloc_v2'), 2, 3),
        FailureTotals(7, number('cudaMalloc'), 54_321, 1),
        FailureTotals(7, number('__cudaGetKernel'), 35, 9),  # no call of the program's own
    )
    assert told(run(failures=failures)).failures == (
        CUDAFailure('cudaStreamSynchronize', 700, 'cudaErrorIllegalAddress', 6),
        CUDAFailure('cuMemAlloc', 2, 'cudaErrorMemoryAllocation', 3),
        CUDAFailure('cudaMalloc', 2, 'cudaErrorMemoryAllocation', 3),
        CUDAFailure('cudaStreamSynchronize', 1, 'cudaErrorInvalidValue', 3),
        CUDAFailure('cudaMalloc', 54_321, 'CUDA error 54321', 1),
    )


def test_gpus_are_told_that_can_be_named() -> None:
    whole = PhysicalGpu('GPU-1', 'nvidia', 'Model A', '570', cores=16_896, memory=150 * MB)
    part = PhysicalGpu('MIG-1', 'nvidia', 'Model B', None, mig='1g.5gb')
    unnamed = PhysicalGpu(None, 'nvidia', None, None)
    host = HostGpus((HostGpu(whole), HostGpu(whole, (part,)), HostGpu(unnamed)))
    assert known_gpus(host) == (
        CUDAGpu('GPU-1', 'nvidia', 'Model A', '570', None, 16_896, 150 * MB),
        CUDAGpu('MIG-1', 'nvidia', 'Model B', None, '1g.5gb', None, None),
    )


@pytest.mark.parametrize(('busy', 'active'), [(0, 0.0), (1, 1e-8), (5 * SECOND, 50.0)])
def test_nothing_is_told_as_nothing_where_it_is_known(busy: int, active: float) -> None:
    assert told(run(FIRST), times(busy, device_run(busy))).active_percent == pytest.approx(active)
