"""The own control group of a command, from its creation to its last reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpu_tracker.cli import output

if TYPE_CHECKING:
    from gpu_tracker.cli.request import Request
    from gpu_tracker.control_groups.own_group import OwnGroup
    from gpu_tracker.limits import RunLimits
    from gpu_tracker.running.ending import SamplersGrace

_WARNING = '--cgroup: the command gets no control group of its own'


def warn_of_none(request: Request) -> None:
    """Warn that only Linux has control groups, if ``--cgroup`` was given."""
    if request.own_group and not request.parameters.get('disable_logs'):
        output.complain(f'{_WARNING}: only Linux has control groups')


class CommandGroup:
    """The own control group of a command whose process is held before it starts.

    :ivar group: The group; None: there is none.
    :ivar samplers_grace: Time for samplers in the group to complete their recordings; None: there is no group.
    :ivar keeps: Reasons of the limits that the kernel keeps for the group, see :mod:`gpu_tracker.limits`.
    """

    def __init__(self, request: Request) -> None:
        self.group: OwnGroup | None = None
        self.samplers_grace: SamplersGrace | None = None
        self.keeps: tuple[str, ...] = ()
        self._problem: str | None = None
        self._request = request
        self._is_wanted = request.own_group
        self._is_quiet = bool(request.parameters.get('disable_logs'))

    def obtain(self, pid: int) -> None:
        """Move the held process into a new group; print the reason if that fails."""
        if self._is_wanted:
            try:
                self._obtain(pid)
            except Exception as error:  # noqa: BLE001 (whatever it is, the command was what the user wanted first)
                self._problem = f'internal error: {type(error).__name__}: {error}'
            if not self._is_quiet:
                self._warn()
            if self._request.limits is not None:
                self._limit_memory(self._request.limits)

    def _obtain(self, pid: int) -> None:
        # Imported after the fork: what the waiting process holds counts in the peak that the kernel keeps for it.
        from gpu_tracker.control_groups.obtaining import NoGroupError, obtain  # noqa: PLC0415
        from gpu_tracker.running.ending import SamplersGrace  # noqa: PLC0415 - as above

        try:
            self.group = obtain(pid)
        except NoGroupError as error:
            self._problem = str(error)
            return
        self.samplers_grace = SamplersGrace()
        self.group.spares = self.samplers_grace.spares

    def _warn(self) -> None:
        if self._problem is not None:
            output.complain(f'{_WARNING}: {self._problem}')
        elif self.group is not None and self.group.notes:
            output.complain(f'--cgroup: some figures are missing: {"; ".join(self.group.notes)}')

    def _limit_memory(self, run_limits: RunLimits) -> None:
        """Have the kernel enforce the memory limit, if there is one; print the reason if it cannot."""
        from gpu_tracker import limits  # noqa: PLC0415 - as above

        limit = run_limits.of(limits.MEMORY)
        if limit is None:
            return
        problem = 'there is no control group'
        if self.group is not None:
            try:
                self.group.limit_memory(int(limit.value))
            except OSError as error:
                problem = output.reason(error)
            else:
                self.keeps = (limit.reason,)
                return
        given = f'{limits.option_of(limit.reason)}={limit.given}'
        output.complain(f'{given} is a soft limit in this run, checked at each sample: {problem}')

    def end(self) -> dict[str, Any] | None:
        """Kill processes left in the group, remove it, and return its figures; None without ``--cgroup``."""
        if not self._is_wanted:
            return None
        group, self.group = self.group, None
        if group is not None:
            try:
                return self._ended(group)
            except Exception as error:  # noqa: BLE001 (the command has run: its exit code must not be lost)
                self._problem = f'internal error: {type(error).__name__}: {error}'
                output.complain(f'--cgroup: {self._problem}')
        return {'problem': self._problem}

    def _ended(self, group: OwnGroup) -> dict[str, Any]:
        if self.samplers_grace is not None:
            self.samplers_grace.begin()
        found = group.end()
        left = found['left_processes']
        if left and not self._is_quiet:
            what = '1 process' if left == 1 else f'{left} processes'
            output.complain(f'--cgroup: {what} still ran at the end of the command and got SIGKILL')
        return found

    def discard(self) -> None:
        """Remove the group of a command that was not started."""
        group, self.group = self.group, None
        if group is not None:
            group.kill()
            group.remove()
