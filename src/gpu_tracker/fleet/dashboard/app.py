"""The dashboard's application: the page, and what programs ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette

from gpu_tracker.fleet.page.routes import page_routes
from gpu_tracker.fleet.program_answers import health

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.routing import BaseRoute

    from gpu_tracker.fleet.hosts.source import FleetSource

_TITLE = 'GPU fleet'


def application(source: FleetSource, others: Sequence[BaseRoute] = ()) -> Starlette:
    """Return the application.

    :param others: Routes beside those of the page and ``/healthz``.
    """
    app = Starlette(routes=[health(), *others, *page_routes(source, _TITLE)])
    app.router.redirect_slashes = False  # a path with a slash too many is not there
    return app
