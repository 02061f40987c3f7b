"""Puts the totals of a run where they survive: into the store, and into the file that the user asked for."""

from __future__ import annotations

import gc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from gpu_tracker.resources import Message, Resource
    from gpu_tracker.sampler.kept_run import KeptRun
    from gpu_tracker.sampler.recorders import Recorders
    from gpu_tracker.sampler.store import Store
    from gpu_tracker.totals import Configuration, Evidence, Totals

_INTERVAL = 1.0
"""Seconds between two publications, but for the last one."""
_LAUNCH = 0.1
"""The same while a command is held back: soon after its launch it may be killed."""
_LIMITED = (
    'Samples are skipped, because max_overhead_percent ({:g}) does not suffice for one every {:g} s: '
    'peaks between them may be missed, and RAM of several processes may be too low.'
)


class Publisher:
    """Publishes once a second at most, and at the end.

    :param config: The sampler's configuration: ``report`` is the path of a file, the fields of a
        :class:`.Form`, and whether the file is a table of runs, or None; ``units`` are for that file.
    :param resources: What is sampled, by name.
    :param record: Returns how the run was sampled so far (``record``), and what is known of descendants (``lineage``).
    :param recorders: What records the run; None: nothing.
    :param kept: The file that outlives this process; None: there is none.
    """

    def __init__(
        self,
        config: Configuration,
        *,
        store: Store,
        resources: Mapping[str, Resource],
        record: Callable[[], Mapping[str, Any]],
        recorders: Recorders | None = None,
        kept: KeptRun | None = None,
    ) -> None:
        self._store = store
        self._kept = kept
        self._resources = resources
        self._record = record
        self._recorders = recorders
        self._next = self._report_next = float('-inf')
        self._limited = _LIMITED.format(100 * (config['overhead'] or 0.0), config['interval'])
        self._tracker_settles = config['settles']
        self._job = config['job']
        self._report: _ReportFile | None = None
        if config['report'] is not None:
            self._report = _ReportFile(*config['report'], units=config['units'])
        self.evidence: Any = None
        """What was published last."""
        self.messages: list[Message] = []
        """Those for the user, as (level, text); each cause once."""

    def publish(self, now: float, *, seconds: float, samples: int, last: bool, abandoned: bool) -> None:
        """Publish the totals so far, where it is time.

        :param seconds: From the first sample to the last.
        :param samples: How many there were.
        :param last: Nothing will come after this, perhaps.
        :param abandoned: Nobody is there any more to take the totals.
        """
        recorders = self._recorders
        if now < self._next and not last and not (recorders is not None and recorders.is_due(now)):
            return
        record = self._record()
        held = record['record']['held']
        if held:
            self._report_next = now + _INTERVAL
        self._next = now + (_LAUNCH if held else _INTERVAL)
        if record['record']['is_limited']:
            self._add('warning', self._limited)
        for resource in self._resources.values():
            for level, text in resource.take_messages():
                self._add(level, text)
        for level, text in () if recorders is None else recorders.take_messages():
            self._add(level, text)
        evidence: Any = {'seconds': seconds, 'samples': samples, **record}
        evidence |= {name: resource.totals() for name, resource in self._resources.items()}
        evidence |= {} if self._job is None else {'job': self._job}
        evidence['messages'] = self.messages
        self.evidence = evidence
        self._keep(evidence)  # first: what the tracker finds is never older than what the file has shown
        is_due = not held and (last or now >= self._report_next)  # what cannot be started leaves the file alone
        if self._report is not None and is_due and self._report_is_due(last=last, abandoned=abandoned):
            problem = self._report.write(_settled(evidence))
            if problem:
                self._add('warning', problem)
                self._keep(evidence)
        if recorders is not None:
            recorders.published(now, lambda: _settled(evidence), last=last)

    def _keep(self, evidence: Evidence) -> None:
        """Store the evidence for the case that this process is killed, or the tracker as well."""
        try:
            self._store.write(evidence)
        except OSError:
            pass  # a limit on the size of files, or a full disk: the answer to the stop has it
        if self._kept is not None:
            self._kept.write(evidence)

    def _report_is_due(self, *, last: bool, abandoned: bool) -> bool:
        """Return whether the file is to be written now, and not by the tracker at the end."""
        if self._report is not None and self._report.appends:
            return last and abandoned  # each run is one line
        return not (last and self._tracker_settles) or abandoned

    def _add(self, level: str, text: str) -> None:
        if (level, text) not in self.messages:
            self.messages.append((level, text))


def _settled(evidence: Evidence) -> Totals:
    from gpu_tracker.resources.settle import settle  # noqa: PLC0415 - most runs write no file before their end

    return settle(evidence)


class _ReportFile:
    """The result so far, in a file that always holds a whole one, or as a line of the table in it."""

    def __init__(
        self,
        path: str,
        form: Sequence[Any],
        appends: bool,  # noqa: FBT001 - a part of the configuration
        *,
        units: tuple[str, str, str, int | None],
    ) -> None:
        self._path = path
        self._form = form
        self.appends = appends
        self._units = units

    def write(self, totals: Totals) -> str | None:
        """Write the file, and return what went wrong, if anything."""
        from gpu_tracker.resources.building import build  # noqa: PLC0415
        from gpu_tracker.result.formats import Form  # noqa: PLC0415
        from gpu_tracker.system.files import write_whole  # noqa: PLC0415 - these cost 30 ms, which many runs do not last
        from gpu_tracker.units import Units  # noqa: PLC0415

        try:
            text = Form(*self._form).render(build(totals, Units(*self._units)), None)
            if self.appends:
                from gpu_tracker.result.csv_table import append  # noqa: PLC0415 - as above

                append(self._path, text)
            else:
                write_whole(self._path, f'{text}\n')
        except (OSError, ValueError) as error:
            reason = getattr(error, 'strerror', None) or error
            return f'The resource usage could not be written to {self._path}: {reason}.'
        finally:
            gc.collect(0)  # json makes cycles, a few kilobytes each time, and the collector is off
        return None
