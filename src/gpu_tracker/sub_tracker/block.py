"""Code blocks that write a row when they start and one when they stop, from any thread, task and process."""

from __future__ import annotations

import os
import sys
import threading

from gpu_tracker.real import time
from gpu_tracker.sub_tracker import block_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import TracebackType
    from typing import Any, Self, TypeVar

    Function = TypeVar('Function', bound=Callable[..., Any])

_IS_GENERATOR = 0x20  # co_flags, see the module inspect, whose import costs 10 ms
_IS_COROUTINE = 0x80
_ID_BYTES = 6
"""A reader that uses floats keeps such numbers exact."""


class SubTracker:
    """A code block of gpu-tracker 5. It writes a row at each start and stop.

    :param code_block_name: Name. None: ``path:attribute``.
    :param code_block_attribute: Part after the path. None: the line number.
    :param sub_tracking_file: Path ending in ``.csv`` or ``.sqlite``. None: ``PID.csv``.
    :param overwrite: Remove rows of an earlier run.
    :raises ValueError: if the path has another ending.
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
            code_block_name = f'{_path(os.path.relpath, caller.f_code.co_filename)}:{attribute}'
        self.code_block_name = str(code_block_name)
        self._file = _checked(sub_tracking_file)
        self._overwrite = bool(overwrite)
        self._calls: list[_Call] = []

    @property
    def process_id(self) -> int:
        """The ID of the process."""
        return os.getpid()

    @property
    def sub_tracking_file(self) -> str:
        """The path of the file to which a block entered now is written."""
        return self._file or f'{os.getpid()}.csv'

    def __enter__(self) -> Self:
        """Write that the block starts."""
        call = _Call(_path(os.path.abspath, self.sub_tracking_file))
        self._calls.append(call)
        row = (call.process, self.code_block_name, block_log.START, call.start, call.id)
        call.is_written = block_log.write(call.file, row, overwrite=self._overwrite)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Write that the block stops, unless its start was not written, or by the parent of this process."""
        stop = time.perf_counter()
        call = self._last_call()
        if call.is_written and call.process == os.getpid():
            stopped = call.start + (stop - call.clock)  # right also if the wall clock was set meanwhile
            block_log.write(call.file, (call.process, self.code_block_name, block_log.STOP, stopped, call.id))

    def _last_call(self) -> _Call:
        """Remove and return the last call of this task, or of any if this task has none."""
        place = _place()
        with block_log.lock:
            call = ([call for call in self._calls if call.place == place] or self._calls)[-1]
            self._calls.remove(call)
        return call


class _Call:
    """One call of a block."""

    __slots__ = ('clock', 'file', 'id', 'is_written', 'place', 'process', 'start')

    def __init__(self, file: str) -> None:
        self.file = file
        self.id = int.from_bytes(os.urandom(_ID_BYTES), 'big')
        self.process = os.getpid()
        self.place = _place()
        self.is_written = False
        self.start = time.time()
        self.clock = time.perf_counter()


def sub_track(
    code_block_name: str | None = None,
    code_block_attribute: str | None = None,
    sub_tracking_file: str | os.PathLike[str] | None = None,
    overwrite: bool = False,  # noqa: FBT001, FBT002 - the documented interface
) -> Callable[[Function], Function]:
    """Decorate a function: each call is a block of :class:`SubTracker`, with the same parameters.

    The default name is ``path:function``.

    :raises ValueError: if the path has another ending than ``.csv`` or ``.sqlite``.
    """
    source = sys._getframe(1).f_code.co_filename  # noqa: SLF001 - as above
    path = _checked(sub_tracking_file)

    def decorate(function: Function) -> Function:
        name = code_block_name
        if name is None:
            attribute = (
                getattr(function, '__name__', 'function') if code_block_attribute is None else code_block_attribute
            )
            name = f'{_path(os.path.abspath, source)}:{attribute}'
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


def _place() -> tuple[int, int]:
    """Return what identifies the running thread and asyncio task."""
    thread = threading.get_ident()
    tasks = sys.modules.get('asyncio.tasks')
    if tasks is None:
        return thread, 0
    try:
        return thread, id(tasks.current_task())
    except RuntimeError:
        return thread, 0  # no loop runs in this thread


def _checked(file: str | os.PathLike[str] | None) -> str | None:
    """Return the path as text; raise ParameterError if its ending names no format."""
    if file is None:
        return None
    path = os.fsdecode(file)
    block_log.check_ending(path)
    return path


def _path(make: Callable[[str], str], path: str) -> str:
    """Return ``make(path)``; ``path`` itself if the working folder was removed, or is on another drive of Windows."""
    try:
        return make(path)
    except (OSError, ValueError):
        return path
