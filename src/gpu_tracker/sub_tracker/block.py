"""Code blocks that write a row when they start and one when they stop, from any thread, task and process."""

from __future__ import annotations

import itertools
import os
import sys
import threading

from gpu_tracker.real import time
from gpu_tracker.sub_tracker import log_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import TracebackType
    from typing import Any, Self, TypeVar

    Function = TypeVar('Function', bound=Callable[..., Any])

START = 0
STOP = 1

_IS_GENERATOR = 0x20  # co_flags, see the module inspect, whose import costs 10 ms
_IS_COROUTINE = 0x80


def _first_id() -> int:
    """Return a number below 2**51 that no other process starts with; a reader that uses floats keeps it exact."""
    return int.from_bytes(os.urandom(7), 'big') >> 5


_ids = itertools.count(_first_id())


def _renew_ids() -> None:
    global _ids  # noqa: PLW0603 - one counter a process
    _ids = itertools.count(_first_id())


if hasattr(os, 'register_at_fork'):
    os.register_at_fork(after_in_child=_renew_ids)


class SubTracker:
    """A code block whose calls are written to a file, one row at the start and one at the stop of each.

    An object may be entered several times, also while it is entered: by recursion, other threads and asyncio tasks,
    and by processes that are forked later. Rows that cannot be written are lost with one warning; the block itself
    never fails.

    :param code_block_name: The name of the block; ``path:attribute`` where not given, with the path of the source file
        relative to the working folder.
    :param code_block_attribute: What follows the path in such a name; the number of the line where not given.
    :param sub_tracking_file: A path that ends in ``.csv`` or ``.sqlite``; where not given, ``PID.csv`` in the working
        folder, with the id of the process that the block runs in.
    :param overwrite: Whether rows that an earlier run has left in the file are removed, at the first row of this run.
        Otherwise new rows follow them.
    :raises ValueError: where the path has another ending.
    """

    def __init__(
        self,
        code_block_name: str | None = None,
        code_block_attribute: str | int | None = None,
        sub_tracking_file: str | os.PathLike[str] | None = None,
        overwrite: bool = False,  # noqa: FBT001, FBT002 - the documented interface
    ) -> None:
        if code_block_name is None:
            caller = sys._getframe(1)  # noqa: SLF001 - inspect.stack() reads source files: 0.5 ms
            attribute = caller.f_lineno if code_block_attribute is None else code_block_attribute
            code_block_name = f'{_relative(caller.f_code.co_filename)}:{attribute}'
        self.code_block_name = str(code_block_name)
        self._file = None if sub_tracking_file is None else log_files.checked(sub_tracking_file)
        self._overwrite = bool(overwrite)
        self._calls: list[_Call] = []

    @property
    def process_id(self) -> int:
        """The process that a block entered now runs in."""
        return os.getpid()

    @property
    def sub_tracking_file(self) -> str:
        """The path of the file that a block entered now is written to."""
        return f'{os.getpid()}.csv' if self._file is None else self._file

    def __enter__(self) -> Self:
        """Write that the block starts."""
        call = _Call(self.sub_tracking_file)
        self._calls.append(call)
        row = (call.process, self.code_block_name, START, call.start, call.id)
        log_files.write(call.path, row, overwrite=self._overwrite, is_default=self._file is None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Write that the block stops; nothing in a process that was forked inside it."""
        call = self._innermost()
        if call is not None and call.process == os.getpid():
            log_files.write(call.path, (call.process, self.code_block_name, STOP, call.stop(), call.id))

    def _innermost(self) -> _Call | None:
        """Remove and return the call that ends here: the latest of this task, else of this thread, else of all."""
        calls = list(self._calls)
        if len(calls) > 1:
            task, thread = _task(), threading.get_ident()
            calls.sort(key=lambda call: (call.thread == thread, call.task == task))  # stable: the latest stays last
        while calls:
            call = calls.pop()
            try:
                self._calls.remove(call)
            except ValueError:
                continue  # another thread has taken it
            return call
        return None


class _Call:
    """One entry into a block."""

    __slots__ = ('_clock', 'id', 'path', 'process', 'start', 'task', 'thread')

    def __init__(self, path: str) -> None:
        self.path = log_files.absolute(path)
        self.id = next(_ids)
        self.process = os.getpid()
        self.thread = threading.get_ident()
        self.task = _task()
        self.start = time.time()
        self._clock = time.perf_counter()

    def stop(self) -> float:
        """Return the time of the stop; a wall clock that was set meanwhile does not change how long it took."""
        return self.start + (time.perf_counter() - self._clock)


def sub_track(
    code_block_name: str | None = None,
    code_block_attribute: str | None = None,
    sub_tracking_file: str | os.PathLike[str] | None = None,
    overwrite: bool = False,  # noqa: FBT001, FBT002 - the documented interface
) -> Callable[[Function], Function]:
    """Return a decorator that makes each call of a function a block of :class:`SubTracker`.

    The block of a coroutine function lasts until the coroutine ends, that of a generator function from the first item
    asked for until the last. The parameters are those of :class:`SubTracker`, with another default name: the absolute
    path of the source file, a colon and the name of the function, or ``code_block_attribute`` in place of that.

    :raises ValueError: where the path of the file has another ending than ``.csv`` or ``.sqlite``.
    """
    source = sys._getframe(1).f_code.co_filename  # noqa: SLF001 - as above
    path = None if sub_tracking_file is None else log_files.checked(sub_tracking_file)

    def decorate(function: Function) -> Function:
        name = code_block_name
        if name is None:
            attribute = (
                getattr(function, '__name__', 'function') if code_block_attribute is None else code_block_attribute
            )
            name = f'{_absolute(source)}:{attribute}'
        return _wrapped(function, lambda: SubTracker(name, None, path, overwrite))

    return decorate


def _wrapped(function: Function, block: Callable[[], SubTracker]) -> Function:
    """Return ``function`` with each call inside a new ``block``."""
    import functools  # noqa: PLC0415 - only where something is decorated

    kind = getattr(getattr(function, '__code__', None), 'co_flags', 0)

    async def coroutine(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - what the function takes and returns
        with block():
            return await function(*arguments, **named)

    def generator(*arguments: Any, **named: Any) -> Generator[Any, Any, Any]:  # noqa: ANN401 - as above
        with block():
            return (yield from function(*arguments, **named))

    def call(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - as above
        with block():
            return function(*arguments, **named)

    wrapper: Any = coroutine if kind & _IS_COROUTINE else generator if kind & _IS_GENERATOR else call
    wrapped: Any = functools.wraps(function)(wrapper)
    return wrapped  # type: ignore[no-any-return]  # it takes and returns what the function does


def _task() -> int:
    """Return what tells the running asyncio task from others; 0 outside of one."""
    tasks = sys.modules.get('asyncio.tasks')
    if tasks is None:
        return 0
    try:
        return id(tasks.current_task())
    except RuntimeError:
        return 0  # no loop runs in this thread


def _relative(path: str) -> str:
    try:
        return os.path.relpath(path)
    except (OSError, ValueError):
        return path  # the working folder was removed, or is on another drive


def _absolute(path: str) -> str:
    try:
        return os.path.abspath(path)
    except OSError:
        return path  # as above
