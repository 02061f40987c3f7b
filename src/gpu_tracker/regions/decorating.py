"""Functions whose every call is a region: plain ones, coroutines, and both kinds of generators."""

# ruff: noqa: ANN401 - what the user's functions take and return
from __future__ import annotations

from gpu_tracker.regions import calls, log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from typing import Any

    Function = Callable[..., Any]
    Block = Callable[[], Any]

GENERATOR, COROUTINE, ITERABLE_COROUTINE, ASYNC_GENERATOR = 0x20, 0x80, 0x100, 0x200
"""Flags of a code object, as in the documentation of inspect."""


def decorated(function: Any, named: Callable[[str], Any]) -> Any:
    """Return ``function``, or the method that it is made into, as one whose every call is a region.

    :param named: Makes the block of a call, given the name of the function.
    :raises TypeError: where it is nothing of the kind.
    """
    if isinstance(function, classmethod | staticmethod):
        return type(function)(decorated(function.__func__, named))
    if isinstance(function, type) or not callable(function):
        raise TypeError(
            f'region needs a name, or a function or method to decorate, not {function!r} ({type(function).__name__}). '
            'Put @region below decorators that do not return a function, such as @property'
        )
    name = str(getattr(function, '__qualname__', type(function).__qualname__))
    flags = flags_of(function)
    if flags & ASYNC_GENERATOR:
        kind = _async_generator
    elif flags & COROUTINE:
        kind = _coroutine
    elif flags & GENERATOR and not flags & ITERABLE_COROUTINE:
        kind = _generator
    else:
        kind = _plain
    return made_of(function, kind(function, lambda: named(name)))


def made_of(function: Any, made: Function) -> Function:
    """Return ``made`` with the name and all else of ``function``, as functools.wraps does, which costs an import."""
    for attribute in ('__module__', '__name__', '__qualname__', '__doc__', '__annotations__', '__type_params__'):
        if hasattr(function, attribute):
            setattr(made, attribute, getattr(function, attribute))
    made.__dict__.update(getattr(function, '__dict__', {}))
    made.__dict__['__wrapped__'] = function
    return made


def _plain(function: Function, block: Block) -> Function:
    begin, end = block().begin, block().end  # a microsecond cheaper than a block for each call

    def run(*args: Any, **kwargs: Any) -> Any:
        if log.active is None:
            return function(*args, **kwargs)
        call = begin()
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            if call is not None:
                end(call, type(error))
            raise
        if call is not None:
            end(call, None)
        return result

    return run


def _coroutine(function: Function, block: Block) -> Function:
    async def run(*args: Any, **kwargs: Any) -> Any:
        with block():
            return await function(*args, **kwargs)

    return run


class _Inside:
    """The code of a generator: inside it the region is the innermost one, but not in the code that asks for items."""

    __slots__ = ('_inside', '_outside')

    def __init__(self, outside: calls.Call | None) -> None:
        self._inside = calls.innermost.get()
        self._outside = outside
        calls.innermost.set(outside)

    def __enter__(self) -> None:
        self._outside = calls.innermost.get()
        calls.innermost.set(self._inside)

    def __exit__(self, *_: object) -> None:
        self._inside = calls.innermost.get()
        calls.innermost.set(self._outside)


def _generator(function: Function, block: Block) -> Function:
    def run(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        items = function(*args, **kwargs)
        if log.active is None:
            return (yield from items)
        outside = calls.innermost.get()
        with block():
            inside = _Inside(outside)
            resume, given = items.send, None
            while True:
                try:
                    with inside:
                        item = resume(given)
                except StopIteration as stop:
                    return stop.value
                try:
                    resume, given = items.send, (yield item)
                except BaseException as error:  # noqa: BLE001 - whatever was thrown in is for the generator
                    resume, given = items.throw, error

    return run


def _async_generator(function: Function, block: Block) -> Function:
    async def run(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        items = function(*args, **kwargs)
        outside = calls.innermost.get()
        with block():
            inside = _Inside(outside)
            resume, given = items.asend, None
            while True:
                try:
                    with inside:
                        item = await resume(given)
                except StopAsyncIteration:
                    return
                try:
                    resume, given = items.asend, (yield item)
                except BaseException as error:  # noqa: BLE001 - as for a generator
                    resume, given = items.athrow, error

    return run


def flags_of(function: Any) -> int:
    """Return the flags of the code that runs when ``function`` is called."""
    while hasattr(function, 'func') and not hasattr(function, '__code__'):
        function = function.func  # functools.partial
    code = getattr(function, '__code__', None) or getattr(getattr(type(function), '__call__', None), '__code__', None)  # noqa: B004 - its code is asked for
    code = code or getattr(getattr(function, '__func__', None), '__code__', None)
    return int(getattr(code, 'co_flags', 0))
