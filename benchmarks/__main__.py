"""Measures gpu-tracker and its peers side by side, and prints tables.

Usage:
    benchmarks [options] [<part>...]

Parts: cost, latency, effect, scale, gpu, inventory, atopgpud, idle, fleet, cuda, truth; all of them where none is
named. Of those that are not named the raw figures of the last run are kept.
It is run as python -m benchmarks, in the checkout.

Options:
    --write         Put the tables into docs/comparison.rst too.
    --quick         Fewer workloads, rounds and seconds.
    --rounds=N      So many rounds instead of those that each part has.
    --peers=NAMES   Only these peers, separated by commas; gpu-tracker is always one of them.
    --json=FILE     Where the raw figures go [default: .benchmarks/results.json]; those of
                    a run with --quick or --peers go to .benchmarks/partial.json.
    --from=FILE     Measure nothing: make the tables from raw figures.
    -h --help       Show this text.

What the figures are: python -m pydoc benchmarks.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docopt import docopt

from benchmarks import (
    atopgpud,
    comparison_page,
    cost,
    cuda,
    effect,
    fleet,
    gpu,
    idle,
    inventory,
    latency,
    machine,
    scale,
    truth,
)
from benchmarks.environments import CHECKOUT, UnavailableError, prepare
from benchmarks.listings import LISTERS
from benchmarks.peers import BCC, BPFTRACE, FUSER, NVGPU, OURS, PEERS, TOOLS
from benchmarks.report import text_of
from benchmarks.results import Gap, Results
from benchmarks.session import Session, progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.peers import Tool

_TRUTH_ROUNDS = 3
_WHOLE_RUN = '.benchmarks/results.json'
_PARTIAL_RUN = '.benchmarks/partial.json'


def _truth(session: Session) -> None:
    session.results.truth += truth.run(
        session.peers, session.environments, session.rounds(_TRUTH_ROUNDS), progress, truth.WORKLOADS
    )


_PARTS: dict[str, Callable[[Session], None]] = {
    'cost': cost.measure,
    'latency': latency.measure,
    'effect': effect.measure,
    'scale': scale.measure,
    'gpu': gpu.measure,
    inventory.PART: inventory.measure,
    atopgpud.PART: atopgpud.measure,
    idle.PART: idle.measure,
    fleet.PART: fleet.measure,
    cuda.PART: cuda.measure,
    'truth': _truth,
}


def main() -> None:
    """Run what the command line asks for."""
    options = docopt(str(__doc__))
    _check(options)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit('Ended from outside.'))  # so that nothing is left running
    saved = options['--from']
    results = _measure(options) if saved is None else Results.load(Path(saved))
    text = text_of(results)
    print(text)  # noqa: T201 - a command
    if options['--write']:
        comparison_page.write(CHECKOUT / 'docs' / 'comparison.rst', text)


def _check(options: dict[str, Any]) -> None:
    """End with a message where options do not go together."""
    partial = [name for name in ('--quick', '--peers') if options[name]]
    if options['--write'] and partial:
        sys.exit(f'--write publishes whole runs only, not one with {partial[0]}.')
    measuring = [*options['<part>'], *partial, *(['--rounds'] if options['--rounds'] else [])]
    if options['--from'] is not None and measuring:
        sys.exit(f'--from measures nothing, so {measuring[0]} cannot be asked for with it.')
    if options['--from'] is not None and not Path(options['--from']).is_file():
        sys.exit(f'--from must be a file of an earlier run, not {options["--from"]!r}.')
    if partial and options['--json'] == _WHOLE_RUN:
        options['--json'] = _PARTIAL_RUN


def _measure(options: dict[str, Any]) -> Results:
    """Measure, and keep the raw figures after each part."""
    if unknown := set(options['<part>']) - set(_PARTS):
        sys.exit(f'No such part: {", ".join(sorted(unknown))}. There are: {", ".join(_PARTS)}.')
    file = Path(options['--json'])
    file.parent.mkdir(parents=True, exist_ok=True)
    parts = options['<part>'] or list(_PARTS)
    results = Results.load(file) if options['<part>'] and file.exists() else Results()
    if results.machine != machine.describe():  # figures of two machines have nothing to do with each other
        results = Results(machine=machine.describe())
    for name in parts:
        results.forget(name)
    rounds = _rounds(options['--rounds'])
    session = _session(_chosen(options['--peers']), results, parts, rounds, quick=options['--quick'])
    for name in parts:
        results.conditions[name] = machine.conditions() + ('' if rounds is None else f', rounds asked for: {rounds}')
        _PARTS[name](session)
        results.save(file)
    return results


def _rounds(given: str | None) -> int | None:
    if given is None:
        return None
    if not given.isdecimal() or int(given) == 0:
        sys.exit(f'--rounds must be a positive whole number, not {given!r}.')
    return int(given)


def _chosen(names: str | None) -> list[Tool]:
    """Return the tools that were asked for."""
    if names is None:
        return list(TOOLS)
    wanted = {name.strip() for name in names.split(',')}
    if unknown := wanted - {tool.name for tool in TOOLS}:
        sys.exit(f'No such peer: {", ".join(sorted(unknown))}. There are: {", ".join(tool.name for tool in TOOLS)}.')
    return [tool for tool in TOOLS if tool is OURS or tool.name in wanted]


def _measured_in(part: str) -> Sequence[Tool]:
    """Return the tools that a part measures."""
    others = {
        inventory.PART: LISTERS,
        atopgpud.PART: (OURS,),
        idle.PART: (OURS, FUSER),
        fleet.PART: (OURS, NVGPU),
        cuda.PART: (OURS, BPFTRACE, BCC),
    }
    return others.get(part, PEERS)


def _session(tools: list[Tool], results: Results, parts: list[str], rounds: int | None, *, quick: bool) -> Session:
    """Prepare the environments; a tool that cannot be installed has a gap in all parts that measure it."""
    environments = {}
    for tool in tools:
        concerned = [part for part in parts if tool in _measured_in(part)]
        if not concerned:
            continue
        progress(f'preparing {tool.name}')
        try:
            environments[tool.name] = prepare(tool)
        except UnavailableError as error:
            if tool is OURS:
                sys.exit(f'This checkout cannot be installed: {error}')
            progress(f'    left out: {error}')
            results.gaps += [Gap(part, 'all', tool.name, str(error)) for part in concerned]
        else:
            results.versions[tool.name] = environments[tool.name].version
    peers = [tool for tool in PEERS if tool.name in environments]
    return Session(peers, environments, results, rounds, quick)


if __name__ == '__main__':
    main()
