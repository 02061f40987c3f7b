"""Runs that get random signals at random moments of their start, their run and their end.

A seed makes a :class:`Plan`: one of three ways to measure, and up to three signals. :func:`violations` carries it out.
It returns what is wrong: the run does not end, has no result and no reason, or has the exit code of a signal that was
not sent; or a process or file is left.

    export PYTHONPATH=src:tests
    python -m support.random_signals 300        # seeds 0 to 299
    python -m support.random_signals 1 --from=17
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_tracker.processes import SAMPLER_MARK
from support.cli_program import PROGRAM, Marked, state_of
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Sequence

LIBRARY, COMMAND_LINE, FUNCTION = 'Tracker', 'gpu-tracker -e', 'gput.run'
_SECONDS = '0.25'
_ENDED_EARLY, _REFUSED = 7, 8
"""Exit codes of the two programs: interrupted before anything was measured; an error says why there is no result."""
_BEGIN = """
import json, sys, time
import gpu_tracker as gput
from gpu_tracker.tracked_command import CommandInterrupted

def show(usage):
    print(json.dumps([usage.compute_time.time, usage.max_ram.combined.total_rss]))
"""
_PROGRAMS = {
    LIBRARY: f"""{_BEGIN}
tracker = gput.Tracker(sleep_time=0.05)
try:
    with tracker:
        time.sleep({_SECONDS})
except KeyboardInterrupt:
    if tracker.state is not tracker.State.STOPPED:
        sys.exit({_ENDED_EARLY})
except RuntimeError as error:
    print(error, file=sys.stderr)
    sys.exit({_REFUSED})
show(tracker.resource_usage)
""",
    FUNCTION: f"""{_BEGIN}
try:
    code, usage = gput.run(['sleep', '{_SECONDS}'], sleep_time=0.05)
except CommandInterrupted as error:
    code, usage = error.result
except KeyboardInterrupt:
    sys.exit({_ENDED_EARLY})
except RuntimeError as error:
    print(error, file=sys.stderr)
    sys.exit({_REFUSED})
show(usage)
sys.exit(code if code >= 0 else 128 - code)
""",
}
_SIGNALS = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGKILL, signal.SIGSTOP),
)
_TARGETS = ('program', 'group', 'child', 'grandchild', 'sampler')
_LATEST = 0.9
"""Seconds from the start of a run to the last signal: most runs have ended by then."""
_LONGEST = 90.0
"""Seconds that a run may take: a sampler that is stopped before its first sample is waited for 60 s."""


@dataclass(frozen=True)
class Shot:
    """One signal.

    :ivar pause: Seconds since the one before.
    :ivar resumed_after: Seconds after which a SIGSTOP is undone; a sampler stays stopped.
    """

    pause: float
    target: str
    number: int
    resumed_after: float


@dataclass(frozen=True)
class Plan:
    """What one run is, and what it gets."""

    way: str
    shots: tuple[Shot, ...]

    def __str__(self) -> str:
        """Return the plan in one line."""
        shots = (f'{shot.pause:.3f} s {signal.Signals(shot.number).name} to {shot.target}' for shot in self.shots)
        return f'{self.way}: {", ".join(shots)}'


def plan_of(seed: int) -> Plan:
    """Return the plan of a seed."""
    numbers = random.Random(seed)  # noqa: S311 - to be repeated
    count = numbers.choice((1, 1, 2, 3))
    moments = sorted(numbers.uniform(0, _LATEST) for _ in range(count))
    pauses = [after - before for before, after in zip([0, *moments], moments, strict=False)]
    shots = [
        Shot(pause, numbers.choice(_TARGETS), int(numbers.choice(_SIGNALS)), numbers.uniform(0, 0.3))
        for pause in pauses
    ]
    return Plan(numbers.choice((LIBRARY, COMMAND_LINE, FUNCTION)), tuple(shots))


def violations(plan: Plan) -> list[str]:
    """Carry out a plan; return what is wrong with how the run has ended."""
    marked = Marked()
    words = (
        [*PROGRAM, '-f', 'json', '--st=0.05', '-e', f'exec sleep {_SECONDS}']
        if plan.way == COMMAND_LINE
        else [sys.executable, '-c', _PROGRAMS[plan.way]]
    )
    with (
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env={**marked.environment, 'TMPDIR': folder},
            process_group=0,
        ) as program,
    ):
        try:
            sent = [number for shot in plan.shots for number in _shoot(shot, program, marked)]
            try:
                code = program.wait(_LONGEST)
            except subprocess.TimeoutExpired:
                return [f'runs for more than {_LONGEST:.0f} s, sent {sent}, with {_names(marked.processes())}']
            found = []
            texts = []
            for file in (output, errors):
                file.seek(0)
                texts.append(file.read().decode())
            found += _faults(plan.way, code, sent, *texts)
            for sampler in marked.processes(SAMPLER_MARK):  # one that is stopped cannot see that its program has ended
                with contextlib.suppress(ProcessLookupError):
                    os.kill(sampler, signal.SIGCONT)
            try:
                eventually(lambda: not marked.processes())
            except AssertionError:
                found.append(f'processes are left: {_names(marked.processes())}')
            left = [name for name in os.listdir(folder) if code >= 0 or not name.endswith('.regions')]
            found += [f'files are left: {left}'] if left else []
        finally:
            marked.kill()
    return found


def _faults(way: str, code: int, sent: Sequence[tuple[str, int]], output: str, errors: str) -> list[str]:
    """Return what is wrong with an exit code, and with what was printed."""
    to_program = {number for target, number in sent if target in {'program', 'group'}}
    expected = {0, *(-number for number in to_program), *(128 + number for _, number in sent)}
    expected |= {125} if way == COMMAND_LINE else {_REFUSED}
    expected |= {_ENDED_EARLY} if way != COMMAND_LINE and signal.SIGINT in to_program else set()
    if code < 0 or code == _ENDED_EARLY or 'init_import_site' in errors:  # the last by Python
        checks = {'an exit code that was not expected': code not in expected and code != 1}
    else:
        has_reason = bool(errors.replace('Process completed with status code', '').strip())
        checks = {
            'an exit code that was not expected': code not in expected,
            'success without a result': code == 0 and not _is_json(output),
            'no result and no reason': not has_reason and not _is_json(output),
            'an error of its own': 'internal error' in errors or 'Traceback' in errors,
        }
    seen = f'exit code {code}, sent {sent}, printed {output[-300:]!r}, {errors[-1000:]!r}'
    return [f'{fault}: {seen}' for fault, is_so in checks.items() if is_so]


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _shoot(shot: Shot, program: subprocess.Popen[bytes], marked: Marked) -> list[tuple[str, int]]:
    """Wait, and send a signal if there is somebody to get it; return it with its target."""
    time.sleep(shot.pause)
    target = _target(shot.target, program, marked)
    if target is None or program.poll() is not None:
        return []
    send = os.killpg if shot.target == 'group' else os.kill
    with contextlib.suppress(ProcessLookupError):
        send(target, shot.number)
        if shot.number == signal.SIGSTOP and shot.target != 'sampler':
            time.sleep(shot.resumed_after)
            send(target, signal.SIGCONT)
    return [(shot.target, shot.number)]


def _target(name: str, program: subprocess.Popen[bytes], marked: Marked) -> int | None:
    """Return the process, or group, of that name; None while there is none."""
    children = _children(program.pid)
    if name == 'sampler':  # and not the child that starts it, which has the same words
        return next((pid for pid in marked.processes(SAMPLER_MARK) if pid not in children), None)
    if name == 'grandchild':
        children = [pid for child in children for pid in _children(child)]
    if name in {'child', 'grandchild'}:
        return next(iter(children), None)
    return program.pid


def _children(pid: int) -> list[int]:
    try:
        with open(f'/proc/{pid}/task/{pid}/children', encoding='ascii') as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def _names(pids: Sequence[int]) -> list[str]:
    names = []
    for pid in pids:
        with contextlib.suppress(OSError), open(f'/proc/{pid}/cmdline', 'rb') as file:
            names.append(f'{state_of(pid)} {file.read().replace(bytes(1), b" ").decode()[-100:]}')
    return names


def main() -> int:
    """Carry out the plans of many seeds; print what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('count', type=int)
    parser.add_argument('--from', type=int, default=0, dest='first')
    parser.add_argument('--at-once', type=int, default=2)
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.count)
    with concurrent.futures.ThreadPoolExecutor(given.at_once) as pool:
        wrong = 0
        for seed, found in zip(seeds, pool.map(lambda seed: violations(plan_of(seed)), seeds), strict=True):
            wrong += bool(found)
            for text in found:
                print(f'{seed} {plan_of(seed)}: {text}', flush=True)
    print(f'{wrong} of {len(seeds)} runs have faults')
    return min(wrong, 1)


if __name__ == '__main__':
    sys.exit(main())
