"""What the sampling subprocess runs: it opens the sources, says that it is ready, and samples to the end."""

from __future__ import annotations

import gc
import os
import sys
import time

from gpu_tracker.processes import SAMPLER_NAME, proc_fault
from gpu_tracker.resources import RefusedError, chosen
from gpu_tracker.resources.budget import Budget
from gpu_tracker.resources.context import Context
from gpu_tracker.sampler import messages
from gpu_tracker.sampler.control import ABANDONED, DISCARD, FINISH, STOP, TARGET_ENDED
from gpu_tracker.sampler.descriptors import FIRST_FOREIGN
from gpu_tracker.sampler.grid import Grid
from gpu_tracker.sampler.lineage import Lineage
from gpu_tracker.sampler.loop import Loop
from gpu_tracker.sampler.publisher import Publisher
from gpu_tracker.sampler.store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_tracker.resources import Resource
    from gpu_tracker.sampler.kept_run import KeptRun
    from gpu_tracker.sampler.limit_watch import LimitWatch
    from gpu_tracker.sampler.loop import Waiter
    from gpu_tracker.sampler.recorders import Recorders
    from gpu_tracker.system.owner_terminal import OwnerTerminal
    from gpu_tracker.totals import Evidence, Message, Record, SamplerConfiguration

_NOTICE = '{} has ended before its measurement. What was measured: gpu-tracker show {}'
_LONGEST_SETTLEMENT = 60.0
"""Seconds that the sampler waits for the totals which the tracker reports."""
_ADOPTED = 'This program has adopted the sampler: until the tracker stops, waiting for all children does not end.'


def main(config: SamplerConfiguration, control_handle: int, status_handle: int) -> None:
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


def _sample(config: SamplerConfiguration, control_handle: int, status_handle: int) -> None:
    fault = proc_fault() if sys.platform == 'linux' else None
    if fault is not None:  # the tracker's own look has found nothing: /proc was changed since
        _refuse(status_handle, 'proc', fault)
        return
    control = _open_control(control_handle, config['owner'], config['target'])
    context = Context(config)
    resources = {entry.name: entry.load().open_resource(context) for entry in chosen(config['sections'])}
    tree = context.tree
    lineage = Lineage(tree)
    grid = Grid(config['interval'], context.limit)
    kept = _keep(config)
    try:
        recorders = _open_recorders(_with_path(config, kept), context, resources)
        for resource in resources.values():
            resource.wait_until_ready()
    except RefusedError as error:
        if kept is not None:
            kept.discard()
        _refuse(status_handle, error.reason, str(error))
        return
    store = _open_store(config)
    publisher = Publisher(
        config,
        store=store,
        resources=resources,
        record=lambda: _record(context, control, lineage, grid),
        recorders=recorders,
        kept=kept,
    )
    if sys.platform == 'linux' and os.getppid() == config['owner'] != config['launcher']:
        publisher.messages.append(('warning', _ADOPTED))
    loop = Loop(
        tree=tree,
        lineage=lineage,
        resources=list(resources.values()),
        grid=grid,
        interval=config['interval'],
        publish=publisher.publish,
        exec_handle=config['exec_handle'],
        watching=lambda: _tell(status_handle, {'watching': True}),
        monotonic=time.monotonic,
        recorders=recorders,
        limits=_open_limits(config, resources, status_handle),
        budget=context.budget if isinstance(context.budget, Budget) else None,
        cpu_time=context.cpu_time,
    )
    loop.first()
    gc.freeze()
    if config['sections']:
        gc.enable()  # what others bring makes cycles, and nobody else collects them
    _tell(
        status_handle,
        {
            'pid': os.getpid(),
            'parent': os.getppid(),
            'messages': publisher.messages,
            'kept': None if kept is None else kept.path,
        },
    )
    _silence(status_handle)
    terminal = None if kept is None else _owner_terminal(config['owner'])
    end = loop.run(control)
    has_begun = not publisher.evidence['record']['held']
    if kept is not None and terminal is not None and end == ABANDONED and has_begun and kept.is_wanted:
        terminal.say(_NOTICE.format(kept.name, kept.id))
    _report_end(status_handle, recorders, control, store, end, publisher.evidence)
    if kept is not None and (end == DISCARD or not has_begun):
        kept.discard()
    _remove_store(store, config['store_path'] if end == ABANDONED else None)


def _keep(config: SamplerConfiguration) -> KeptRun | None:
    """Return the file that outlives this process; None if there can be none."""
    if sys.platform != 'linux' or not config['keeps']:
        return None
    from gpu_tracker.sampler import kept_run  # noqa: PLC0415 - not for other systems

    return kept_run.create(kept_run.about(config))


def _with_path(config: SamplerConfiguration, kept: KeptRun | None) -> SamplerConfiguration:
    """Return the configuration with the path of a recording that is kept, or without it if there is no folder."""
    request = config['recording']
    if request is None or request['begins'] != 'late':
        return config
    return {**config, 'recording': None if kept is None else {**request, 'path': kept.recording}}


def _owner_terminal(owner: int) -> OwnerTerminal | None:
    """Return the terminal of the tracker, which does not wait for this import."""
    from gpu_tracker.system.owner_terminal import terminal_of  # noqa: PLC0415 - see above

    return terminal_of(owner)


def _record(context: Context, control: Waiter, lineage: Lineage, grid: Grid) -> dict[str, object]:
    """Return how the run was sampled so far, and what is known of descendants."""
    config = context.config
    record: Record = {
        'late': grid.late,
        'skipped': grid.skipped,
        'is_limited': grid.is_limited,
        'mean_interval': grid.mean_interval,
        'cpu_seconds': time.process_time(),
        'held': config['launcher'] is not None and context.tree.root.shares_memory,
        'tracked_seconds': control.tracked_seconds,
    }
    return {'record': record, 'lineage': lineage.record()}


def _report_end(
    status_handle: int, recorders: Recorders | None, control: Waiter, store: Store, end: str, evidence: Evidence
) -> None:
    """Report to the tracker that the sampling has ended, and end what was recorded."""
    is_recording = recorders is not None and recorders.is_recording
    if recorders is not None and not is_recording:
        _finish(recorders, control, store, end)  # before the tracker is told: its next run may replace the file at once
    if end not in {ABANDONED, DISCARD}:
        _tell(status_handle, {'done': True, 'is_recording': is_recording, 'evidence': evidence})
    if recorders is not None and is_recording:
        _finish(recorders, control, store, end)
    if recorders is not None and (is_recording or end == DISCARD):
        _tell(status_handle, {'done': True, 'unfinished': recorders.unfinished()})


def _open_recorders(
    config: SamplerConfiguration, context: Context, resources: Mapping[str, Resource]
) -> Recorders | None:
    """Return what records the run; None: nothing does."""
    if config['recording'] is None and config['rows_file'] is None:
        return None
    from gpu_tracker.sampler.recorders import open_recorders  # noqa: PLC0415 - most runs need none

    return open_recorders(config, context, resources)


def _open_limits(
    config: SamplerConfiguration, resources: Mapping[str, Resource], status_handle: int
) -> LimitWatch | None:
    """Return what compares samples with the limits of the run; None: there are none."""
    limits = config['limits']
    if not limits:
        return None
    from gpu_tracker.sampler.limit_watch import LimitWatch  # noqa: PLC0415 - most runs have none

    return LimitWatch(
        limits, resources, lambda reason, amount: _tell(status_handle, {'exceeded': reason, 'amount': amount})
    )


def _finish(recorders: Recorders, control: Waiter, store: Store, end: str) -> None:
    """Wait for the totals that the tracker reports, and end what was recorded with them."""
    from gpu_tracker.recording import schema  # noqa: PLC0415 - as above

    while recorders.is_recording and end in {STOP, TARGET_ENDED}:
        end = control.wait(_LONGEST_SETTLEMENT) or ABANDONED
    if end == FINISH:
        recorders.finish(schema.STOPPED, store.read(), control.exit_code)
    elif end == DISCARD:
        recorders.discard()
    else:
        recorders.finish(schema.ABANDONED, None, None)


def _open_control(handle: int, owner: int, target: int) -> Waiter:
    if sys.platform == 'win32':
        from gpu_tracker.sampler.thread_control import ThreadControl  # noqa: PLC0415 - for this system only

        return ThreadControl(handle)
    from gpu_tracker.sampler.control import Control  # noqa: PLC0415 - not for Windows

    return Control(handle, owner, target)


def _open_store(config: SamplerConfiguration) -> Store:
    path = config['store_path']
    if path is None:
        return Store(config['store_handle'], config['store_place'])
    handle = os.open(path, os.O_RDWR | getattr(os, 'O_BINARY', 0))
    if sys.platform != 'win32':
        os.unlink(path)  # the tracker has it open, and whatever ends leaves no file behind
    return Store(handle, config['store_place'])


def _remove_store(store: Store, path: str | None) -> None:
    """Remove the file that a tracker which has ended has left behind; on Windows nobody can before that."""
    if path is not None:
        store.close()
        try:
            os.unlink(path)
        except OSError:
            pass  # removed long ago, or a process that the tracker has started has it open


def _refuse(handle: int, reason: str, text: str) -> None:
    _tell(handle, {'pid': os.getpid(), 'parent': os.getppid(), 'error': reason, 'text': text})


def _tell(handle: int, message: Message) -> None:
    try:
        os.write(handle, messages.encode(message))
    except OSError:
        pass  # the tracker has gone: there is nobody to tell


def _silence(status_handle: int) -> None:
    """Send what libraries print from now on nowhere: nobody reads the pipe until the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    if status_handle != 2:  # noqa: PLR2004 - standard error
        os.dup2(nowhere, 2)
