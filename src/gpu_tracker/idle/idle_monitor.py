"""The monitor's loop: poll, decide and act, until a signal ends it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.idle.config.configuration_file import Reloading
from gpu_tracker.idle.decision import Start, decide, stop_all
from gpu_tracker.idle.gpu_claims import GpuClaims, WatchNames
from gpu_tracker.idle.keeper import DryRun, GuardedPrograms
from gpu_tracker.idle.monitor_log import flush
from gpu_tracker.idle.observing.device_events import DeviceListener
from gpu_tracker.idle.observing.gpu_processes import Programs
from gpu_tracker.idle.observing.machine_observer import open_observer
from gpu_tracker.idle.running.strays import end_strays
from gpu_tracker.idle.schedule import PollSchedule, next_change
from gpu_tracker.idle.state import Observation, State, with_end
from gpu_tracker.idle.status import MonitorStatus, iso_time, to_json, wall_clock
from gpu_tracker.idle.status_report import Tally, status_of
from gpu_tracker.idle.status_socket import serve
from gpu_tracker.idle.waiting import gpus_in_words
from gpu_tracker.system.users import UserNames
from gpu_tracker.version import __version__

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterator, Sequence

    from gpu_tracker.idle.config.idle_settings import GpuId, Settings
    from gpu_tracker.idle.decision import Action
    from gpu_tracker.idle.keeper import End

_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_TIDYING_PAUSE = 0.2
"""Seconds between two scans for what programs have left, at the monitor's end."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says besides the configuration."""

    config: str
    """The absolute path of the configuration file, which SIGHUP reads again."""
    socket: str | None
    """Where the status is reported; None: nowhere."""
    devices: str = '/dev'
    """The folder of the GPUs' device files."""
    dry_run: bool = False
    """Whether decisions are only logged."""


def run(settings: Settings, options: Options, log: logging.Logger) -> int:
    """Watch until SIGTERM ends it, and return the exit code.

    :raises GpuTrackerError: Another monitor watches the same GPUs, or answers on the same socket.
    :raises KeyboardInterrupt: SIGINT has ended it, and its programs before.
    """
    try:
        return asyncio.run(_Monitor(settings, options, log).run())
    finally:
        flush(log)


class _Monitor:
    def __init__(self, settings: Settings, options: Options, log: logging.Logger) -> None:
        self._settings = settings
        self._options = options
        self._log = log
        self._state = State()
        self._observation = Observation()
        self._tally = Tally()
        self._names = UserNames()
        self._programs = Programs(name_of=self._names.name)
        self._observer = open_observer(options.devices, programs=self._programs, name_of=self._names.name)
        self._claims = GpuClaims(log, WatchNames(), is_root=os.geteuid() == 0, name_of=self._names.name)
        self._keeper = DryRun(self._ended) if options.dry_run else GuardedPrograms(log, self._ended)
        self._alarm = DeviceListener(options.devices, log)
        self._pace = PollSchedule(settings.interval, time.monotonic())
        self._begun = time.time()
        self._woken = asyncio.Event()
        self._ended_by: signal.Signals | None = None
        self._is_leaving = False
        self._reloading = Reloading(options.config, log, self._woken.set)
        self._failures: dict[str, tuple[type[Exception], int | None]] = {}
        """What cannot be done at present, and the kind of error and its number."""

    async def run(self) -> int:
        self._catch_signals()
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self._observer.close)
            stack.callback(self._claims.close)
            first = await self._poll()
            if not self._options.dry_run:
                self._claims.make(self._observer.identities)
            self._observation = first  # for who asks before the first turn
            self._tally.poll(first, time.monotonic())
            if self._options.socket is not None:
                server = await serve(self._options.socket, self._status)
                stack.push_async_callback(server.close)
            if not self._options.dry_run:
                strays = asyncio.create_task(end_strays(self._log, self._names.name))
                stack.push_async_callback(_give_up, strays)
            stack.callback(self._alarm.close)
            self._alarm.listen(self._devices_changed)
            self._log_start(first)
            await self._watch()
            await self._stop_programs()
        self._log.info('ended by %s', 'itself' if self._ended_by is None else self._ended_by.name)
        if self._ended_by == signal.SIGINT:
            raise KeyboardInterrupt
        return 0

    async def _watch(self) -> None:
        while self._ended_by is None:
            self._take_configuration()
            if time.monotonic() >= self._pace.due:
                await self._turn()
            else:
                await self._wait_until(self._pace.due)

    async def _turn(self) -> None:
        """Look, decide and act."""
        begun, cost = time.monotonic(), time.process_time()
        observation = self._without_taken(await self._poll())
        now = time.monotonic()
        self._observation = observation
        self._tally.poll(observation, now)
        if self._ended_by is None:
            self._state, actions = decide(self._settings.programs, self._state, observation, now)
            self._act(actions, now)
        with self._going_on('GPUs cannot be given back'):
            self._claims.keep(self._is_needed)
        self._tidy()
        self._pace.polled(begun, now, time.process_time() - cost)
        self._pace.at(next_change(self._settings.programs, self._state, now))

    async def _poll(self) -> Observation:
        """Look at the machine; where that fails nothing is known, and nothing of ours may be on a GPU."""
        with self._going_on('the GPUs cannot be looked at'):
            observation = await self._observer.poll(self._settings, self._is_ours)
            for text in self._observer.take_messages():
                self._log.warning('%s', text)
            self._alarm.watch(self._observer.nodes, terminals=self._settings.terminals is not None)
            return observation
        return Observation()

    def _without_taken(self, observation: Observation) -> Observation:
        """Return what is seen without the GPUs of other monitors; where that is not known, nothing is."""
        if self._options.dry_run:
            return observation
        with self._going_on('it cannot be told which GPUs other monitors watch'):
            return self._claims.without_taken(observation, self._observer.identities)
        return Observation()

    def _tidy(self) -> None:
        with self._going_on('programs that have ended cannot be reaped'):
            self._keeper.tidy()

    @contextlib.contextmanager
    def _going_on(self, what: str) -> Iterator[None]:
        """Go on whatever fails, so that programs are still ended for others; say once that it cannot be done."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, the monitor is to yield and to go on
            kind = type(error), error.errno if isinstance(error, OSError) else None
            if self._failures.get(what) != kind:
                self._log.error('%s: %s', what, error, exc_info=not isinstance(error, GpuTrackerError))
            self._failures[what] = kind
        else:
            self._failures.pop(what, None)

    def _is_ours(self, pid: int) -> bool:
        return self._programs.is_ours(pid, self._keeper.roots)

    def _is_needed(self, gpu: GpuId) -> bool:
        """Return whether a GPU is watched, or a program of ours is on it still."""
        runs = self._state.runs.values()
        on_it = any(own.number == gpu.number for run in runs for own in run.gpus)
        return on_it or self._settings.section_of(gpu) is not None

    def _act(self, actions: Sequence[Action], now: float) -> None:
        starting, stopping = ('would start', 'would stop') if self._options.dry_run else ('starting', 'stopping')
        for action in actions:
            if isinstance(action, Start):
                name = action.program.name
                gpus = [seen.gpu for seen in action.gpus]
                self._log.info('%s %s on %s: %s', starting, name, gpus_in_words(gpus), action.reason)
                self._tally.add_start(name, gpus, now)
                self._keeper.start(action)
            else:
                self._keeper.stop(action.name, action.reason, self._state.runs[action.name].program.stop_grace)
                self._log.info('%s %s: %s', stopping, action.name, action.reason)

    def _ended(self, name: str, end: End) -> None:
        """Take note that a program is gone, and decide who may have its GPUs."""
        now = time.monotonic()
        run = self._state.runs.get(name)
        self._state = with_end(self._state, name, now, failed=end.failed)
        was_asked = run is None or run.stopping is not None
        failed = end.failed and not was_asked
        self._tally.add_end(name, now, failed=failed, text=end.ending or end.text, started=end.started)
        self._log.info('%s %s%s', name, end.text, '' if was_asked else self._rest_in_words(name, now))
        self._pace.poll_soon(now)
        self._woken.set()

    def _rest_in_words(self, name: str, now: float) -> str:
        rest = self._state.rests.get(name)
        return '' if rest is None else f'; not started again for {round(rest.not_before - now, 1):g} s'

    def _devices_changed(self, *, opened: bool) -> None:
        now = time.monotonic()
        if opened:
            self._pace.opened(now)
        else:
            self._pace.poll_soon(now)
        self._woken.set()

    async def _wait_until(self, deadline: float) -> None:
        """Wait, unless something happens before."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                await self._woken.wait()
        self._woken.clear()

    def _catch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in _ENDING_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as a shell's "&" in a script has it for SIGINT
                loop.add_signal_handler(number, self._end, number)
        loop.add_signal_handler(signal.SIGHUP, self._reloading.ask)
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # a terminal set to "tostop" would stop it for a line

    def _end(self, number: signal.Signals) -> None:
        """End gently; asked again, leave no time to programs; asked once more, wait for none."""
        if self._ended_by is None:
            self._ended_by = number
        elif self._is_leaving:
            self._state = State()
        else:
            self._is_leaving = True
            self._keeper.kill()
        self._woken.set()

    async def _stop_programs(self) -> None:
        reason = 'itself' if self._ended_by is None else self._ended_by.name
        self._state, stops = stop_all(self._state, reason, time.monotonic())
        self._act(stops, time.monotonic())
        while self._state.runs:
            await self._wait_until(time.monotonic() + _TIDYING_PAUSE)
            self._tidy()

    def _take_configuration(self) -> None:
        """Go by a configuration that was read again, if one was."""
        settings = self._reloading.take(self._settings)
        if settings is None:
            return
        now = time.monotonic()
        if settings.interval != self._settings.interval:
            self._pace = PollSchedule(settings.interval, now)
        self._settings = settings
        self._tally.keep(lambda gpu: settings.section_of(gpu) is not None)
        self._pace.poll_soon(now)

    def _log_start(self, first: Observation) -> None:
        gpus = gpus_in_words([seen.gpu for seen in first.gpus]) if first.gpus else 'no GPU yet'
        count = len(self._settings.programs)
        programs = f'{count} program{"" if count == 1 else "s"}'
        self._log.info('watching %s every %g s for %s', gpus, self._settings.interval, programs)

    def _status(self) -> str:
        now = time.monotonic()
        monitor = MonitorStatus(
            pid=os.getpid(),
            version=__version__,
            config_path=self._options.config,
            started=iso_time(self._begun),
            interval_seconds=self._settings.interval,
            dry_run=self._options.dry_run,
            user=self._names.name(os.geteuid()),
        )
        to_iso = wall_clock(now, time.time())
        programs = self._settings.programs
        return to_json(
            status_of(monitor, programs, self._state, self._observation, self._tally, self._keeper.pids, now, to_iso)
        )


async def _give_up(task: asyncio.Task[None]) -> None:
    """Cancel what goes on beside, and wait until it has tidied up."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
