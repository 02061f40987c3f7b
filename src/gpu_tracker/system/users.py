"""Names of users, looked up at once or without waiting for a name service that hangs."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_TIMEOUT = 0.1
"""Seconds that are waited for a name asked for first; one that stands in files is there after 0.1 ms."""
_KEPT = 300.0
"""Seconds for which a name is believed."""
_KEPT_WITHOUT = 10.0
"""The same where there is no name: the service that knows it may not have been started yet."""


def user_name(user_id: int) -> str:
    """Return the name of a user, or the number as text where the system knows no name."""
    if sys.platform == 'win32':
        return str(user_id)
    import pwd  # noqa: PLC0415 - on POSIX only

    try:
        return pwd.getpwuid(user_id).pw_name
    except (KeyError, OverflowError):
        return str(user_id)


class _Answer(NamedTuple):
    name: str
    outdated_at: float


class UserNames:
    """Lookup of the names of users.

    Each is asked for in a thread of its own, so that those in files are told while others are awaited.

    :param look_up: Returns the name of the user with an ID, or the ID as text; may take as long as it likes.
    :param timeout: Seconds that are waited for a name that is asked for first.
    :param monotonic: Returns the time.
    """

    def __init__(
        self,
        look_up: Callable[[int], str] = user_name,
        *,
        timeout: float = _TIMEOUT,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look_up = look_up
        self._timeout = timeout
        self._monotonic = monotonic
        import threading  # noqa: PLC0415 - who only asks for a name at once does not need it

        self._changed = threading.Condition()
        self._answers: dict[int, _Answer] = {}
        self._asked: set[int] = set()

    def name(self, user_id: int) -> str:
        """Return the name of a user; the ID as text where there is none, or as long as it is awaited."""
        with self._changed:
            answer = self._answers.get(user_id)
            if (answer is None or self._monotonic() >= answer.outdated_at) and user_id not in self._asked:
                is_asked = self._start_asking(user_id)
                if (
                    is_asked and answer is None and len(self._asked) == 1
                ):  # where others are awaited, so would be this one
                    self._changed.wait_for(lambda: user_id in self._answers, self._timeout)
                    answer = self._answers.get(user_id)
        return str(user_id) if answer is None else answer.name

    def _start_asking(self, user_id: int) -> bool:
        self._asked.add(user_id)
        try:
            import threading  # noqa: PLC0415 - as above

            threading.Thread(target=self._ask, args=(user_id,), daemon=True).start()
        except RuntimeError:  # there are too many threads now
            self._asked.discard(user_id)
            return False
        return True

    def _ask(self, user_id: int) -> None:
        try:
            name = self._look_up(user_id)
        except Exception:  # noqa: BLE001 - whatever it is, nobody would ever ask again for one that is still awaited
            name = str(user_id)
        kept = _KEPT_WITHOUT if name == str(user_id) else _KEPT
        with self._changed:
            self._answers[user_id] = _Answer(name, self._monotonic() + kept)
            self._asked.discard(user_id)
            self._changed.notify_all()
