"""A program that runs a GpuReader on the driver that its environment gives it, for tests of another process.

Reads commands from standard input, one a line, and answers each with a line of JSON:

    start [INTERVAL [UUID,UUID...]]   makes and starts the source
    wait SECONDS                      true or false
    error                             the source's error
    members MAIN|- [PID,PID...]       null
    read                              null; lets it read now, and not only when its interval is over
    totals                            the totals
    messages                          the messages
    finish SECONDS                    the totals after the last reading
    imported MODULE                   whether the module has been imported
    end                               null

Each probe is a fork. A line of JSON starts it: its environment, and the processes that exist in its container, or null:
it is in none. Its commands follow until ``end``. The test writes no line before the last one is answered: two processes
read them.
"""

from __future__ import annotations

import json
import os
import sys

from gpu_tracker.gpus.opening import BACKENDS
from gpu_tracker.resources.gpu.reader import GpuReader


def _pids(text: str) -> frozenset[int]:
    return frozenset(int(pid) for pid in text.split(',') if pid)


def main() -> None:
    """Start one probe after the other until the standard input ends."""
    while line := sys.stdin.readline():
        environment, container = json.loads(line)
        child = os.fork()
        if child == 0:
            os.environ.clear()
            os.environ.update(environment)
            try:
                print('null', flush=True)
                _probe(container)
            finally:
                os._exit(0)  # also where a thread hangs in the driver
        os.waitpid(child, 0)
        print('null', flush=True)


def _probe(container: str | None) -> None:
    """Answer commands until the end of the probe."""
    in_container = container is not None
    existing = _pids(container or '')
    source: GpuReader | None = None
    for line in sys.stdin:
        command, *words = line.split()
        if command == 'end':
            return
        if command == 'start':
            interval = float(words[0]) if words else 0.1
            uuids = tuple(words[1].split(',')) if len(words) > 1 else None
            source = GpuReader(
                BACKENDS['nvidia'],
                interval,
                uuids,
                in_initial_pid_namespace=not in_container,
                pid_exists=existing.__contains__ if in_container else lambda pid: True,
            )
            source.start()
            answer: object = None
        elif command == 'imported':
            answer = words[0] in sys.modules
        elif source is None:
            raise SystemExit('the first command is start')
        elif command == 'read':
            source._poll.wake()
            answer = None
        else:
            answer = _answer(source, command, words)
        print(json.dumps(answer), flush=True)


def _answer(source: GpuReader, command: str, words: list[str]) -> object:
    match command:
        case 'wait':
            return source.wait(float(words[0]))
        case 'error':
            return source.error
        case 'members':
            source.follow(None if words[0] == '-' else int(words[0]), _pids(words[1] if len(words) > 1 else ''))
            return None
        case 'totals':
            return source.totals()
        case 'messages':
            return source.take_messages()
        case 'finish':
            source.request_last()
            source.wait_for_last(float(words[0]))
            return source.totals()
    raise SystemExit(f'no such command: {command}')


if __name__ == '__main__':
    main()
