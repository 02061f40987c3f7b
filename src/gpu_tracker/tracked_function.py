"""``track``: a decorator for functions whose calls are tracked, each by a tracker of its own."""

# ruff: noqa: ANN401 - track takes and returns what the overloads say, which ruff does not know as such here
from __future__ import annotations

import sys
from contextvars import ContextVar

from gpu_tracker.errors import SamplerError
from gpu_tracker.regions.decorating import (
    ASYNC_GENERATOR,
    COROUTINE,
    GENERATOR,
    ITERABLE_COROUTINE,
    flags_of,
    made_of,
)
from gpu_tracker.running.options import Options
from gpu_tracker.tracker import Tracker, log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any, Self, TypeVar, Unpack, overload

    from gpu_tracker.result.usage import ResourceUsage
    from gpu_tracker.running.options import TrackerOptions

    Function = TypeVar('Function', bound=Callable[..., Any])
    Report = Callable[[ResourceUsage], object]
else:

    def overload(function: object) -> object:
        """Stand for typing's, which costs its import."""
        return function


@overload
def track(function: Function, /) -> Function: ...  # noqa: D103
@overload
def track(  # noqa: D103, F811
    *, report: Report | None = None, **options: Unpack[TrackerOptions]
) -> Callable[[Function], Function]: ...
def track(  # noqa: F811
    function: Any = None, /, *, report: Report | None = None, **options: Unpack[TrackerOptions]
) -> Any:
    """Measure each call of the decorated function. Write ``@track`` or ``@track(...)``.

    After each call, a summary is printed on standard error, or the result is passed to the function ``report``. The
    decorated function's return value and exceptions stay the same. If measuring fails, a warning is logged and the
    function still runs.

    You can decorate functions, coroutine functions and methods, but not generators. A recursive call is measured as
    part of the outermost call. The whole process is measured: if two calls overlap, both results include both calls.

    :param report: Function to call with the :class:`~gpu_tracker.ResourceUsage` of each call.
    :param options: Parameters of :class:`~gpu_tracker.Tracker`, except ``process_id``.
    """
    if 'process_id' in options:
        raise TypeError('track has no parameter process_id, because track measures the process that calls the function')
    if function is None:
        Options(**options)
        return lambda function: _tracked(function, report, options)
    return _tracked(function, report, options)


def _tracked(function: Any, report: Report | None, options: TrackerOptions) -> Any:
    if isinstance(function, type) or not callable(function) or isinstance(function, classmethod | staticmethod):
        raise TypeError(
            f'track decorates only functions and methods, not {function!r}. Put @track below '
            '@classmethod and @staticmethod'
        )
    flags = flags_of(function)
    is_coroutine = flags & (COROUTINE | ITERABLE_COROUTINE)
    if flags & ASYNC_GENERATOR or (flags & GENERATOR and not is_coroutine):
        raise TypeError(
            f'track cannot measure the generator {_name(function)}, because its code runs in pieces, '
            'one for each item. '
            'Track the function that reads the items, or use a Tracker'
        )
    calls = _Calls(_name(function), report, options)
    if is_coroutine:

        async def run_async(*args: Any, **kwargs: Any) -> Any:
            if calls.is_inside.get():
                return await function(*args, **kwargs)
            with _Call(calls):
                return await function(*args, **kwargs)

        return made_of(function, run_async)

    def run(*args: Any, **kwargs: Any) -> Any:
        if calls.is_inside.get():
            return function(*args, **kwargs)
        with _Call(calls):
            return function(*args, **kwargs)

    return made_of(function, run)


def _name(function: Any) -> str:
    return str(getattr(function, '__qualname__', type(function).__qualname__))


class _Calls:
    """What the calls of one function have in common.

    :ivar is_inside: Whether the code that runs belongs to a call that is tracked.
    """

    def __init__(self, name: str, report: Report | None, options: TrackerOptions) -> None:
        self.name = name
        self.report = report
        self.options = options
        self.is_inside: ContextVar[bool] = ContextVar(name, default=False)


class _Call:
    """One call, as the block in which the function runs."""

    def __init__(self, calls: _Calls) -> None:
        self._calls = calls
        self._tracker: Tracker | None = None

    def __enter__(self) -> Self:
        tracker = Tracker(**self._calls.options)
        try:
            tracker.start()
            self._tracker = tracker
        except SamplerError as error:
            self._warn(error)
        self._token = self._calls.is_inside.set(True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._calls.is_inside.reset(self._token)
        tracker = self._tracker
        if tracker is None:
            return
        try:
            tracker.__exit__(kind, error, traceback)
            if tracker.state is not Tracker.State.STOPPED:
                return  # a process that the function has forked returns from it as well
            usage = tracker.resource_usage
        except SamplerError as problem:
            self._warn(problem)
            return
        if self._calls.report is None:
            self._print(usage)
        else:
            self._calls.report(usage)

    def _print(self, usage: ResourceUsage) -> None:
        if sys.stderr is None:
            return  # a program without a console
        from gpu_tracker.result.formats import as_summary  # noqa: PLC0415 - at the end of what is measured

        lines = ''.join(f'\n   {line}' for line in as_summary(usage).splitlines())
        try:
            sys.stderr.write(f'{self._calls.name}:{lines}\n')
        except (OSError, ValueError):
            pass  # nobody reads it any more, or it is closed

    def _warn(self, error: SamplerError) -> None:
        if not self._calls.options.get('disable_logs'):
            log('warning', f'{self._calls.name} was not measured: {error}')
