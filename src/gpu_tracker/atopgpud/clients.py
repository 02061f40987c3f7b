"""Clients that come over one kind of socket: how many there may be, and which have to go."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.atopgpud.connection import Connection
    from gpu_tracker.atopgpud.ledger import Ledger

_STALLED = 30.0
"""Seconds after which a client is given up that does not take its answer. atop gives its daemon up after two."""
_SHARE_OF_A_USER = 0.75
"""Of the places, so that no single user but root can take them all."""


class Clients:
    """The clients of one kind of socket.

    :param complain: Logs what a client did wrong.
    :param note: Logs that clients come and go.
    :param most: How many there may be.
    """

    def __init__(self, ledger: Ledger, complain: Callable[[str], None], note: Callable[[str], None], most: int) -> None:
        self.ledger = ledger
        self.complain = complain
        self._note = note
        self._most = most
        self._most_of_a_user = max(1, int(most * _SHARE_OF_A_USER))
        self._connections: dict[Connection, None] = {}  # in the order in which they came
        self._by_user: Counter[int | None] = Counter()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._connections)

    def opened(self, connection: Connection) -> None:
        """Take a new client in; where there are too many, the oldest goes that has never asked, or else the new one."""
        self._connections[connection] = None
        self._by_user[connection.user] += 1
        self._note(f'a client has come: {len(self)} of its kind')
        is_crowd = bool(connection.user) and self._by_user[connection.user] > self._most_of_a_user
        if is_crowd or len(self) > self._most:
            others = (other for other in self._connections if not is_crowd or other.user == connection.user)
            goes = next((other for other in others if not other.has_asked), connection)
            self.complain('a client was turned away: there are too many')
            goes.drop()
            self.closed(goes)

    def closed(self, connection: Connection) -> None:
        """Take note that a client has gone."""
        if connection in self._connections:
            del self._connections[connection]
            self._by_user[connection.user] -= 1
            if not self._by_user[connection.user]:
                del self._by_user[connection.user]
            self._note(f'a client has gone: {len(self)} of its kind')

    @property
    def stalled(self) -> list[Connection]:
        """Those who have not taken their answer yet."""
        return [connection for connection in self._connections if connection.stalled_since is not None]

    def give_up_stalled(self, now: float) -> None:
        """Drop those who have not taken their answer for long; ``now`` is the event loop's time."""
        for connection in self.stalled:
            if now - (connection.stalled_since or now) > _STALLED:
                self.complain('a client has not taken its answer for long')
                connection.drop()

    def close(self) -> None:
        """Drop all."""
        for connection in list(self._connections):
            connection.drop()
