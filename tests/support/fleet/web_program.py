"""A server as the agent and the dashboard are one, with an application that shows what the servers do with it.

Run as a program with the servers' own options, ``--token-file``, ``--password-file`` and the JSON of limits.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading

from gpu_tracker.cli import main, serving
from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.fleet.web.capacity import Limits
from gpu_tracker.fleet.web.serve import serve

TEXT = f"""
Usage:
  program [options]

Options:
{serving.option_lines(0)}\
  --token-file=<file>       A token.
  --password-file=<file>    Passwords.
  --limits=<json>           Limits. [default: {{}}]
  --background=<kind>       fails, breaks, ends, stubborn or busy.
  --reload=<kind>           As above, at SIGHUP.
"""


class Application:
    """Answers each path in a way of its own."""

    def __init__(self):
        self.stopped = asyncio.Event()

    async def __call__(self, scope, receive, send):
        answer = getattr(self, scope['path'].strip('/') or 'page', None)
        if scope['method'] not in {'GET', 'HEAD'}:
            await say(send, b'not allowed\n', 405)
        elif answer is None:
            await say(send, b'not found\n', 404)
        else:
            await answer(send)

    async def page(self, send):
        await say(send, b'hello\n')

    healthz = page

    async def cached(self, send):
        await say(send, b'', 200, (b'Cache-Control', b'max-age=60'))

    async def error(self, send):
        raise ValueError('a secret \x1b[31m of the program')

    async def half(self, send):
        await begin(send)
        await send({'type': 'http.response.body', 'body': b'half', 'more_body': True})
        raise ValueError('in the middle')

    async def silence(self, send):
        return

    async def events(self, send):
        await begin(send)
        while not self.stopped.is_set():
            await send({'type': 'http.response.body', 'body': b'data: 1\n\n', 'more_body': True})
            await asyncio.sleep(0.01)
        await send({'type': 'http.response.body', 'body': b'data: end\n\n'})

    async def deaf(self, send):
        await begin(send)
        await send({'type': 'http.response.body', 'body': b'data: 1\n\n', 'more_body': True})
        await asyncio.Event().wait()

    async def flood(self, send):
        await begin(send)
        while not self.stopped.is_set():
            await send({'type': 'http.response.body', 'body': b'x' * 65536, 'more_body': True})

    async def heavy(self, send):
        await say(send, b'x' * 20_000_000)


async def begin(send, status=200, *headers):
    await send({'type': 'http.response.start', 'status': status, 'headers': list(headers)})


async def say(send, body, status=200, *headers):
    await begin(send, status, (b'content-length', b'%d' % len(body)), *headers)
    await send({'type': 'http.response.body', 'body': body})


async def fails():
    raise GpuTrackerError('the configuration has gone')


async def breaks():
    raise ValueError('broken')


async def ends():
    pass


async def stubborn():
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            print('will not go', file=sys.stderr, flush=True)


async def busy():
    await asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)


def run(values):
    credentials = serving.token(values['--token-file']) or serving.passwords(values['--password-file'])
    access = serving.access(values, credentials, '--token-file')
    application = Application()

    def serve_until_end(complain):
        serve(
            application,
            access,
            ready=lambda urls: complain(f'serving {" ".join(urls)}'),
            complain=complain,
            background=globals()[values['--background']] if values['--background'] else None,
            on_stop=application.stopped.set,
            reload=globals()[values['--reload']] if values['--reload'] else None,
            limits=Limits(**json.loads(values['--limits'])),
        )

    return serving.served(serve_until_end, access)


if __name__ == '__main__':
    sys.modules['gpu_tracker.cli.track'] = sys.modules['__main__']  # the command line ends as that of gpu-tracker does
    sys.exit(main())
