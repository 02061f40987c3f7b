"""Activity of GPUs: how busy their parts were by their own counters; part of the result if it is asked for.

The counters are those of whole GPUs, or of MIG GPU instances, whoever used them. A thread reads them once a second,
since any call of a driver may hang.
"""

from __future__ import annotations

from gpu_tracker.errors import GpuError
from gpu_tracker.gpus.backend import OF_DRM
from gpu_tracker.gpus.model import GpuActivity
from gpu_tracker.resources import GAUGE, Column
from gpu_tracker.resources.threaded import Target, ThreadedReader, ThreadedResource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from gpu_tracker.gpus.backend import RunGpus
    from gpu_tracker.gpus.model import Gpu, GpuProcess
    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.resources.context import Context
    from gpu_tracker.result import usage
    from gpu_tracker.totals import Evidence, GpuActivityTotals, Totals
    from gpu_tracker.units import Units

_NAME = 'gpu_activity'
_TITLE = 'the activity of GPUs'
_FIGURES = GpuActivity._fields[3:]
_PERCENTAGES = ('sm', 'occupancy', 'tensor', 'dram')
_LONGEST_END = 0.5
"""Seconds that the end of a run waits for the last reading."""
_LONGEST_GAP = 3.0
"""Seconds of a run that may be unread: a driver takes up to two to open."""
_LARGEST_GAP = 0.1
"""The part of a longer run that may be unread."""


class Activity(ThreadedResource):
    """The figures that the thread has published last.

    :param source: Reads the counters.
    :param tree: Whose root and members are looked for on the GPUs.
    """

    columns = (
        Column('gpu_sm_activity', 'percent', GAUGE, 'mean SM activity of the GPUs that were used so far'),
        Column('gpu_sm_occupancy', 'percent', GAUGE, 'mean SM occupancy of these GPUs'),
        Column('gpu_tensor_activity', 'percent', GAUGE, 'mean activity of the tensor cores of these GPUs'),
        Column('gpu_dram_activity', 'percent', GAUGE, 'mean use of the memory bandwidth of these GPUs'),
    )

    def __init__(self, reader: ThreadedReader, source: ActivitySource, tree: ProcessTree) -> None:
        super().__init__(reader, _LONGEST_END)
        self._source = source
        self._tree = tree

    def begin(self, now: float) -> None:
        """Start the thread: the counters are compared with what they are now."""
        del now
        root = self._tree.root.pid
        target = Target(root, frozenset(self._tree.members) - {root})
        self._reader.open(lambda _: self._source, target, is_waited_for=False)

    def row(self) -> Sequence[float | None]:
        """Return the means over the GPUs that may have been used so far, of up to a second ago; None: unknown."""
        published: Mapping[str, Any] = self._reader.result()
        found = [gpu['latest'] for gpu in published.get('gpus', ()) if gpu['is_used'] is not False]
        if not found:
            return (None,) * len(self.columns)
        return [None if None in values else sum(values) / len(values) for values in zip(*found, strict=True)]


class ActivitySource:
    """Reads the counters of all GPUs.

    :param open_backend: Opens the driver; None if the machine has none.
    :param are_ours: Whether the driver's process IDs are certainly ours.
    """

    def __init__(self, open_backend: Callable[[], RunGpus | None], *, are_ours: bool) -> None:
        self._open_backend = open_backend
        self._backend: RunGpus | None = None
        self._is_open = self._is_broken = False
        self._are_ours = are_ours
        self._gpus: dict[tuple[str, int | None], _Fold] = {}

    def read(self, members: frozenset[int]) -> dict[str, object]:
        """Return ``gpus``: what each GPU or GPU instance has done so far, see :class:`.GpuActivityTotals`.

        Nothing is returned if the driver does not work.
        """
        if not self._is_open:
            self._open()
        backend = self._backend
        if backend is not None:
            backend.follow(members)
            for gpu in backend.gpus():
                if gpu.uuid is not None:
                    self._read_gpu(backend, gpu, gpu.uuid, members)
        return {} if self._is_broken else {'gpus': [fold.totals() for fold in self._gpus.values()]}

    def close(self) -> None:
        """Let go of the driver."""
        if self._backend is not None:
            self._backend.close()

    def _open(self) -> None:
        self._is_open = True
        try:
            self._backend = self._open_backend()
        except GpuError:
            self._is_broken = True  # the resource gpu reports it

    def _read_gpu(self, backend: RunGpus, gpu: Gpu, uuid: str, members: frozenset[int]) -> None:
        processes = backend.processes(uuid) if self._are_ours or gpu.vendor in OF_DRM else None
        for activity in backend.activity(uuid):
            fold = self._gpus.setdefault((uuid, activity.gpu_instance), _Fold(gpu, uuid, activity.gpu_instance))
            fold.add(activity)
            fold.note_use(processes, members)


class _Fold:
    """What the readings of one GPU, or of one GPU instance, have shown."""

    def __init__(self, gpu: Gpu, uuid: str, instance: int | None) -> None:
        self._gpu = gpu
        self._uuid = uuid
        self._instance = instance
        self._problem: str | None = None
        self._seconds = 0.0
        self._known_seconds = dict.fromkeys(_FIGURES, 0.0)
        self._sums = dict.fromkeys(_FIGURES, 0.0)
        self._maxima: dict[str, float] = {}
        self._latest: list[float | None] = [None] * len(_PERCENTAGES)
        self._is_used: bool | None = False

    def add(self, activity: GpuActivity) -> None:
        """Add a reading; one that came too soon after the last has no figures and changes nothing."""
        if activity.problem is None and not activity.seconds:
            return
        self._problem = self._problem or activity.problem
        self._seconds += activity.seconds
        self._latest = [getattr(activity, name) for name in _PERCENTAGES]
        for name in _FIGURES:
            value = getattr(activity, name)
            if value is not None:
                self._known_seconds[name] += activity.seconds
                self._sums[name] += value * activity.seconds
                self._maxima[name] = max(value, self._maxima.get(name, 0.0))

    def note_use(self, processes: Sequence[GpuProcess] | None, members: frozenset[int]) -> None:
        """Add whether tracked processes are on it; None: nobody knows whose processes there are."""
        if processes is None:
            self._is_used = self._is_used or None
        elif any(process.pid in members and process.gpu_instance == self._instance for process in processes):
            self._is_used = True

    def totals(self) -> GpuActivityTotals:
        """Return the figures so far."""
        return {
            'uuid': self._uuid,
            'vendor': self._gpu.vendor,
            'index': self._gpu.number,
            'gpu_instance': self._instance,
            'is_used': self._is_used,
            'problem': self._problem,
            'seconds': self._seconds,
            'means': {
                name: self._sums[name] / seconds if (seconds := self._known_seconds[name]) else None
                for name in _FIGURES
            },
            'maxima': {name: self._maxima.get(name) for name in _PERCENTAGES},
            'latest': self._latest,
        }


def open_resource(context: Context) -> Activity:
    """Return the activity of the machine's GPUs."""
    from gpu_tracker.gpus.opening import open_gpus  # noqa: PLC0415 - most runs do not ask for this
    from gpu_tracker.gpus.process_ids import in_initial_pid_namespace  # noqa: PLC0415 - most runs do not ask for this

    source = ActivitySource(lambda: open_gpus(context.config['brands']), are_ours=in_initial_pid_namespace())
    return Activity(ThreadedReader(_NAME, _TITLE, dict, has_extra=False), source, context.tree)


def usage_of(totals: Totals, wanted: Units) -> dict[str, tuple[usage.GPUActivity, ...]]:
    """Return the section ``gpu_activity`` of the result, of the GPUs that were used; none if nothing is known."""
    if totals['gpu'].get('devices') is None or 'gpus' not in totals['gpu_activity']:
        return {}
    return {'gpu_activity': tuple(_usage_of_gpu(gpu, totals['seconds'], wanted.gpu_ram) for gpu in _used(totals))}


def missed(evidence: Evidence) -> list[str]:
    """Return the paths of the figures that may be too low, since some GPU was not read all the time."""
    used = _used(evidence)
    read = [gpu for gpu in used if _is_known(gpu, evidence['seconds'])]
    is_read_whole = all(gpu['problem'] is None for gpu in used)
    found = []
    for name in _PERCENTAGES:
        known = [gpu for gpu in read if gpu['means'][name] is not None]
        if known and not (is_read_whole and len(known) == len(used)):
            found.append(f'gpu_activity.{name}_max_percent')
        if known and len(known) < len(used):
            found.append(f'gpu_activity.{name}_mean_percent')
    return found


def _used(totals: Totals | Evidence) -> list[GpuActivityTotals]:
    """Return the GPUs that were used. Of a GPU in MIG mode these are the GPU instances that the tree was seen on.

    If it was seen on none of them, it is unknown which it used.
    """
    devices = totals['gpu'].get('devices') or ()
    uuids = {device['uuid'] for device in devices if device['is_used'] is not False}
    gpus = [gpu for gpu in totals['gpu_activity'].get('gpus', ()) if gpu['uuid'] in uuids]
    seen = {gpu['uuid'] for gpu in gpus if gpu['is_used']}
    return [gpu for gpu in gpus if gpu['is_used'] or gpu['gpu_instance'] is None or gpu['uuid'] not in seen]


def _is_known(gpu: GpuActivityTotals, run_seconds: float) -> bool:
    """Return whether so much of the run was read that the figures are those of the run."""
    return gpu['seconds'] > 0 and run_seconds - gpu['seconds'] <= max(_LONGEST_GAP, _LARGEST_GAP * run_seconds)


def _usage_of_gpu(gpu: GpuActivityTotals, run_seconds: float, unit: str) -> usage.GPUActivity:
    from gpu_tracker import units  # noqa: PLC0415 - the sampler needs none of it
    from gpu_tracker.result import usage  # noqa: PLC0415 - the sampler needs none of it

    is_known = _is_known(gpu, run_seconds)
    means, maxima = (gpu['means'], gpu['maxima']) if is_known else ({}, {})
    unread = None if is_known else f'was read for {gpu["seconds"]:.1f} s of {run_seconds:.1f} s only'
    return usage.GPUActivity(
        index=gpu['index'],
        vendor=gpu['vendor'],
        uuid=gpu['uuid'],
        gpu_instance=gpu['gpu_instance'],
        unit=unit,
        problem=gpu['problem'] or unread,
        **{f'{name}_mean_percent': means.get(name) for name in _PERCENTAGES},
        **{f'{name}_max_percent': maxima.get(name) for name in _PERCENTAGES},
        **{
            f'{name}_mean_per_second': units.from_bytes(means.get(name), unit)
            for name in _FIGURES
            if name not in _PERCENTAGES
        },
    )
