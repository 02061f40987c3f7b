"""Functions whose every call is a region: plain ones, coroutines, and both kinds of generators."""

# ruff: noqa: ANN401 - what the user's functions take and return
from __future__ import annotations

from gpu_tracker.regions import calls, log, process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Mapping
    from typing import Any

    Function = Callable[..., Any]
    Sync = Callable[[], object]

GENERATOR, COROUTINE, ITERABLE_COROUTINE, ASYNC_GENERATOR = 0x20, 0x80, 0x100, 0x200
"""Flags of a code object, as in the documentation of inspect."""


def decorated(function: Any, name: str | None, sync: Sync | None, attributes: Mapping[str, object]) -> Any:
    """Return ``function``, or the method that it is made into, as one whose every call is a region.

    :param name: The name of the region; its own qualified name where None.
    :raises TypeError: where it is nothing of the kind.
    """
    if isinstance(function, classmethod | staticmethod):
        return type(function)(decorated(function.__func__, name, sync, attributes))
    if isinstance(function, type) or not callable(function):
        raise TypeError(
            f'region takes a name, or decorates a function or a method, not {_described(function)}; '
            'put it below decorators that make something else of a function'
        )
    step = _Step(name or str(getattr(function, '__qualname__', type(function).__qualname__)), sync, attributes)
    flags = flags_of(function)
    if flags & ASYNC_GENERATOR:
        made = _async_generator(function, step)
    elif flags & COROUTINE:
        made = _coroutine(function, step)
    elif flags & GENERATOR and not flags & ITERABLE_COROUTINE:
        made = _generator(function, step)
    else:
        made = _plain(function, step)
    return made_of(function, made)


def made_of(function: Any, made: Function) -> Function:
    """Return ``made`` with the name and all else of ``function``, as functools.wraps does, which costs an import."""
    for attribute in ('__module__', '__name__', '__qualname__', '__doc__', '__annotations__', '__type_params__'):
        if hasattr(function, attribute):
            setattr(made, attribute, getattr(function, attribute))
    made.__dict__.update(getattr(function, '__dict__', {}))
    made.__dict__['__wrapped__'] = function
    return made


class _Step:
    """What the calls of one function have in common."""

    __slots__ = ('attributes', 'name', 'sync')

    def __init__(self, name: str, sync: Sync | None, attributes: Mapping[str, object]) -> None:
        self.name = name
        self.sync = sync
        self.attributes = attributes

    def begin(self) -> calls.Call | None:
        """Begin a call; None where it is not recorded."""
        if self.sync is not None and log.find() is not None:
            self.sync()
        return calls.begin(self.name, self.attributes)

    def end(self, call: calls.Call | None, error: type[BaseException] | None = None) -> None:
        """End a call."""
        if call is None:
            return
        if self.sync is not None and call.process is process.current:
            try:
                self.sync()
            except BaseException as failure:
                calls.end(call, error or type(failure))
                raise
        calls.end(call, error)


def _plain(function: Function, step: _Step) -> Function:
    def run(*args: Any, **kwargs: Any) -> Any:
        if log.active is None:
            return function(*args, **kwargs)
        call = step.begin()
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            step.end(call, type(error))
            raise
        step.end(call)
        return result

    return run


def _coroutine(function: Function, step: _Step) -> Function:
    async def run(*args: Any, **kwargs: Any) -> Any:
        if log.active is None:
            return await function(*args, **kwargs)
        call = step.begin()
        try:
            result = await function(*args, **kwargs)
        except BaseException as error:
            step.end(call, type(error))
            raise
        step.end(call)
        return result

    return run


class _Inside:
    """The code of a generator, whose innermost region is its own, and not that of the code which asks it for items."""

    __slots__ = ('_inside', '_outside')

    def __init__(self, call: calls.Call) -> None:
        self._inside: calls.Call | None = call
        self._outside: calls.Call | None = None

    def __enter__(self) -> None:
        self._outside = calls.innermost.get()
        calls.innermost.set(self._inside)

    def __exit__(self, *_: object) -> None:
        self._inside = calls.innermost.get()
        calls.innermost.set(self._outside)


def _generator(function: Function, step: _Step) -> Function:
    def run(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        items = function(*args, **kwargs)
        outside = calls.innermost.get()
        call = None if log.active is None else step.begin()
        if call is None:
            return (yield from items)
        calls.innermost.set(outside)
        inside = _Inside(call)
        resume, given = items.send, None
        while True:
            try:
                with inside:
                    item = resume(given)
            except StopIteration as stop:
                step.end(call)
                return stop.value
            except BaseException as error:
                step.end(call, type(error))
                raise
            try:
                given = yield item
                resume = items.send
            except GeneratorExit:
                _close(items, inside, step, call)
                raise
            except BaseException as error:  # noqa: BLE001 - whatever was thrown in is for the generator
                resume, given = items.throw, error

    return run


def _close(items: Generator[Any, Any, Any], inside: _Inside, step: _Step, call: calls.Call) -> None:
    """Close a generator that nobody asks for items any more, which is no error of its region."""
    try:
        with inside:
            items.close()
    except BaseException as error:
        step.end(call, type(error))
        raise
    step.end(call)


def _async_generator(function: Function, step: _Step) -> Function:
    async def run(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        items = function(*args, **kwargs)
        outside = calls.innermost.get()
        call = None if log.active is None else step.begin()
        calls.innermost.set(outside)
        inside = None if call is None else _Inside(call)
        resume, given = items.asend, None
        while True:
            try:
                if inside is None:
                    item = await resume(given)
                else:
                    with inside:
                        item = await resume(given)
            except StopAsyncIteration:
                step.end(call)
                return
            except BaseException as error:
                step.end(call, type(error))
                raise
            try:
                given = yield item
                resume = items.asend
            except GeneratorExit:
                await _close_async(items, inside, step, call)
                raise
            except BaseException as error:  # noqa: BLE001 - as for a generator
                resume, given = items.athrow, error

    return run


async def _close_async(
    items: AsyncGenerator[Any, Any], inside: _Inside | None, step: _Step, call: calls.Call | None
) -> None:
    """Close an asynchronous generator, as ``_close`` does."""
    try:
        if inside is None:
            await items.aclose()
        else:
            with inside:
                await items.aclose()
    except BaseException as error:
        step.end(call, type(error))
        raise
    step.end(call)


def flags_of(function: Any) -> int:
    """Return the flags of the code that runs when ``function`` is called."""
    while hasattr(function, 'func') and not hasattr(function, '__code__'):
        function = function.func  # functools.partial
    code = getattr(function, '__code__', None) or getattr(getattr(type(function), '__call__', None), '__code__', None)  # noqa: B004 - its code is asked for
    code = code or getattr(getattr(function, '__func__', None), '__code__', None)
    return int(getattr(code, 'co_flags', 0))


def _described(given: object) -> str:
    kind = type(given).__name__
    return f'the class {given.__name__}' if isinstance(given, type) else f'{given!r} ({kind})'
