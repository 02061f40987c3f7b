"""GPUs: the most memory in use, and how busy they were; read by a thread, since a driver may hang."""

from __future__ import annotations

import os

from gpu_tracker.resources import GAUGE, WHOSE, Column, RefusedError, Resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from gpu_tracker.gpus.model import Gpu as GpuOfMachine
    from gpu_tracker.resources import DeviceReading, Message
    from gpu_tracker.resources.context import Context
    from gpu_tracker.resources.gpu.reader import GpuReader
    from gpu_tracker.result import usage
    from gpu_tracker.totals import Configuration, GpuDeviceTotals, Totals
    from gpu_tracker.units import Units

_SHARE = 0.5
"""The part of a limit on the overhead that is the GPUs'."""
_LONGEST_START = 2.0
"""Seconds that the first sample waits for the driver."""
_LONGEST_START_WITH_UUIDS = 5.0
"""The same where UUIDs were given, which only the driver can check."""
_LONGEST_END = 0.012
"""Seconds that the end of a run waits for the driver: a stop takes 20 ms at most."""
_PERCENT = 100.0


class Gpu(Resource):
    """The figures that the driver's thread has published last.

    :param has_uuids: The user has named GPUs, which only the driver can check.
    """

    columns = (
        *(Column(f'{group}_gpu_ram', 'bytes', GAUGE, f'GPU memory of {whose}') for group, whose in WHOSE.items()),
        Column('gpu_utilization', 'percent', GAUGE, 'utilization of the expected GPUs, added up'),
        Column('gpu_busy', 'percent', GAUGE, 'mean utilization of the GPUs that were used so far'),
    )

    def __init__(self, reader: GpuReader, *, has_uuids: bool = False) -> None:
        self._reader = reader
        self._has_uuids = has_uuids

    def follow(self, main: int | None, descendants: frozenset[int]) -> None:
        """Hand the pids of the tree to the driver's thread, for its next reading."""
        self._reader.follow(main, descendants)

    def wait_until_ready(self) -> None:
        """Wait for the driver's first answer.

        :raises RefusedError: if no GPU has the UUID.
        """
        self._reader.wait(_LONGEST_START_WITH_UUIDS if self._has_uuids else _LONGEST_START)
        if self._reader.error is not None:
            raise RefusedError('uuids', self._reader.error)

    def sample(self, now: float, kind: str) -> None:
        """Do nothing: the driver's thread reads at intervals of its own."""

    def request_last(self) -> None:
        """Ask the driver's thread for its last reading."""
        self._reader.request_last()

    def wait_for_last(self) -> None:
        """Wait for that reading, shortly."""
        self._reader.wait_for_last(_LONGEST_END)

    def row(self) -> Sequence[float | None]:
        """Return the memory in use and the utilization, as the driver's thread has read them last."""
        return self._reader.row()

    def take_devices(self) -> list[DeviceReading]:
        """Return what single GPUs had at readings that were not taken yet."""
        return self._reader.take_devices()

    def gpu_ram_by_process(self) -> Mapping[int, int | None] | None:
        """Return the memory of each tracked process, as the driver's thread has read it last."""
        return self._reader.by_process

    def used_so_far(self) -> int | None:
        """Return the most bytes of GPU memory that all had together."""
        return self._reader.most_memory

    def totals(self) -> dict[str, object]:
        """Return what :class:`.GpuFigures` has folded: sizes are bytes, utilization is percent."""
        return self._reader.totals()

    def take_messages(self) -> list[Message]:
        """Return what the driver, or its silence, has given rise to."""
        return self._reader.take_messages()


def open_resource(context: Context) -> Gpu:
    """Return the GPUs of the machine, whose driver is opened meanwhile."""
    from gpu_tracker.gpus.opening import open_gpus  # noqa: PLC0415 - in the sampler alone
    from gpu_tracker.resources.gpu.reader import GpuReader  # noqa: PLC0415 - as above

    config = context.config
    share = config['overhead']
    reader = GpuReader(
        lambda: open_gpus(config['brands'], reader.leave_out, charge=reader.charge),
        config['interval'],
        config['uuids'],
        most_share=None if share is None else share * _SHARE,
        counts_integrated=config['brands'] is not None,
        absence=None if config['brands'] is None else lambda: _why_none(config['brands']),
        visible=lambda gpus: _visible(gpus, config),
    )
    reader.start()
    return Gpu(reader, has_uuids=bool(config['uuids']))


def _why_none(brands: Sequence[str] | None) -> str:
    from gpu_tracker.gpus.absence import why_no_driver  # noqa: PLC0415 - only where brands were chosen and are not here

    return why_no_driver(brands)


def _visible(gpus: Sequence[GpuOfMachine], config: Configuration) -> frozenset[str]:
    """Return the UUIDs of the GPUs that the run can use, if something keeps others from it; else none.

    That is a variable such as CUDA_VISIBLE_DEVICES, the parameter ``gpu_uuids``, or a device cgroup, which makes the
    driver refuse the other GPUs.
    """
    from gpu_tracker.gpus.vendor_variables import uuids_left  # noqa: PLC0415 - only if there is a driver

    opened = frozenset(gpu.uuid for gpu in gpus if gpu.uuid is not None)
    if config['uuids'] is not None:
        return opened.intersection(config['uuids'])
    environment: Mapping[str, str] = os.environ
    if config['target'] != config['owner'] and config['launcher'] is None:
        from gpu_tracker.job import environment_of  # noqa: PLC0415 - only for a process that runs already

        environment = environment_of(config['target'])
    return uuids_left(gpus, environment) or (opened if len(opened) < len(gpus) else frozenset())


def usage_of(totals: Totals, wanted: Units) -> dict[str, Any]:
    """Return the sections ``max_gpu_ram``, ``gpu_utilization`` and ``gpus`` of the result."""
    from gpu_tracker import units  # noqa: PLC0415 - the sampler needs none of it
    from gpu_tracker.resources.rates import percentages  # noqa: PLC0415 - as above
    from gpu_tracker.result import usage  # noqa: PLC0415 - the sampler needs none of it

    gpu, unit = totals['gpu'], wanted.gpu_ram
    ram = usage.MaxGPURAM(
        unit=unit,
        system_capacity=units.from_bytes(gpu.get('capacity'), unit),
        system=units.from_bytes(gpu.get('system'), unit),
        main=units.from_bytes(gpu.get('main'), unit),
        descendants=units.from_bytes(gpu.get('descendants'), unit),
        combined=units.from_bytes(gpu.get('combined'), unit),
    )
    expected = gpu.get('expected')
    largest, mean = (
        None if percent is None else percent / _PERCENT for percent in (gpu.get('max_sum'), gpu.get('mean_sum'))
    )
    utilization = usage.GPUUtilization(
        system_gpu_count=gpu.get('count'),
        n_expected_gpus=expected,
        gpu_percentages=percentages(largest, mean, 1 if expected == 0 else expected),
    )
    found = {'max_gpu_ram': ram, 'gpu_utilization': utilization}
    devices = gpu.get('devices')
    return found | {'gpus': _gpus(devices, unit)} if devices else found


def _gpus(devices: Sequence[GpuDeviceTotals], unit: str) -> tuple[usage.GPUUse, ...] | None:
    """Return what the run used of each GPU; None: it is of a version that did not record it."""
    from gpu_tracker import units  # noqa: PLC0415 - as above
    from gpu_tracker.result import usage  # noqa: PLC0415 - as above

    if any('is_used' not in device for device in devices):
        return None
    return tuple(
        usage.GPUUse(
            index=device['index'],
            vendor=device['vendor'],
            uuid=device['uuid'],
            name=device['name'],
            unit=unit,
            capacity=units.from_bytes(device['capacity'], unit),
            max_ram=usage.GPUMemory(
                **{name: units.from_bytes(device[name], unit) for name in ('system', 'main', 'descendants', 'combined')}
            ),
            utilization=usage.GPUPercentages(device['max_utilization'], device['utilization']),
            own_utilization=usage.GPUPercentages(device['max_own_utilization'], device['own_utilization']),
            others_used_it=device['others'],
        )
        for device in devices
        if device['is_used'] is not False or device['is_visible']
    )
