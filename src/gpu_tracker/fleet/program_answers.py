"""What both servers answer to programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from gpu_tracker.fleet.web.gate import HEALTH

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.routing import BaseRoute


def health() -> BaseRoute:
    """Return the route that tells that this process serves."""
    return Route(HEALTH, _healthz)


async def _healthz(_: Request) -> Response:
    return PlainTextResponse('ok\n')


def json_answer(value: object) -> Response:
    """Return an answer in ASCII: a command line may hold bytes that are no UTF-8."""
    return Response(json.dumps(value), media_type='application/json')
