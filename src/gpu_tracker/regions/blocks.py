"""``region``: what a program names its parts with, as a block or as a decorator."""

# ruff: noqa: ANN401 - region takes and returns what the overloads say, which ruff does not know as such here
from __future__ import annotations

from gpu_tracker.regions import calls, log, process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any, Self, TypeVar, overload

    Decorated = TypeVar('Decorated', bound=Callable[..., Any] | classmethod[Any, Any, Any] | staticmethod[Any, Any])
    Sync = Callable[[], object]
else:

    def overload(function: object) -> object:
        """Stand for typing's, which costs its import."""
        return function


_MOST_KEPT = 1000
_kept: dict[str, NamedRegion] = {}
"""Objects for names alone, to be given again while nothing is recorded: an object of its own costs 0.1 µs."""


class NamedRegion:
    """A named part of a program: a block, also an asynchronous one, or a decorator.

    One object can be used several times, also at the same time by several threads.
    """

    __slots__ = ('_attributes', '_name', '_open', '_sync')

    def __init__(self, name: str, sync: Sync | None, attributes: dict[str, object]) -> None:
        self._name = name
        self._sync = sync
        self._attributes = attributes
        self._open: list[calls.Call] | None = None

    def begin(self) -> calls.Call | None:
        """Begin a call and return it; None if it is not recorded."""
        if self._sync is not None and log.find() is not None:
            self._sync()
        return calls.begin(self._name, self._attributes)

    def end(self, call: calls.Call, error: type[BaseException] | None) -> None:
        """End a call."""
        if self._sync is not None and call.process is process.current:
            try:
                self._sync()
            except BaseException as failure:
                calls.end(call, error or type(failure))
                raise
        calls.end(call, error)

    def __enter__(self) -> Self:
        """Begin."""
        if log.active is not None:
            call = self.begin()
            if call is not None:
                if self._open is None:
                    self._open = [call]
                else:
                    self._open.append(call)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End."""
        call = self._ending(self._open) if self._open else None
        if call is not None:
            self.end(call, kind)

    async def __aenter__(self) -> Self:
        """Begin."""
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End."""
        self.__exit__(kind, error, traceback)

    def __call__(self, function: Decorated) -> Decorated:
        """Return ``function`` as one whose every call is a region.

        :raises TypeError: where it is neither a function nor another callable, a class method or a static method.
        """
        from gpu_tracker.regions.decorating import decorated  # noqa: PLC0415 - not where only blocks are used

        made: Decorated = decorated(function, lambda _: NamedRegion(self._name, self._sync, self._attributes))
        return made

    def __repr__(self) -> str:
        """Return the name."""
        return f'region({self._name!r})'

    @staticmethod
    def _ending(running: list[calls.Call]) -> calls.Call | None:
        """Take the call that ends from those that are open: the innermost one here, or one begun in another context."""
        call = calls.innermost.get()
        while call is not None and call not in running:
            call = call.previous
        try:
            call = call or running[-1]
            running.remove(call)
        except (IndexError, ValueError) as failure:  # another thread has ended it in between
            if log.is_from_outside(failure):
                raise
            return None
        return call


@overload
def region(name: str | float, /, *, sync: Sync | None = None, **attributes: object) -> NamedRegion: ...  # noqa: D103
@overload
def region(function: Decorated, /) -> Decorated: ...  # noqa: D103, F811
def region(name: Any, /, *, sync: Sync | None = None, **attributes: object) -> Any:  # noqa: F811
    """Measure the time and resource use of a named part of a program. Without a tracker, nothing is measured.

    Use ``region`` in a ``with`` or ``async with`` statement, or as a decorator. ``@region`` without a name
    uses the name of the function.

    :param name: Name of the part, up to 1,000 characters.
    :param sync: Function called before the part starts and ends, such as ``torch.cuda.synchronize``. ``sync`` is called
        only while a tracker records.
    :param attributes: Numbers, booleans and strings to record with this call, such as ``batch=32``. At most 2,500
        bytes.
    :raises TypeError: if ``name`` is not a text, a number or a function.
    """
    if name.__class__ is str:
        if log.active is None and not attributes and sync is None:
            kept = _kept.get(name)
            if kept is not None:
                return kept
            if len(_kept) < _MOST_KEPT:
                return _kept.setdefault(name, NamedRegion(name, None, attributes))
        return NamedRegion(name, sync, attributes)
    if isinstance(name, str | int | float) or hasattr(type(name), '__index__'):
        return NamedRegion(str.__str__(name) if isinstance(name, str) else str(name), sync, attributes)
    if sync is not None or attributes:
        raise TypeError(f'region needs a name before sync and attributes, not {name!r}')
    from gpu_tracker.regions.decorating import decorated  # noqa: PLC0415 - as above

    return decorated(name, lambda own_name: NamedRegion(own_name, None, attributes))


def flush() -> None:
    """Write the sums of short calls that wait to be written, such as before ``os._exit``; else a second later."""
    process.write_sums()
