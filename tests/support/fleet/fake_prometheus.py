"""Stands in for Prometheus: answers queries over HTTP as the test wants, and remembers them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING

from aiohttp import web

from gpu_tracker.fleet.prometheus import queries

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable

    from gpu_tracker.fleet.prometheus.queries import Sample


class FakePrometheus:
    """What it answers can be changed at any time."""

    def __init__(self) -> None:
        self.url = ''
        self.port = 0
        self.results: dict[str, list[dict]] = {}
        """By query; to all others the answer is empty."""
        self.response: Callable[[], web.StreamResponse] | None = None
        """Answers every query where it is set."""
        self.asked: list[dict[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.gate: asyncio.Event | None = None
        """All wait for it where it is set."""
        self.is_awaited = asyncio.Event()
        """Somebody waits for the gate."""
        self._silence = asyncio.Event()

    def tell(self, query: str, *samples: Sample) -> None:
        """Answer a query from now on."""
        self.results[query] = [
            {
                'metric': dict(sample.labels),
                'value': [sample.time, 'NaN' if sample.value is None else f'{sample.value}'],
            }
            for sample in samples
        ]

    def tell_one_host(self, up: Sample, told: list[Sample], gpus: list[Sample], statuses: list[Sample]) -> None:
        """Answer the queries of a round."""
        self.tell(queries.targets([queries.JOB]), up)
        self.tell(queries.scraped([queries.JOB]), up._replace(value=up.time - 3))
        self.tell(queries.AGENTS, *told)
        self.tell(queries.NOW.gpus, *gpus)
        self.tell(queries.NOW.statuses, *statuses)

    @property
    def asked_for(self) -> list[str]:
        """All queries so far."""
        return [form['query'] for form in self.asked]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a query."""
        form = {key: str(value) for key, value in (await request.post()).items()}
        self.asked.append({'path': request.path, 'method': request.method, **form})
        self.headers.append(dict(request.headers))
        if self.gate is not None:
            self.is_awaited.set()
            await self.gate.wait()
        if self.response is not None:
            return self.response()
        kind = 'matrix' if request.path.endswith('_range') else 'vector'
        result = self.results.get(form.get('query', ''), [])
        return web.Response(
            body=json.dumps({'status': 'success', 'data': {'resultType': kind, 'result': result}}),
            content_type='application/json',
        )

    async def hang(self, _: web.Request) -> web.StreamResponse:
        """Begin to answer, and never end."""
        await self._silence.wait()
        return web.Response()

    def end(self) -> None:
        """Let go of who waits."""
        self._silence.set()


@contextlib.asynccontextmanager
async def fake_prometheus(tls: ssl.SSLContext | None = None, port: int = 0) -> AsyncIterator[FakePrometheus]:
    """Serve on a free port of 127.0.0.1."""
    place = FakePrometheus()
    app = web.Application()
    app.router.add_route('*', '/hangs/api/v1/{what}', place.hang)
    app.router.add_route('*', '/{tail:.*}', place.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, '127.0.0.1', port, ssl_context=tls)
        await site.start()
        scheme = 'http' if tls is None else 'https'
        place.port = runner.addresses[0][1]
        place.url = f'{scheme}://127.0.0.1:{place.port}'
        yield place
    finally:
        place.end()
        await runner.cleanup()
