"""Tests that are tracked: ``pytest --track``, and the marks ``limit_ram``, ``limit_gpu_ram`` and ``limit_time``.

pytest imports this module in every run, so it imports the rest of gpu_tracker only if that is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.real import os, time

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from gpu_tracker.recording.reading.model import Region
    from gpu_tracker.regions.calls import Call
    from gpu_tracker.tracker import Tracker

_OUTPUT = 'gpu_tracker'
"""The key of the output of a worker of xdist."""
_MOST_SHOWN = 5
"""Tests in the table, for each of its figures."""
_PLUGIN = 'gpu-tracker-recording'


class _Limit(NamedTuple):
    """A kind of mark.

    :ivar unit: The base unit of its figure.
    :ivar example: A limit in a test.
    :ivar figure: The name of its figure in messages.
    """

    unit: str
    example: str
    figure: str


_LIMITS = {
    'limit_ram': _Limit('bytes', "'200 MB'", 'the peak RAM of pytest and the processes of the test'),
    'limit_gpu_ram': _Limit('bytes', "'1 GB'", 'the peak GPU RAM of pytest and the processes of the test'),
    'limit_time': _Limit('seconds', "'2 s'", 'the time of the test'),
}


class _Used(NamedTuple):
    """What a test used with its children: seconds, CPU seconds, and the most RAM in bytes."""

    name: str
    time: float
    cpu: float | None
    ram: float | None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup('gpu-tracker', 'tracking of tests (gpu-tracker)')
    group.addoption('--track', action='store_true', help='Measure each test, and show the largest.')
    group.addoption('--track-file', metavar='PATH', help='Keep the recording. Workers of xdist add their name to it.')
    group.addoption('--track-overwrite', action='store_true', help='Replace older recordings.')


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks, and record the run if ``--track`` is given.

    :raises pytest.UsageError: if an option needs another one, or a file cannot be made.
    """
    for name, limit in _LIMITS.items():
        config.addinivalue_line('markers', f'{name}({limit.example}): fail the test if {limit.figure} is larger')
    file = config.getoption('--track-file')
    if not config.getoption('--track'):
        for option, value in (('--track-file', file), ('--track-overwrite', config.getoption('--track-overwrite'))):
            if value:
                raise pytest.UsageError(f'{option} needs --track')
        return
    if file is not None and file.endswith('.csv'):
        raise pytest.UsageError(f'--track-file must not end in .csv, because a CSV file has no regions: {file!r}')
    if file is not None:
        if not file or file.endswith(os.sep):
            raise pytest.UsageError(f'--track-file must be the path of a file, not {file!r}')
        _check_files(config, file)
        file = config.option.track_file = os.path.abspath(file)  # a test, or a worker, may be in another folder
    config.pluginmanager.register(_Recorder(config, file), _PLUGIN)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Check the limits before any test runs. Workers of xdist can report a wrong one as an error of its file."""
    report = yield
    if report.passed:
        faults = [*_faults(item for item in report.result if isinstance(item, pytest.Item))]
        if faults:
            report.outcome = 'failed'
            report.longrepr = '\n'.join(faults)
            report.result = []
    return report


def _faults(items: Iterable[pytest.Item]) -> Iterator[str]:
    for item in items:
        try:
            for name in _LIMITS:
                for mark in item.iter_markers(name):
                    _limit_of(item, mark)
        except pytest.UsageError as error:
            yield str(error)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Measure a test with a limit, and fail it if it used more."""
    marks = [mark for name in _LIMITS if (mark := item.get_closest_marker(name)) is not None]
    if not marks:
        return (yield)
    limits = {mark.name: _limit_of(item, mark) for mark in marks}
    owner = os.getpid()
    tracker, problem = (None, None) if limits.keys() == {'limit_time'} else _started()
    start = time.monotonic()
    try:
        result = yield
    finally:
        seconds = time.monotonic() - start
        if tracker is not None and os.getpid() == owner:
            problem = _stopped(tracker)
    if os.getpid() != owner:
        return result  # in a process that the test forked
    figures: dict[str, float | None] = {'limit_time': seconds}
    if tracker is not None and problem is None:
        usage = tracker.resource_usage
        figures |= {'limit_ram': usage.max_ram.combined.total_rss, 'limit_gpu_ram': usage.max_gpu_ram.combined}
    found = [_excess(name, figures.get(name), limit, problem) for name, limit in limits.items()]
    if any(found):
        pytest.fail('\n'.join(filter(None, found)), pytrace=False)
    return result


def _started() -> tuple[Tracker | None, str | None]:
    """Start a tracker; return it, or the reason of the failure."""
    from gpu_tracker.tracker import Tracker  # noqa: PLC0415 - only where a test has a limit

    try:
        tracker = Tracker(
            sleep_time=0.1, ram_unit='bytes', gpu_ram_unit='bytes', time_unit='seconds', disable_logs=True
        )  # fmt: skip
        tracker.start()
    except GpuTrackerError as error:
        return None, str(error)
    return tracker, None


def _stopped(tracker: Tracker) -> str | None:
    """Stop a tracker; return the reason of a failure."""
    try:
        tracker.stop()
    except GpuTrackerError as error:
        return str(error)
    return None


def _limit_of(item: pytest.Item, mark: pytest.Mark) -> float:
    """Return the limit of a mark in base units."""
    from gpu_tracker.recording.comparing.quantities import limit_of  # noqa: PLC0415 - only where a test has a limit

    limit = _LIMITS[mark.name]
    value = limit_of(mark.args[0], limit.unit) if len(mark.args) == 1 and isinstance(mark.args[0], str) else None
    if value is None or mark.kwargs or value <= 0:
        given = ', '.join([*map(repr, mark.args), *(f'{key}={value!r}' for key, value in mark.kwargs.items())])
        raise pytest.UsageError(f'{item.nodeid}: {mark.name} needs one limit such as {limit.example}, not ({given})')
    return value


def _excess(name: str, used: float | None, limit: float, problem: str | None) -> str | None:
    """Return the message for a figure above its limit, or unknown; None if the test passes."""
    from gpu_tracker.units import text_of  # noqa: PLC0415 - as above

    unit, _, figure = _LIMITS[name]
    if used is None:
        reason = f' ({problem})' if problem else ''
        return f'{name}: {figure} is unknown{reason}; the limit is {text_of(limit, unit)}'
    if used > limit:
        return f'{name}: {figure} was {text_of(used, unit)}; the limit is {text_of(limit, unit)}'
    return None


class _Recorder:
    """Records the use of each test, and shows it at the end."""

    def __init__(self, config: pytest.Config, file: str | None) -> None:
        self._overwrites = bool(config.getoption('--track-overwrite'))
        self._worker: dict[str, Any] | None = getattr(config, 'workeroutput', None)
        self._file = file if file is None or self._worker is None else _of_worker(file, config.workerinput['workerid'])  # type: ignore[attr-defined]  # xdist's
        self._tracker: Tracker | None = None
        self._owner = os.getpid()
        self._tests: set[int] = set()
        self._problem: str | None = None
        self._used: list[_Used] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Record a test and its fixtures as a region."""
        self._start()
        from gpu_tracker.regions import calls  # noqa: PLC0415 - only with --track

        call: Call | None = calls.begin(item.nodeid, None, is_single=True)
        if call is not None:
            self._tests.add(call.id)
        try:
            return (yield)
        finally:
            if call is not None:
                calls.end(call, None)

    def pytest_sessionfinish(self) -> None:
        """End the recording."""
        if os.getpid() != self._owner:
            return  # in a process that a test forked
        tracker, self._tracker = self._tracker, None
        if tracker is not None:
            try:
                tracker.stop()
                self._used = [_used(region) for region in tracker.regions if region.id in self._tests]
            except GpuTrackerError as error:
                self._problem = str(error)
        if self._worker is not None:
            self._worker[_OUTPUT] = [self._problem, [tuple(used) for used in self._used]]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:  # noqa: ANN401 - xdist's
        """Collect the figures of a worker."""
        crashed = f'{node.gateway.id} ended early; the use of its tests is unknown'
        problem, used = getattr(node, 'workeroutput', {}).get(_OUTPUT, (crashed, []))
        self._problem = self._problem or problem
        self._used += [_Used(*fields) for fields in used]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the tests that used most."""
        if self._problem is not None:
            terminalreporter.write_line(f'gpu-tracker: {self._problem}')
        if self._used:
            terminalreporter.section('tracked tests')
            for line in _table(self._used):
                terminalreporter.write_line(line)

    def _start(self) -> None:
        """Start the recording at the first test, so a run without tests makes no file."""
        if self._tracker is not None or self._problem is not None:
            return
        from gpu_tracker.tracker import Tracker  # noqa: PLC0415 - only with --track

        try:
            tracker = Tracker(sleep_time=0.1, disable_logs=True, tracking_file=self._file, overwrite=self._overwrites)
            tracker.start()
        except GpuTrackerError as error:
            self._problem = f'nothing is tracked: {error}'
            return
        self._tracker = tracker


def _check_files(config: pytest.Config, file: str) -> None:
    """Raise UsageError if a recording cannot be made. The files of all workers are checked before the workers start."""
    if hasattr(config, 'workerinput'):
        return
    from gpu_tracker.errors import ParameterError  # noqa: PLC0415 - only with --track
    from gpu_tracker.recording.writing.tracking_file import check, whole_path  # noqa: PLC0415 - as above

    workers = _workers(config)
    for path in [_of_worker(file, name) for name in workers] if workers else [file]:
        try:
            check(whole_path(path), path, overwrite=bool(config.getoption('--track-overwrite')))
        except ParameterError as error:
            raise pytest.UsageError(f'--track-file must be {error.accepted}, not {path!r}') from None


def _workers(config: pytest.Config) -> Sequence[str]:
    """Return the names of the workers of xdist; none without xdist."""
    if config.getoption('dist', 'no') == 'no':
        return ()
    count = 0
    for spec in config.getoption('tx', ()) or ():
        number, star, _ = spec.partition('*')
        count += int(number) if star and number.isdigit() else 1
    return [f'gw{number}' for number in range(count)]


def _of_worker(file: str, worker: str) -> str:
    begin, ending = os.path.splitext(file)
    return f'{begin}-{worker}{ending}'


def _used(region: Region) -> _Used:
    cpu = [region.thread_cpu, None if region.cpu is None else region.cpu.value]
    ram = [region.combined_ram, None if region.ram is None else region.ram.value]
    return _Used(region.name, region.wall_time or 0.0, _most(cpu), _most(ram))


def _most(lower_bounds: Iterable[float | None]) -> float | None:
    return max((value for value in lower_bounds if value is not None), default=None)


def _table(used: Sequence[_Used]) -> list[str]:
    """Return the lines of the tests with the largest figures, the longest first."""
    shown: set[int] = set()
    for figures in ([one.time for one in used], [one.cpu for one in used], [one.ram for one in used]):
        shown.update(sorted(range(len(used)), key=lambda number: -(figures[number] or 0))[:_MOST_SHOWN])
    lines = ['  time s   CPU s  RAM MB  test']
    for one in sorted((used[number] for number in shown), key=lambda one: -one.time):
        cpu = 'N/A' if one.cpu is None else f'{one.cpu:.3f}'
        ram = 'N/A' if one.ram is None else f'{one.ram / 1e6:.1f}'
        lines.append(f'{one.time:8.3f}{cpu:>8}{ram:>8}  {one.name}')
    if len(used) > len(shown):
        lines.append(f'the {len(shown)} largest of {len(used)} tests')
    return lines
