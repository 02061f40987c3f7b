"""The begin and the end of a region: what is read at both, and the lines that say so."""

from __future__ import annotations

import sys
from _thread import get_ident, get_native_id
from contextvars import ContextVar

from gpu_tracker.real import time
from gpu_tracker.regions import log, process, text
from gpu_tracker.regions.sums import OTHER_NAMES, SECOND, SINGLE_CALLS

try:
    from time import thread_time_ns
except ImportError:  # a system that does not count it

    def thread_time_ns() -> int:
        """Return 0."""
        return 0


TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_tracker.regions.sums import Sum


class Call:
    """One call of a region, from its begin to its end."""

    __slots__ = (
        'files',
        'has_ended',
        'id',
        'previous',
        'process',
        'start',
        'sum',
        'thread',
        'thread_cpu',
    )

    id: int
    process: process.Process
    files: tuple[log.LogFile, ...]
    previous: Call | None
    """What had been the innermost region before."""
    thread: int
    start: int
    thread_cpu: int
    """Nanoseconds at the begin; negative where it is not this call's alone."""
    sum: Sum | None
    """What it is added to where it has no lines of its own."""
    has_ended: bool


innermost: ContextVar[Call | None] = ContextVar('gpu_tracker_region', default=None)
"""The region in which the code runs that asks for it."""


def begin(name: str, attributes: Mapping[str, object] | None, *, is_single: bool = False) -> Call | None:
    """Begin a call and return it; None where it is not recorded. It raises only what a handler of a signal does.

    :param is_single: It gets lines of its own however many calls there are.
    """
    call = None
    try:
        files = log.active or log.find()
        if files is None:
            return None
        here = process.current
        call = Call()
        call.has_ended = False
        call.process = here
        call.files = files
        call.previous = previous = _not_ended(innermost.get())
        parent = here.outer if previous is None else previous.id
        call.thread = get_ident()
        known = here.sums.name(name)
        known.calls += 1
        task = _task() if 'asyncio.tasks' in sys.modules else None
        cpu_is_its_own = task is None and 'gevent' not in sys.modules
        now = time.monotonic_ns()
        if known.calls > SINGLE_CALLS and not is_single and now - known.last_begin < SECOND:
            known.last_begin = now
            call.sum = here.sums.begin(known, parent, get_native_id(), files, now)
            call.id = call.sum.id
            innermost.set(call)
            call.thread_cpu = thread_time_ns() if cpu_is_its_own else -1
            call.start = time.monotonic_ns()
            return call
        known.last_begin = now
        call.sum = None
        call.id = number = here.next_id()
        field = known.field if known.field != OTHER_NAMES else text.field(name, text.LONGEST_NAME)
        end = text.attributes_field(attributes)
        peak = here.peak()
        innermost.set(call)
        call.thread_cpu = cpu = thread_time_ns() if cpu_is_its_own else -1
        call.start = start = time.monotonic_ns()
        line = (
            f'B\t{number}\t{"-" if parent is None else parent}\t{here.pid}\t{get_native_id()}'
            f'\t{"-" if task is None else task}\t{start}\t{cpu if cpu_is_its_own else "-"}\t{peak}'
            f'\t{field}\t{end}\n'
        ).encode('utf-8', 'replace')
        for file in files:
            file.write(line)
    except BaseException as error:
        if call is not None:
            call.has_ended = True  # so that it is no parent of what comes
        if not isinstance(error, Exception) or log.is_from_outside(error):
            raise
        return None  # the measured program never fails for what measures it
    return call


def end(call: Call, error: type[BaseException] | None) -> None:
    """End a call; it raises only what a handler of a signal does.

    :param error: What has left the block; that a generator is closed is no error.
    """
    now = time.monotonic_ns()
    try:
        if call.has_ended:
            return
        call.has_ended = True
        if error is GeneratorExit:
            error = None
        if innermost.get() is call:
            innermost.set(_not_ended(call.previous))
        here = call.process
        if here is not process.current:
            return  # a copy of the call, in a process that was forked in it
        cpu = thread_time_ns() if call.thread_cpu >= 0 and call.thread == get_ident() else -1
        if call.sum is not None:
            used = cpu - call.thread_cpu if cpu >= 0 else None
            here.sums.end((call.sum, call.start, now, used, error is not None))
            return
        if here.sums.due:
            here.sums.write(now)
        line = (
            f'E\t{call.id}\t{now}\t{cpu if cpu >= 0 else "-"}\t{here.peak()}'
            f'\t{"-" if error is None else text.field(error.__name__)}\n'
        ).encode('utf-8', 'replace')
        for file in call.files:
            file.write(line)
    except Exception as failure:
        if log.is_from_outside(failure):
            raise


def _not_ended(call: Call | None) -> Call | None:
    """Return the innermost of ``call`` and those before it that has not ended, and forget the ended ones."""
    while call is not None and call.has_ended:
        call = call.previous
    if call is not None:
        while call.previous is not None and call.previous.has_ended:
            call.previous = call.previous.previous
    return call


def _task() -> str | None:
    """Return the name of the asyncio task that runs in this thread, as a field."""
    loop = sys.modules['asyncio.events']._get_running_loop()  # noqa: SLF001 - the only one that never raises
    task = None if loop is None else sys.modules['asyncio.tasks'].current_task(loop)
    return None if task is None else text.field(str(task.get_name()))
