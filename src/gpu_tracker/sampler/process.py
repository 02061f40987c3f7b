"""What the sampling subprocess runs: it opens the sources, says that it is ready, and samples to the end."""

from __future__ import annotations

import gc
import os
import sys
import time

from gpu_tracker.aggregation import Aggregator
from gpu_tracker.allowance import Allowance, OverheadLimit
from gpu_tracker.process_tree import SAMPLER_NAME, open_process_tree, proc_fault, stat
from gpu_tracker.sampler import messages
from gpu_tracker.sampler.control import ABANDONED
from gpu_tracker.sampler.descriptors import FIRST_FOREIGN
from gpu_tracker.sampler.grid import Grid
from gpu_tracker.sampler.loop import Loop
from gpu_tracker.sampler.publisher import Publisher
from gpu_tracker.sampler.store import Store
from gpu_tracker.sources.gpu import GpuSource
from gpu_tracker.sources.system import open_system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from gpu_tracker.process_tree import ProcessTree
    from gpu_tracker.sampler.early import EarlySamples
    from gpu_tracker.sampler.loop import RamSource, Waiter
    from gpu_tracker.sources.missed_time import Clocks, MissedTime
    from gpu_tracker.sources.sections import Sections
    from gpu_tracker.sources.system import SystemSource

_GPU_SHARE = 0.5
"""The part of a limit on the overhead that is the GPUs'."""
_EARLY_SHARE = 0.008
"""The part of a core that samples of a young process may use between the points of the grid."""
_EARLY_SHARE_OF_SEVERAL = 0.02
"""The same while several processes are young."""
_EARLY_SAVED = 0.04
"""CPU seconds that may be saved up for these: some processes' whole youth."""
_GPU_WAIT = 2.0
"""Seconds that the first sample waits for the driver."""
_GPU_WAIT_FOR_UUIDS = 30.0
"""The same where UUIDs were given, which only the driver can check."""


def main(config: dict[str, Any], control_handle: int, status_handle: int) -> None:
    """Sample as ``config`` says and end this process; :mod:`gpu_tracker.sampler.spawn` describes the configuration."""
    try:
        _prepare()
        _sample(config, control_handle, status_handle)
    except ProcessLookupError as error:
        _refuse(status_handle, 'process', str(error))
    except BaseException as error:  # noqa: BLE001 - whatever it is, the tracker must hear of it: nobody else does
        _refuse(status_handle, 'internal', _description(error))
        os._exit(1)
    os._exit(0)  # at once: a hanging driver call must not keep this process


def _description(error: BaseException) -> str:
    """Return the traceback, the last line of which is what users are told."""
    try:
        import traceback  # noqa: PLC0415 - costs 10 ms

        return ''.join(traceback.format_exception(error))
    except OSError:  # there is no descriptor left to load it with
        return f'{type(error).__name__}: {error}'


def _prepare() -> None:
    """Keep out of the way of the tracked program: its files, its folder, its signals, its terminal."""
    gc.disable()
    if sys.platform != 'linux':  # there it ignores signals from its start
        _ignore_signals()
        return
    import resource  # noqa: PLC0415 - not on every system

    _close_foreign_descriptors()
    os.chdir('/')
    for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE):
        try:
            hard = resource.getrlimit(limit)[1]
            resource.setrlimit(limit, (hard, hard))
        except (OSError, ValueError):  # setrlimit raises ValueError for EPERM
            pass  # not permitted here: the program's own limit has to do
    try:
        with open('/proc/self/comm', 'wb', 0) as name_file:
            name_file.write(SAMPLER_NAME)
    except OSError:
        pass  # a name is a courtesy


def _close_foreign_descriptors() -> None:
    """Close what the program has left open for its own children."""
    try:
        names = os.listdir('/proc/self/fd')
    except OSError:
        os.closerange(FIRST_FOREIGN, 1 << 20)  # 0.2 s where there is no close_range(2), or it is forbidden
        return
    for handle in map(int, names):
        if handle >= FIRST_FOREIGN:
            try:
                os.close(handle)
            except OSError:
                pass  # the folder's own


def _ignore_signals() -> None:
    import signal  # noqa: PLC0415 - costs 3 ms

    for name in ('SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGTSTP'):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)


def _sample(config: dict[str, Any], control_handle: int, status_handle: int) -> None:
    fault = proc_fault() if sys.platform == 'linux' else None
    if fault is not None:  # the tracker's own look has found nothing: /proc was changed since
        _refuse(status_handle, 'proc', fault)
        return
    control = _open_control(control_handle, config['owner'], config['target'])
    gpu = _open_gpu(config)
    gpu.start()
    tree = open_process_tree(
        config['reader'], config['target'], launcher=config['launcher'], held=config['launcher'] is not None
    )
    cpu_before = tree.root.own_cpu
    system = open_system(config['reader'])
    aggregator = Aggregator()
    limit = None if config['overhead'] is None else OverheadLimit(config['overhead'], time.process_time)
    # Sections have threads that may be busy: what a reading costs is then told by the loop's own clock.
    reading_time = time.thread_time if config['sections'] else time.process_time
    allowance = limit or Allowance(time.monotonic())
    ram = _open_ram(config['reader'], tree, allowance, reading_time)
    sections = _open_sections(config, tree)
    missed = _open_missed(config, tree, system)
    grid = Grid(config['interval'], limit)
    early = _open_early(tree, ram, config['interval'], allowance, reading_time)

    def record() -> dict[str, Any]:
        root = tree.root
        unreaped, adopted = loop.cpu_not_reaped_by_root
        return {
            'unreaped': unreaped,
            'adopted': adopted,
            'has_clocks': missed is not None and missed.is_added,
            'cpu_is_lower_bound': missed is not None and missed.is_lower_bound,
            'unreadable': getattr(ram, 'unreadable', False),
            'late': grid.late,
            'skipped': grid.skipped,
            'is_limited': grid.is_limited,
            'mean_interval': grid.mean_interval,
            'cpu_seconds': time.process_time(),
            'held': config['launcher'] is not None and root.shares_memory,
            'cpu_before': cpu_before,
            'has_reaped': bool(root.raw) and stat.has_reaped(root.raw),
            'has_descendants': loop.has_descendants,
            'faults_of_waited_for': loop.faults_of_waited_for,
            'older_has_ended': loop.older_has_ended,
            'doubled': getattr(ram, 'doubled', 0),
            'most_waited_for': getattr(ram, 'most_waited_for', None),
            'early': 0 if early is None else early.samples,
            'postponed': 0 if early is None else early.postponed,
            'launcher_peak': config['launcher_peak'],
            'tracked_seconds': control.tracked_seconds,
        }

    publisher = Publisher(
        config,
        store=_open_store(config),
        aggregator=aggregator,
        gpu=gpu,
        system=system,
        sections=sections,
        record=record,
    )
    loop = Loop(
        tree=tree,
        ram=ram,
        system=system,
        gpu=gpu,
        sections=sections,
        missed=missed,
        aggregator=aggregator,
        grid=grid,
        interval=config['interval'],
        publish=publisher.publish,
        exec_handle=config['exec_handle'],
        early=early,
        watching=lambda: _tell(status_handle, {'watching': True}),
        monotonic=time.monotonic,
    )

    answered = gpu.wait(_GPU_WAIT_FOR_UUIDS if config['uuids'] else _GPU_WAIT)
    if config['uuids'] and not answered:
        _refuse(status_handle, 'driver', f'has not answered for {_GPU_WAIT_FOR_UUIDS:.0f} s')
        return
    if gpu.error is not None:
        _refuse(status_handle, 'uuids', gpu.error)
        return
    loop.first()
    gc.freeze()
    if sections is not None:
        gc.enable()  # what others bring makes cycles, and nobody else collects them
    _tell(
        status_handle,
        {'pid': os.getpid(), 'parent': os.getppid(), 'messages': publisher.messages},
    )
    _silence(status_handle)
    _announce(config, None)
    if loop.run(control) != ABANDONED:
        _tell(status_handle, {'done': True})
    _announce(config, time.process_time())


def _open_control(handle: int, owner: int, target: int) -> Waiter:
    if sys.platform == 'win32':
        from gpu_tracker.sampler.thread_control import ThreadControl  # noqa: PLC0415 - for this system only

        return ThreadControl(handle)
    from gpu_tracker.sampler.control import Control  # noqa: PLC0415 - not for Windows

    return Control(handle, owner, target)


def _open_gpu(config: dict[str, Any]) -> GpuSource:
    from gpu_tracker.gpus import BACKENDS  # noqa: PLC0415 - in one place with its use

    share = config['overhead']
    return GpuSource(
        BACKENDS[config['brand']],
        config['interval'],
        config['uuids'],
        most_share=None if share is None else share * _GPU_SHARE,
    )


def _open_sections(config: dict[str, Any], tree: ProcessTree) -> Sections | None:
    if not config['sections']:
        return None
    from gpu_tracker.sources.section import Target  # noqa: PLC0415 - most runs have none
    from gpu_tracker.sources.sections import Sections  # noqa: PLC0415

    pid = tree.root.pid
    command, folder = config['command'] or ((), '')
    return Sections(config['sections'], Target(pid, frozenset(tree.members) - {pid}, command, folder))


def _open_ram(
    reader: str, tree: ProcessTree, allowance: Allowance | OverheadLimit, cpu_time: Callable[[], float]
) -> RamSource:
    if reader == 'proc':
        from gpu_tracker.sources.memory_files import MemoryFiles  # noqa: PLC0415 - Linux only
        from gpu_tracker.sources.ram import RamSource as LinuxRamSource  # noqa: PLC0415

        return LinuxRamSource(tree, MemoryFiles(), allowance, cpu_time)
    from gpu_tracker.sources.portable_ram import PortableRamSource  # noqa: PLC0415 - elsewhere

    return PortableRamSource(tree)


def _open_early(
    tree: ProcessTree,
    ram: RamSource,
    interval: float,
    budget: Allowance | OverheadLimit,
    cpu_time: Callable[[], float],
) -> EarlySamples | None:
    """Return what samples young processes, where reading them costs little: on Linux."""
    if sys.platform != 'linux':
        return None
    from gpu_tracker.process_tree.linux import LinuxProcessTree  # noqa: PLC0415 - Linux only
    from gpu_tracker.sampler.early import EarlySamples  # noqa: PLC0415 - as above
    from gpu_tracker.sources.ram import RamSource as LinuxRamSource  # noqa: PLC0415 - as above

    if not isinstance(tree, LinuxProcessTree) or not isinstance(ram, LinuxRamSource):
        return None  # psutil reads
    for_one: Allowance | OverheadLimit = budget
    for_several: Allowance | OverheadLimit = budget
    if isinstance(budget, Allowance):
        for_one = Allowance(time.monotonic(), _EARLY_SHARE, _EARLY_SAVED)
        for_several = Allowance(time.monotonic(), _EARLY_SHARE_OF_SEVERAL, 2 * _EARLY_SAVED)
    return EarlySamples(tree, ram, interval, for_one, for_several, budget, cpu_time)


def _announce(config: dict[str, Any], seconds: float | None) -> None:
    """Say to trackers around that this sampler is none of the processes that they measure."""
    if config['reader'] == 'proc':
        try:
            from gpu_tracker.process_tree.announced import announce  # noqa: PLC0415 - when nobody waits for the start
        except ImportError:
            return  # no more files may be opened: then a tracker around takes this sampler for one of its processes
        announce(config['owner'], seconds)


def _open_missed(config: dict[str, Any], tree: ProcessTree, system: SystemSource) -> MissedTime | None:
    if config['reader'] != 'proc':
        return None
    from gpu_tracker.sources.missed_time import MissedTime  # noqa: PLC0415 - Linux only

    is_launched = config['launcher'] is not None
    return MissedTime(
        tree,
        system,
        _open_clocks,
        root_may_vanish=not is_launched and config['target'] != config['owner'],
        orphans_are_waited_for=is_launched,
    )


def _open_clocks(tree: ProcessTree, root_may_vanish: bool) -> Clocks:  # noqa: FBT001 - called by position alone
    try:
        from gpu_tracker.process_tree.announced import AnnouncedSamplers  # noqa: PLC0415 - most runs do not need it
        from gpu_tracker.process_tree.task_clocks import PerfEvents, TaskClocks  # noqa: PLC0415 - imports ctypes: 6 ms
    except ImportError as error:  # this interpreter has no ctypes, or no more files may be opened
        raise OSError(str(error)) from error

    root = tree.root.pid
    others = [pid for pid in tree.members if pid != root]
    strangers = [os.getpid(), *tree.samplers]
    kernel = PerfEvents()
    samplers = AnnouncedSamplers(root)
    try:
        return TaskClocks(kernel, root, others, strangers, samplers=samplers, root_may_vanish=root_may_vanish)
    except OSError:
        samplers.close()
        raise


def _open_store(config: dict[str, Any]) -> Store:
    path = config['store_path']
    handle = config['store_handle'] if path is None else os.open(path, os.O_RDWR | getattr(os, 'O_BINARY', 0))
    return Store(handle, config['store_place'])


def _refuse(handle: int, reason: str, text: str) -> None:
    _tell(handle, {'pid': os.getpid(), 'parent': os.getppid(), 'error': reason, 'text': text})


def _tell(handle: int, message: dict[str, Any]) -> None:
    try:
        os.write(handle, messages.encode(message))
    except OSError:
        pass  # the tracker has gone: there is nobody to tell


def _silence(status_handle: int) -> None:
    """Send what libraries print from now on nowhere: nobody reads the pipe until the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    if status_handle != 2:  # noqa: PLR2004 - standard error
        os.dup2(nowhere, 2)
