"""The dashboard's application: the page, and what programs ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from gpu_tracker.fleet.page.routes import page_routes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from gpu_tracker.fleet.hosts.source import FleetSource

_TITLE = 'GPU fleet'


def application(source: FleetSource, others: Sequence[BaseRoute] = ()) -> Starlette:
    """Return the application.

    :param others: Routes beside those of the page and ``/healthz``.
    """
    return Starlette(routes=[Route('/healthz', _healthz), *others, *page_routes(source, _TITLE)])


async def _healthz(_: Request) -> Response:
    """Tell that this process serves."""
    return PlainTextResponse('ok\n')
