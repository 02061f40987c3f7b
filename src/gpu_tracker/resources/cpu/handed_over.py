"""CPU time of members that are gone, until it has turned up in the counters of whoever has waited for them.

What a process has used goes to the one that waits for it. As long as its parent lives, nobody else can. Where the
parent has ended since the process was last seen, there are three: the parent has waited for it first, and whoever has
waited for the parent got the time of both; or a member further up has, a subreaper, see prctl(2); or somebody outside
the tree. Which it was shows in their counters alone: in somebody's must be at least as much as the process had.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.processes.process import Process

_NOTHING = (0.0, 0)
_ROUNDING = 0.02
"""Reaped time comes in ticks of 10 ms, user and system time each rounded down."""
_MOST_TIMES = 64
"""Children of one member whose times are kept one by one; beyond that they are added up."""


class _Debt:
    """What a member should get from children that are gone, in CPU seconds."""

    __slots__ = ('advanced', 'amount', 'certain', 'certain_times', 'faults', 'payers', 'times')

    def __init__(self) -> None:
        self.amount = 0.0
        """What has not turned up yet."""
        self.certain = 0.0
        """The part of it that nobody else can have got."""
        self.advanced = 0.0
        """What was taken off it, since others had got more than they were owed."""
        self.payers = 0
        """How many others that were."""
        self.certain_times: list[tuple[float, float]] = []
        self.times: list[tuple[float, float]] = []
        """What each of the children had that nobody else can have got, and of the others: that much goes to one member
        at least, and that much it is in all."""
        self.faults = 0
        """The page faults of children that the member had waited for when these were still there."""

    def add(self, seconds: float, *, is_certain: bool) -> None:
        """Add a child."""
        self.amount += seconds
        if is_certain:
            self.certain += seconds
            self.certain_times.append((seconds, seconds))
        else:
            self.times.append((seconds, seconds))

    def dispute(self) -> None:
        """Take note that others may have got any of it."""
        self.certain = 0.0
        self.times += self.certain_times
        self.certain_times = []

    def take_over(self, debt: _Debt) -> None:
        """Add what another member should have got, which is gone itself."""
        self.amount += debt.amount
        self.advanced += debt.advanced
        self.payers += debt.payers
        self.times += debt.times + debt.certain_times


class _Account:
    """What a member should get, and what it has got.

    :param old: Known since the sample before: what has not turned up by now, never will.
    :param new: Known since this sample: the member may have been read just before it waited for these children.
    :param risen: What its counters have risen by since the sample before.
    """

    __slots__ = ('certain', 'certain_missing', 'member', 'missing', 'new', 'old', 'open', 'surplus', 'unexplained')

    def __init__(self, member: Process, old: _Debt, new: _Debt, risen: float) -> None:
        self.member = member
        self.old = old
        self.new = new
        if member.ended:  # its children were handed to another
            old.dispute()
            new.dispute()
        self.open = max(0.0, old.amount + new.amount - risen)
        """What has not turned up."""
        self.missing = max(0.0, old.amount - risen)
        """The part of it that never will, here."""
        self.certain = max(0.0, old.certain + new.certain - risen)
        self.certain_missing = max(0.0, old.certain - risen)
        """The parts of both that nobody else can have got."""
        surplus = max(0.0, risen - old.amount - new.amount)
        advanced = old.advanced + new.advanced
        self.unexplained = max(0.0, advanced - surplus)
        """What others have paid at the sample before and the member itself has not got since."""
        self.surplus = max(0.0, surplus - advanced)
        """What it has got beyond all that: of children that no sample has seen, or of descendants of others."""
        new.advanced = 0.0

    @property
    def disputed(self) -> float:
        """What has not turned up and others may have got."""
        return self.open - self.certain

    def pay_missing(self, most: float) -> float:
        """Take off what others have got of what is missing, ``most`` at most; return how much that is."""
        paid = min(most, self.missing - self.certain_missing)
        self.open -= paid
        self.missing -= paid
        self.unexplained += paid
        return paid

    def pay_new(self, most: float) -> float:
        """Take off what others have got of what may still turn up here, ``most`` at most; return how much that is."""
        paid = min(most, max(0.0, self.disputed - (self.missing - self.certain_missing)))
        self.open -= paid
        self.new.advanced += paid
        return paid

    def rest(self) -> _Debt | None:
        """Return what may still turn up; None where that is nothing."""
        debt = self.new
        amount = max(0.0, self.open - self.missing)
        certain = min(amount, self.certain - self.certain_missing)
        if amount - certain > debt.amount - debt.certain:  # it may be other children's time that has turned up
            times = debt.times + self.old.times
            if len(times) > _MOST_TIMES:
                times = [(min(times)[0], sum([seconds for _, seconds in times]))]
            debt.times = times
        debt.amount, debt.certain = amount, certain
        return debt if amount > 0 or debt.advanced > 0 else None


class HandedOver:
    """Follows the time of members that are gone.

    :param tree: Its ``reaped_cpu`` is what has turned up.
    """

    def __init__(self, tree: ProcessTree) -> None:
        self._tree = tree
        self._owing: dict[Process, _Debt] = {}
        self._reaped: dict[Process, tuple[float, int]] = {}
        """``reaped_cpu`` and ``reaped_faults`` of the members at the sample before."""
        self.lost = 0.0
        """CPU seconds of members that no member has got, as they were last seen."""
        self.adopted = 0.0
        """Those among them that somebody outside the tree has waited for."""
        self.has_ignored = self.has_adopted = False
        """Such a member was found at this sample; where it is not certain who has got its time, too."""

    @property
    def is_open(self) -> bool:
        """Something has still to turn up."""
        return bool(self._owing)

    @property
    def missing(self) -> float:
        """CPU seconds that are in no counter of a member, or not yet."""
        owing = self._owing
        return self.lost + sum([debt.amount for debt in owing.values()]) if owing else self.lost

    def of(self, member: Process) -> float:
        """Return the CPU seconds that have still to turn up in the counters of ``member``."""
        debt = self._owing.get(member)
        return 0.0 if debt is None else debt.amount

    def remember(self) -> None:
        """Take the counters of the members as those of the sample before."""
        self._reaped = {process: (process.reaped_cpu, process.reaped_faults) for process in self._tree.members.values()}

    def settle(self) -> None:
        """Take in who is gone, and decide about what is owed since the sample before."""
        owed = self._owed()
        owing, self._owing = self._owing, {}
        if not (owed or owing):
            return
        accounts: dict[Process, _Account] = {}
        for member in owing.keys() | owed.keys():
            old, new = owing.get(member), owed.get(member)
            risen = max(0.0, member.reaped_cpu - self._reaped.get(member, _NOTHING)[0])
            if old is not None or new is None or new.amount > risen or new.advanced:
                accounts[member] = _Account(member, old or _Debt(), new or _Debt(), risen)
        disputed = [account for account in accounts.values() if account.disputed > 0]
        payers = self._pay_by_others(disputed, accounts, owed) if disputed else 0
        for member, account in accounts.items():
            self._decide(account, payers)
            rest = account.rest()
            if rest is not None:
                rest.payers = payers if rest.advanced > 0 else 0
                _, rest.faults = self._reaped.get(member, _NOTHING)
                self._owing[member] = rest

    def _owed(self) -> dict[Process, _Debt]:
        """Return the time of members that are gone by the one that should have got it; that of the others is lost."""
        tree, members = self._tree, self._tree.members
        gone = {process.pid: process for process in tree.gone}
        owed: dict[Process, _Debt] = {}
        for process in tree.gone:
            is_root = process is tree.root
            seconds = process.reaped_cpu + (0.0 if is_root else process.own_cpu)
            before = self._owing.pop(process, None)
            last: Process | None = process
            while last is not None and last is not tree.root and (last.parent in gone or last.parent not in members):
                last = gone.get(last.parent)
            if last is None or last is tree.root:
                seconds += 0.0 if before is None else before.amount
                self.lost += seconds
                self.adopted += seconds
                self.has_adopted |= not is_root
                continue
            debt = owed.setdefault(members[last.parent], _Debt())
            debt.add(seconds, is_certain=last is process)
            if before is not None:
                debt.take_over(before)
        return owed

    def _pay_by_others(
        self, disputed: Iterable[_Account], accounts: Mapping[Process, _Account], owed: Mapping[Process, _Debt]
    ) -> int:
        """Take off what is ``disputed`` what members have got beyond what they were owed; return how many have.

        Each can have got those children alone that had no more than that.
        """
        times = [time for account in disputed for time in (*account.old.times, *account.new.times)]
        reaped = self._reaped
        found = 0.0
        payers = 0
        for process in self._tree.members.values():
            now = process.reaped_cpu
            if not now:
                continue
            before, _ = reaped.get(process, (now, 0))
            if now <= before:
                continue
            if process in accounts:
                surplus = accounts[process].surplus
            else:
                surplus = now - before - (owed[process].amount if process in owed else 0.0)
            possible = sum([seconds for least, seconds in times if least <= surplus + _ROUNDING])
            if surplus > 0 and possible > 0:
                found += min(surplus, possible)
                payers += 1
        for account in disputed:
            found -= account.pay_missing(found)
        for account in disputed:
            found -= account.pay_new(found)
        return payers

    def _decide(self, account: _Account, payers: int) -> None:
        """Keep what has not turned up in time; what members have got is rounded down, so that this may be too much."""
        self.has_adopted |= account.unexplained > _ROUNDING
        missing = account.missing
        if missing <= 0:
            return
        member, tree = account.member, self._tree
        # Without any page fault no process has ever ended.
        waited_for_none = tree.counts_reaped_faults and member.reaped_faults == account.old.faults
        ignored = not member.ended and (waited_for_none or tree.ignores_children(member))
        payers += account.old.payers
        lost = missing - _ROUNDING * (payers if waited_for_none else 1 + payers)
        self.has_ignored |= ignored
        if lost > 0:
            self.lost += lost
            self.adopted += 0.0 if ignored else lost
            self.has_adopted |= not ignored
