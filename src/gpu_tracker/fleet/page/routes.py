"""The files of which the page consists, as they are sent."""

from __future__ import annotations

import hashlib
import math
from html import escape
from importlib import resources
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from gpu_tracker import views
from gpu_tracker.fleet.page.encoded import SILENCE, EncodedFleet, events
from gpu_tracker.fleet.program_answers import SharedBody

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from gpu_tracker.fleet.hosts.fleet import FleetSource
    from gpu_tracker.fleet.hosts.history import FleetPast, Past

_TYPES = {
    'html': 'text/html; charset=utf-8',
    'css': 'text/css; charset=utf-8',
    'js': 'text/javascript; charset=utf-8',
    'svg': 'image/svg+xml',
}
"""By the ending; whatever has another one, such as a licence, is plain text."""
_INDEX = 'index.html'
_START = 'main.js'


class PageFile(NamedTuple):
    """A file, ready to be sent."""

    body: bytes
    media_type: str
    etag: str


def page_files() -> dict[str, PageFile]:
    """Read the files below ``static/``, by their names there; there is no other way to a file of this machine."""
    found = _below(resources.files(__package__) / 'static', '')
    charts = _below(resources.files(views) / 'uplot', 'uplot/')
    return {name: _page_file(name, file.read_bytes()) for name, file in chain(found, charts)}


def index(files: dict[str, PageFile], title: str) -> PageFile:
    """Return the page itself.

    It names all modules, so that the browser fetches them at once rather than one after the other.
    """
    modules = sorted(name for name in files if name.endswith('.js') and '/' not in name and name != _START)
    preloads = '\n'.join(f'<link rel="modulepreload" href="static/{name}">' for name in modules)
    text = files[_INDEX].body.decode().replace('{preloads}', preloads).replace('{title}', escape(title))
    return _page_file(_INDEX, text.encode(errors='replace'))


def _page_file(name: str, body: bytes) -> PageFile:
    media_type = _TYPES.get(name.rpartition('.')[2], 'text/plain; charset=utf-8')
    return PageFile(body, media_type, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def _below(folder: Traversable, parents: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _below(entry, f'{parents}{entry.name}/')
        else:
            yield parents + entry.name, entry


HALF_HOUR = 1800.0
LONGEST = 7 * 24 * 3600.0
"""Seconds of the past that can be asked for at once."""

_NO_SECONDS = f'Bad Request: seconds is a number from 1 to {LONGEST:.0f}'

_EVENTS = 'text/event-stream'
_ICON = 'favicon.svg'
_ASK_AGAIN = 'no-cache'
"""A browser may keep a file, and asks each time whether it is still the same one."""


def page_routes(source: FleetSource, title: str, silence: float = SILENCE) -> list[BaseRoute]:
    """Return the routes of the page; whoever serves them sees to authorization and to the headers of security.

    :param title: Stands above everything.
    :param silence: Seconds without a change after which a stream of events says that it is still there.
    """
    page = _Page(source, title, silence)
    return [
        Route('/', page.index),
        Route('/favicon.ico', page.icon),
        Route('/static/{name:path}', page.static),
        Route('/api/v1/fleet', page.fleet),
        Route('/api/v1/fleet/history', page.fleet_history),
        Route('/api/v1/events', page.events),
        Route('/api/v1/history', page.history),
    ]


class _Page:
    """Answers requests; it belongs to the fleet's event loop."""

    def __init__(self, source: FleetSource, title: str, silence: float) -> None:
        self._source = source
        self._silence = silence
        self._encoded = EncodedFleet(source.fleet)
        self._shared = SharedBody()
        self._files = page_files()
        self._index = index(self._files, title)

    async def index(self, request: Request) -> Response:
        return _sent(self._index, request)

    async def icon(self, request: Request) -> Response:
        return _sent(self._files[_ICON], request)

    async def static(self, request: Request) -> Response:
        file = self._files.get(request.path_params['name'])
        return PlainTextResponse('Not Found', 404) if file is None else _sent(file, request)

    async def fleet(self, request: Request) -> Response:
        fleet = self._source.fleet
        # Not its version: that changes with each host during a round.
        return await self._shared.answer(request, self._encoded.pieces(), (fleet.rounds, fleet.removals))

    async def events(self, request: Request) -> Response:
        headers = {'cache-control': 'no-store', 'x-accel-buffering': 'no'}  # nginx would gather events
        if request.method == 'HEAD':
            return Response(headers=headers, media_type=_EVENTS)
        stream = events(self._source.fleet, self._encoded, self._silence)
        return StreamingResponse(stream, headers=headers, media_type=_EVENTS)

    async def history(self, request: Request) -> Response:
        host_id = request.query_params.get('host')
        if host_id is None:
            return PlainTextResponse('Bad Request: which host? host=ID', 400)
        seconds = _seconds(request.query_params.get('seconds'))
        if seconds is None:
            return PlainTextResponse(_NO_SECONDS, 400)
        past = await self._source.past(host_id, seconds)
        if past is None:
            return PlainTextResponse('Not Found: there is no such host', 404)
        return JSONResponse(_past_as_json(host_id, past))

    async def fleet_history(self, request: Request) -> Response:
        seconds = _seconds(request.query_params.get('seconds'))
        if seconds is None:
            return PlainTextResponse(_NO_SECONDS, 400)
        return JSONResponse(_fleet_past_as_json(self._source.fleet.totals_history.past(seconds)))


def _sent(file: PageFile, request: Request) -> Response:
    headers = {'etag': file.etag, 'cache-control': _ASK_AGAIN}
    kept = (etag.strip().removeprefix('W/') for etag in request.headers.get('if-none-match', '').split(','))
    if any(etag in {file.etag, '*'} for etag in kept):
        return Response(status_code=304, headers=headers)
    return Response(file.body, headers=headers, media_type=file.media_type)


def _seconds(given: str | None) -> float | None:
    """Return how much of the past is wanted; None: that is no such number."""
    if given is None:
        return HALF_HOUR
    try:
        seconds = float(given)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and 1 <= seconds <= LONGEST else None


def _past_as_json(host_id: str, past: Past) -> dict[str, object]:
    return {
        'host': host_id,
        'end': past.end,
        'step_seconds': past.step,
        'gpus': {
            key: {'utilization_percent': list(series.utilization), 'memory_used_percent': list(series.memory)}
            for key, series in past.gpus.items()
        },
    }


def _fleet_past_as_json(past: FleetPast) -> dict[str, object]:
    return {
        'end': past.end,
        'step_seconds': past.step,
        'utilization_percent': past.utilization,
        'memory_used_percent': past.memory,
        'gpus_known': past.gpus,
        'hosts_up': past.hosts_up,
    }
