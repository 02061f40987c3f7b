"""Pretends to be the agents of many hosts, each at an address of its own: simulated_agents.py FORM GPUS KIND=NUMBER...

FORM is ``gpu-tracker`` (``/api/v1/host``) or ``nvgpu`` (``/gpu_status``); GPUS is how many each host has. Kinds are
``well``, ``dead`` (nothing listens), ``hanging`` (never answers) and ``garbage``; they are mixed, always in the same
way. Bodies are made before, so that little but the answering itself costs time; each differs from the one before.

It prints a line of JSON with the ``urls`` and their ``kinds``. Then it reads lines and answers each with one of JSON:
``record`` forgets what it has noted, and notes what happens from now on; ``report`` gives that; ``count`` tells how
many requests and connections there have been, and its own CPU time. It ends at the end of its input.
"""

import asyncio
import itertools
import json
import os
import random
import resource
import socket
import sys
import time
from array import array
from collections.abc import Iterator

ASKED, ANSWERED, GIVEN_UP = range(3)
"""What is noted: a request is complete, its answer has been written, a client has left without an answer."""

_BACKLOG = 128
_HOSTS_A_NET = 250
_VARIANTS = 4
_PATHS = {'gpu-tracker': b'/api/v1/host', 'nvgpu': b'/gpu_status'}
_MODELS = (
    ('NVIDIA H100 80GB HBM3', 80 * 2**30, 700),
    ('NVIDIA A100-SXM4-40GB', 40 * 2**30, 400),
    ('NVIDIA L40S', 48 * 2**30, 350),
)
_USERS = ('ann', 'bob', 'carol', 'dilip', 'erin', 'fatima')
_COMMAND = '/opt/envs/{0}/bin/python3.11 -m torch.distributed.run train_{0}.py --config configs/{1:04}.yaml --resume'
_MEASURED_FROM = 1_790_000_000
_FREE = (3, 6)
"""Which GPUs of a host nobody uses."""


class Record:
    """What happens at the agents, by CLOCK_MONOTONIC, which is the same in all processes."""

    def __init__(self) -> None:
        self.is_on = False
        self.requests = self.connections = 0
        self.times = array('d')
        self.events = array('L')

    def note(self, agent: int, event: int) -> None:
        """Note an event, where that is wanted."""
        if self.is_on:
            self.times.append(time.monotonic())
            self.events.append(agent * 4 + event)

    def begin(self) -> dict[str, object]:
        """Forget, and note from now on."""
        self.is_on = True
        self.times, self.events = array('d'), array('L')
        return {}

    def report(self) -> dict[str, object]:
        """Return a time, an agent and an event each."""
        pairs = zip(self.times, self.events, strict=True)
        return {'events': [[when, event // 4, event % 4] for when, event in pairs]}

    def count(self) -> dict[str, object]:
        """Return what it takes no recording to know."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu = used.ru_utime + used.ru_stime
        return {'requests': self.requests, 'connections': self.connections, 'cpu': cpu}


class Connection(asyncio.Protocol):
    """A client of one agent.

    :param answers: What it is told, one after the other; None: never anything.
    """

    def __init__(self, agent: int, path: bytes, answers: Iterator[tuple[bytes, bool]] | None, record: Record) -> None:
        self._agent, self._path, self._answers, self._record = agent, path, answers, record
        self._received = b''
        self._waits = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count it."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for the types
        self._transport = transport
        self._record.connections += 1

    def data_received(self, data: bytes) -> None:
        """Answer a request as soon as it is complete; clients here send no second one before that."""
        self._received += data
        if not self._received.endswith(b'\r\n\r\n') or self._transport is None:
            return
        path = self._received.split(b' ', 2)[1]
        self._received = b''
        self._record.requests += 1
        self._record.note(self._agent, ASKED)
        if self._answers is None:
            self._waits = True
        elif path == self._path:
            answer, ends = next(self._answers)
            self._transport.write(answer)
            self._record.note(self._agent, ANSWERED)
            if ends:
                self._transport.close()
        else:
            self._transport.write(http(b'{"detail": "Not Found"}', '404 NOT FOUND'))

    def connection_lost(self, exc: Exception | None) -> None:
        """Note a client that has waited for nothing."""
        del exc
        if self._waits:
            self._record.note(self._agent, GIVEN_UP)


def http(body: bytes, status: str = '200 OK', kind: str = 'application/json', length: int | None = None) -> bytes:
    """Return an answer with a body."""
    size = len(body) if length is None else length
    head = f'HTTP/1.1 {status}\r\nserver: uvicorn\r\ncontent-type: {kind}\r\ncontent-length: {size}\r\n\r\n'
    return head.encode() + body


def report(form: str, agent: int, gpus: int, variant: int) -> bytes:
    """Return what a host answers, as compactly as Starlette writes it."""
    chance = random.Random(f'{agent} {variant}')  # noqa: S311 - figures that look like figures
    model = _MODELS[agent % len(_MODELS)]
    name = f'node{agent:04}.cluster.example'
    if form == 'nvgpu':
        answer: dict[str, object] = {'hostname': name, 'gpus': [_nvgpu(n, agent, model, chance) for n in range(gpus)]}
    else:
        answer = {
            'hostname': name,
            'time': None,  # made long before: a time would look like a clock that is wrong
            'driver_problem': None,
            'claims_problem': None,
            'gpus': [_gpu(n, agent, model, chance) for n in range(gpus)],
            'age_seconds': 2 * chance.random(),
            'interval_seconds': 2.0,
            'agent_version': '6.0.0',
        }
    return json.dumps(answer, separators=(',', ':')).encode()


def _gpu(number: int, agent: int, model: tuple[str, int, int], chance: random.Random) -> dict[str, object]:
    name, total, watts = model
    is_free = number in _FREE
    used = 500 * 2**20 if is_free else int(total * chance.uniform(0.6, 0.9))
    process = {
        'pid': 100_000 + 100 * agent + number,
        'user': _USERS[(agent + number) % len(_USERS)],
        'command': _COMMAND.format(_USERS[(agent + number) % len(_USERS)], agent),
        'program': f'train_{_USERS[(agent + number) % len(_USERS)]}.py',
        'started': _MEASURED_FROM - 60.0 * agent,
        'memory_bytes': used,
        'computes': True,
    }
    return {
        'index': number,
        'uuid': f'GPU-{agent:08x}-{number:04x}-4c1d-9b1e-{agent * 64 + number:012x}',
        'pci_bus_id': f'00000000:{number + 16:02X}:00.0',
        'type': name,
        'status': 'free' if is_free else 'in_use',
        'problem': None,
        'utilization_percent': 0.0 if is_free else float(chance.randint(40, 100)),
        'memory_total_bytes': total,
        'memory_used_bytes': used,
        'memory_free_bytes': total - used,
        'temperature_celsius': float(chance.randint(30, 75)),
        'sm_clock_hertz': chance.randint(1000, 1980) * 1_000_000,
        'power_watts': round(watts * chance.uniform(0.1, 0.9), 3),
        'power_limit_watts': float(watts),
        'processes': [] if is_free else [process],
        'claim': None,
        'mig_devices': None,
    }


def _nvgpu(number: int, agent: int, model: tuple[str, int, int], chance: random.Random) -> dict[str, object]:
    is_free = number in _FREE
    user = _USERS[(agent + number) % len(_USERS)]
    return {
        'type': model[0],
        'is_available': is_free,
        'pids': '' if is_free else str(100_000 + 100 * agent + number),
        'users': '' if is_free else user,
        'running_since': None if is_free else '3 hours ago',
        'utilization': 0 if is_free else chance.randint(40, 100),
        'clock_mhz': chance.randint(1000, 1980),
        'temperature': chance.randint(30, 75),
        'cmd': None if is_free else f'train_{user}.py',
    }


def garbage(number: int, whole: bytes) -> tuple[bytes, bool]:
    """Return what an agent sends that sends nonsense, and whether it then ends the connection.

    :param number: Which of the kinds of nonsense.
    :param whole: What it would have sent as it should.
    """
    half = whole[: len(whole) // 2]
    kinds = (
        (random.Random(number).randbytes(len(whole)), True),  # noqa: S311 - no secret
        (http(b'<!DOCTYPE html><title>It works!</title><p>Apache' + b' ' * 5000, kind='text/html'), False),
        (http(half, length=len(whole)), True),
        (http(half), False),
        (http(b'[' * len(whole)), False),
    )
    return kinds[number % len(kinds)]


def answers_of(kind: str, form: str, agent: int, gpus: int) -> Iterator[tuple[bytes, bool]] | None:
    """Return what an agent answers, without end; None: it hangs."""
    if kind == 'hanging':
        return None
    if kind == 'garbage':
        return itertools.repeat(garbage(agent, report(form, agent, gpus, 0)))
    return itertools.cycle([(http(report(form, agent, gpus, variant)), False) for variant in range(_VARIANTS)])


def address(agent: int) -> str:
    """Return the address of an agent: all of 127.0.0.0/8 are this machine."""
    return f'127.1.{agent // _HOSTS_A_NET}.{agent % _HOSTS_A_NET + 1}'


async def _commands(record: Record) -> None:
    """Do what the input says, until its end."""
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), os.fdopen(os.dup(0), 'rb'))
    doing = {'record': record.begin, 'report': record.report, 'count': record.count}
    while line := await lines.readline():
        print(json.dumps(doing[line.decode().strip()]()), flush=True)


async def _serve(form: str, gpus: int, kinds: list[str]) -> None:
    loop = asyncio.get_running_loop()
    record = Record()
    urls, kept = [], []
    for agent, kind in enumerate(kinds):
        door = socket.socket()
        kept.append(door)
        door.bind((address(agent), 0))
        urls.append('http://{}:{}'.format(*door.getsockname()))
        if kind == 'dead':
            continue  # the port stays taken, so that nobody else answers there
        answers = answers_of(kind, form, agent, gpus)
        await loop.create_server(
            lambda agent=agent, answers=answers: Connection(agent, _PATHS[form], answers, record),  # type: ignore[misc]
            sock=door,
            backlog=_BACKLOG,
        )
    print(json.dumps({'urls': urls, 'kinds': kinds}), flush=True)
    await _commands(record)


def _main() -> None:
    form, gpus, *numbers = sys.argv[1:]
    kinds = [kind for text in numbers for kind, _, number in [text.partition('=')] for _ in range(int(number))]
    random.Random(0).shuffle(kinds)  # noqa: S311 - always the same order
    asyncio.run(_serve(form, int(gpus), kinds))


if __name__ == '__main__':
    _main()
