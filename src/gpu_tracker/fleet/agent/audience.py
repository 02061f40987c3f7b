"""Whether anybody asks: the watch looks less often while nobody does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from gpu_tracker.gpus.watch import Watch


class Audience:
    """Passes requests on and lets the watch know of them, for as long as they last: a page stays open for hours.

    :param exempt: Paths that tell nothing of GPUs.
    """

    def __init__(self, watch: Watch, exempt: frozenset[str]) -> None:
        self._watch = watch
        self._exempt = exempt
        self._open = 0

    def around(self, app: ASGIApp) -> ASGIApp:
        """Return the application with this in front of it."""

        async def observed(scope: Scope, receive: Receive, send: Send) -> None:
            if scope['type'] != 'http' or scope['path'] in self._exempt:
                await app(scope, receive, send)
                return
            self._open += 1
            self._watch.latest()
            try:
                await app(scope, receive, send)
            finally:
                self._open -= 1

        return observed

    def ask_if_there(self) -> None:
        """Ask the watch on behalf of those whose requests are still being answered."""
        if self._open:
            self._watch.latest()
