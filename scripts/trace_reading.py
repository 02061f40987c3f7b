"""Prints the functions that a RAM reading passes, from the file in /proc to the JSON report.

    PYTHONPATH=src python scripts/trace_reading.py

A sleeping child process is measured twice. The second reading is traced with sys.setprofile. A function counts if its
arguments or its result contain the RSS of the first reading.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import gpu_tracker
from gpu_tracker.resources import FIRST, MIDDLE
from gpu_tracker.resources.building import build
from gpu_tracker.resources.context import Context
from gpu_tracker.resources.ram import open_resource
from gpu_tracker.resources.settle import settle
from gpu_tracker.result.formats import as_json
from gpu_tracker.units import Units

if TYPE_CHECKING:
    from types import FrameType

    from gpu_tracker.resources.ram import Ram
    from gpu_tracker.totals import Evidence

_CHILD = 'import time; kept = b"x" * 50_000_000; print(flush=True); time.sleep(60)'
_DEEPEST = 6
_UNREAD = 1.1
"""Seconds after which a sleeping process is read again."""


def main() -> None:
    """Measure a child, and print what its RSS has passed."""
    with subprocess.Popen([sys.executable, '-c', _CHILD], stdout=subprocess.PIPE) as child:
        child.stdout.read(1)  # type: ignore[union-attr]
        with gpu_tracker.Tracker(process_id=child.pid, sleep_time=0.1) as tracker:
            time.sleep(0.2)
        evidence: Any = tracker._run._evidence  # noqa: SLF001 - what the sampler has written
        config: Any = {'reader': 'proc', 'target': child.pid, 'launcher': None, 'overhead': None, 'sections': ()}
        context = Context(config)
        ram = open_resource(context)
        ram.begin(time.monotonic())
        ram.sample(time.monotonic(), FIRST)
        passed = _traced(context, ram, evidence, ram.totals()['main'][0])  # type: ignore[index]
        child.kill()
    for place in passed:
        print(place)
    modules = list(dict.fromkeys(place.partition(':')[0] for place in passed))
    print(f'{len(passed)} functions in {len(modules)} modules: {", ".join(modules)}')


def _traced(context: Context, ram: Ram, evidence: Evidence, value: int) -> list[str]:
    """Return the functions that ``value`` passes, in the order of their first calls."""
    passed: dict[str, None] = {}
    time.sleep(_UNREAD)

    def note(frame: FrameType, event: str, result: object) -> None:
        module = frame.f_globals.get('__name__', '')
        if not module.startswith('gpu_tracker') or event not in {'call', 'return'}:
            return
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        given = [frame.f_locals.get(name) for name in names if name != 'self'] if event == 'call' else [result]
        if event == 'call':  # all resources are given what was read of the whole run
            given = [one for one in given if not (isinstance(one, dict) and one.keys() >= {'cpu', 'ram'})]
        if _contains(given, value):
            passed.setdefault(f'{module.removeprefix("gpu_tracker.")}:{code.co_qualname}')

    sys.setprofile(note)
    try:
        context.tree.root.raw = b''  # so that all is read again, as it is once a second
        context.tree.refresh()
        ram.sample(time.monotonic(), MIDDLE)
        found: Any = {**evidence, 'ram': ram.totals()}
        totals = settle(found)
        as_json(build(totals, Units('bytes', 'bytes', 'seconds', None)))
    finally:
        sys.setprofile(None)
    return list(passed)


def _contains(found: object, value: int, depth: int = 0) -> bool:
    """Return whether ``found`` is the value, or has it."""
    if depth > _DEEPEST or isinstance(found, (str, type(sys))):
        return False
    if isinstance(found, bytes):
        return str(value // 4096).encode() in found.split() or str(value // 1024).encode() in found.split()
    if isinstance(found, dict):
        return any(_contains(one, value, depth + 1) for one in found.values())
    if isinstance(found, (list, tuple, set)):
        return any(_contains(one, value, depth + 1) for one in found)
    parts = [getattr(found, name, None) for name in getattr(type(found), '__slots__', ())]
    if type(found).__module__ == 'gpu_tracker.result.usage':
        parts += getattr(found, '__dict__', {}).values()
    return found == value or any(_contains(one, value, depth + 2) for one in parts)


if __name__ == '__main__':
    main()
