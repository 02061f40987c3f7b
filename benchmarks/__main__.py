"""Measures gpu-tracker and its peers side by side, and prints tables.

Usage:
    benchmarks [options] [<part>...]

Parts: cost, latency, effect, scale, gpu, drm, inventory, atopgpud, idle, fleet, cuda, recording, jobs, truth, children,
children-cost; all of them where none is named. Of those that are not named the raw figures of the last run are kept.
One more part, before, is measured where --against names the revision.
It is run as python -m benchmarks, in the checkout.

Options:
    --quick         Fewer workloads, rounds and seconds.
    --rows=PATTERN  Only rows in whose names this regular expression is found; of the others the
                    raw figures of the last run are kept.
    --against=NAME  Compare this checkout with that revision of it, a commit, tag or branch, in the
                    parts before and truth; in the part before only if none of them is named.
    --rounds=N      So many rounds instead of those that each part has.
    --peers=NAMES   Only these peers, separated by commas; gpu-tracker is always one of them.
    --here          Measure gpu-tracker as it is installed for this interpreter. Without it,
                    the checkout is installed into an environment of its own.
    --json=FILE     Where the raw figures go [default: .benchmarks/results.json]; those of
                    a run with --quick, --peers, --here or --against go to .benchmarks/partial.json.
    --from=FILE     Measure nothing: make the tables from raw figures.
    -h --help       Show this text.

What the figures are: python -m pydoc benchmarks.
"""

from __future__ import annotations

import re
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docopt import docopt

from benchmarks import (
    atopgpud,
    before,
    children,
    children_cost,
    cost,
    cuda,
    drm,
    effect,
    fleet,
    gpu,
    hard,
    idle,
    inventory,
    jobs,
    latency,
    machine,
    recording,
    scale,
    truth,
)
from benchmarks.environments import UnavailableError, installed_here, prepare
from benchmarks.listings import LISTERS
from benchmarks.peers import BCC, BEFORE, BPFTRACE, FUSER, NVGPU, OURS, PEERS, TOOLS
from benchmarks.report import text_of
from benchmarks.results import Gap, Results
from benchmarks.session import Session, progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.environments import Environment
    from benchmarks.peers import Tool

_TRUTH_ROUNDS = 3
_WHOLE_RUN = '.benchmarks/results.json'
_PARTIAL_RUN = '.benchmarks/partial.json'


def _truth(session: Session) -> None:
    workloads = [workload for workload in truth.WORKLOADS if session.wants(workload.title)]
    session.results.truth += truth.run(
        session.peers, session.environments, session.rounds(_TRUTH_ROUNDS), progress, workloads
    )
    hard.measure(session)


_PARTS: dict[str, Callable[[Session], None]] = {
    'cost': cost.measure,
    'latency': latency.measure,
    'effect': effect.measure,
    'scale': scale.measure,
    'gpu': gpu.measure,
    drm.PART: drm.measure,
    inventory.PART: inventory.measure,
    atopgpud.PART: atopgpud.measure,
    idle.PART: idle.measure,
    fleet.PART: fleet.measure,
    cuda.PART: cuda.measure,
    recording.PART: recording.measure,
    jobs.PART: jobs.measure,
    'truth': _truth,
    children.PART: children.measure,
    children_cost.PART: children_cost.measure,
    before.PART: before.measure,
}
_USUAL = [part for part in _PARTS if part != before.PART]


def main() -> None:
    """Run what the command line asks for."""
    options = docopt(str(__doc__))
    _check(options)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit('Ended from outside.'))  # so that nothing is left running
    saved = options['--from']
    results = _measure(options) if saved is None else Results.load(Path(saved))
    print(text_of(results))  # noqa: T201 - a command


def _check(options: dict[str, Any]) -> None:
    """End with a message where options do not go together."""
    partial = [name for name in ('--quick', '--peers', '--here', '--against') if options[name]]
    measuring = [*options['<part>'], *partial, *(name for name in ('--rounds', '--rows') if options[name])]
    if options['--from'] is not None and measuring:
        sys.exit(f'--from measures nothing, so {measuring[0]} cannot be asked for with it.')
    if options['--from'] is not None and not Path(options['--from']).is_file():
        sys.exit(f'--from must be a file of an earlier run, not {options["--from"]!r}.')
    if partial and options['--json'] == _WHOLE_RUN:
        options['--json'] = _PARTIAL_RUN


def _measure(options: dict[str, Any]) -> Results:
    """Measure, and keep the raw figures after each part."""
    parts = _parts(options['<part>'], options['--against'])
    rows = _rows(options['--rows'])
    file = Path(options['--json'])
    file.parent.mkdir(parents=True, exist_ok=True)
    results = Results.load(file) if parts != _USUAL and file.exists() else Results()
    if results.machine != machine.describe():  # figures of two machines have nothing to do with each other
        results = Results(machine=machine.describe())
    for name in parts:
        results.forget(name, rows)
    tools = _chosen(options['--peers'])
    revision = _put_files_there(options['--against'])
    if revision is not None:
        tools.append(BEFORE)
    rounds = _rounds(options['--rounds'])
    here = installed_here(OURS) if options['--here'] else None
    session = replace(_session(tools, results, parts, here), rounds_wanted=rounds, quick=options['--quick'], rows=rows)
    if revision is not None:
        results.versions[BEFORE.name] = revision
    for name in parts:
        results.conditions[name] = machine.conditions() + ('' if rounds is None else f', rounds asked for: {rounds}')
        _PARTS[name](session)
        results.save(file)
    return results


def _parts(named: list[str], revision: str | None) -> list[str]:
    """Return what is to be measured."""
    if unknown := set(named) - set(_PARTS):
        sys.exit(f'No such part: {", ".join(sorted(unknown))}. There are: {", ".join(_PARTS)}.')
    if revision is not None:
        return named if {before.PART, hard.PART} & set(named) else [*named, before.PART]
    if before.PART in named:
        sys.exit(f'The part {before.PART} needs --against=REVISION.')
    return named or _USUAL


def _rows(given: str | None) -> re.Pattern[str] | None:
    if given is None:
        return None
    try:
        return re.compile(given)
    except re.error as error:
        sys.exit(f'--rows must be a regular expression, not {given!r}: {error}.')


def _put_files_there(revision: str | None) -> str | None:
    """Have the files of a revision, if one was asked for, and return its short name."""
    try:
        return None if revision is None else before.put_files_there(revision)
    except UnavailableError as error:
        sys.exit(f'--against must be a revision of this checkout: {error}')


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
        drm.PART: (OURS,),
        inventory.PART: LISTERS,
        atopgpud.PART: (OURS,),
        idle.PART: (OURS, FUSER),
        fleet.PART: (OURS, NVGPU),
        cuda.PART: (OURS, BPFTRACE, BCC),
        recording.PART: recording.PEERS_MEASURED,
        jobs.PART: (OURS,),
        children.PART: children.PEERS,
        children_cost.PART: (OURS,),
        before.PART: (OURS, BEFORE),
        hard.PART: (*PEERS, BEFORE),
    }
    return others.get(part, PEERS)


def _session(tools: list[Tool], results: Results, parts: list[str], here: Environment | None) -> Session:
    """Prepare the environments; a tool that cannot be installed has a gap in all parts that measure it.

    :param here: The environment of gpu-tracker, if it is not to be installed.
    """
    environments = {}
    for tool in tools:
        concerned = [part for part in parts if tool in _measured_in(part)]
        if not concerned:
            continue
        progress(f'preparing {tool.name}')
        try:
            environments[tool.name] = here if tool is OURS and here is not None else prepare(tool)
        except UnavailableError as error:
            if tool in {OURS, BEFORE}:
                sys.exit(f'{tool.name} cannot be installed: {error}')
            progress(f'    left out: {error}')
            results.gaps += [Gap(part, 'all', tool.name, str(error)) for part in concerned]
        else:
            results.versions[tool.name] = environments[tool.name].version
    peers = [tool for tool in PEERS if tool.name in environments]
    return Session(peers, environments, results)


if __name__ == '__main__':
    main()
