"""Random lives of claims: whatever happens, no GPU has two owners and none is lost.

All is looked at from two PID namespaces: from the one that numbers the processes, and from that of a container, where
only the files tell which of them still run.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import TYPE_CHECKING, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from gpu_tracker.gpus.claims.folder import ClaimFolder
from gpu_tracker.gpus.claims.record import Record, encode
from support.claims.claiming_machine import Machine
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from gpu_tracker.gpus.claim import Claim
    from gpu_tracker.gpus.claims.folder import HeldClaim

GPUS = ('GPU-0', 'GPU-1', 'GPU-2', 'GPU-3')
PIDS = st.integers(1, 6)


class Owned(NamedTuple):
    """What was claimed, by the model's own books."""

    held: HeldClaim
    process: tuple[int, float] | None
    end: float | None


class ChoiceFailedError(Exception):
    pass


class Claims(RuleBasedStateMachine):
    made = Bundle('made')

    def __init__(self) -> None:
        super().__init__()
        self.path = tempfile.mkdtemp()
        self.machine = Machine()
        self.machine.processes = {1: 0.1, 2: 0.2}
        self.folder = ClaimFolder(f'{self.path}/claims', lock_timeout=TIMEOUT, circumstances=self.machine.moment)
        self.from_container = ClaimFolder(
            self.folder.path, circumstances=lambda: self.machine.moment()._replace(pid_namespace=4026532999)
        )
        self.with_own_boot_id = ClaimFolder(
            self.folder.path,
            circumstances=lambda: self.machine.moment()._replace(
                pid_namespace=4026532998, boot_id=f'boot-of-container-{self.boots}'
            ),
        )
        self.starts = 1
        self.boots = 1
        self.owned: list[Owned] = []
        self.names = 0

    def teardown(self) -> None:
        self.restart()
        assert self.folder.claims() == self.from_container.claims() == self.with_own_boot_id.claims() == []
        last = self.folder.claim(lambda _: GPUS, process_id=None, seconds=1, command=None)
        assert last is not None
        assert len(os.listdir(self.folder.path)) == 1 + self.halves_in_place()
        shutil.rmtree(self.path)

    def halves_in_place(self) -> int:
        return sum(name.startswith('0-0-') for name in os.listdir(self.folder.path))

    def taken(self) -> list[str]:
        """Return what is claimed, by the model's own books."""
        return [
            uuid
            for owned in self.owned
            if (owned.process is None or self.machine.processes.get(owned.process[0]) == owned.process[1])
            and (owned.end is None or self.machine.clock < owned.end)
            for uuid in owned.held.claim.uuids
        ]

    @rule(pid=PIDS)
    def process_starts(self, pid: int) -> None:
        """Also under the number of one that has ended, or has been overlooked in its end."""
        self.process_ends(pid)
        self.starts += 1
        self.machine.processes[pid] = float(self.starts)

    @rule(pid=PIDS)
    def process_ends(self, pid: int) -> None:
        self.machine.processes.pop(pid, None)
        for owned in self.owned:
            if owned.process is not None and owned.process[0] == pid:
                owned.held.lock.let_go()  # as the kernel does, which closes all that it had open

    @rule(target=made, pid=PIDS, count=st.integers(1, 4), seconds=st.none() | st.integers(1, 20), timed=st.booleans())
    def claim(self, pid: int, count: int, seconds: int | None, timed: bool) -> object:
        if timed and seconds is not None:
            process = None
        elif pid in self.machine.processes:
            process = (pid, self.machine.processes[pid])
        else:
            return multiple()

        def choose(claims: list[Claim]) -> list[str]:
            claimed = {uuid for claim in claims for uuid in claim.uuids}
            free = [uuid for uuid in GPUS if uuid not in claimed]
            return free[:count] if len(free) >= count else []

        taken = self.taken()
        held = self.folder.claim(
            choose, process_id=None if process is None else process[0], seconds=seconds, command=None
        )
        assert (held is not None) == (count <= len(GPUS) - len(taken))
        if held is None:
            return multiple()
        assert len(held.claim.uuids) == count
        assert not set(held.claim.uuids) & set(taken)
        owned = Owned(held, process, None if seconds is None else self.machine.clock + seconds)
        self.owned.append(owned)
        return owned

    @rule(owned=made)
    def release(self, owned: Owned) -> None:
        """Also of what was released before, or has become void and claimed by others."""
        owned.held.release()
        if owned in self.owned:
            self.owned.remove(owned)

    @rule(where=st.floats(0, 1), uuid=st.sampled_from(GPUS), renamed=st.booleans())
    def writer_is_killed(self, where: float, uuid: str, renamed: bool) -> None:
        """Leave what it has written so far; under the final name as well, as a crash of the machine might."""
        record = Record((uuid,), os.geteuid(), None, None, None, f'boot-{self.boots}', 'node7', '', 1.0, 1e9, None, 1.0)
        data = encode(record)
        self.names += 1
        os.makedirs(self.folder.path, 0o700, exist_ok=True)
        name = f'0-0-{self.names:016x}.json' if renamed else f'.0-0-{self.names:016x}.tmp'
        with open(os.path.join(self.folder.path, name), 'wb') as file:
            file.write(data[: int(where * (len(data) - 2))] if renamed else data[: int(where * len(data))])

    @rule()
    def choice_fails(self) -> None:
        def choose(_: list[Claim]) -> list[str]:
            raise ChoiceFailedError

        try:
            self.folder.claim(choose, process_id=None, seconds=1, command=None)
        except ChoiceFailedError:
            return
        raise AssertionError('nobody was told')

    @rule(seconds=st.integers(1, 15))
    def time_passes(self, seconds: int) -> None:
        self.machine.clock += seconds

    @rule()
    def restart(self) -> None:
        self.boots += 1
        self.machine.restart(f'boot-{self.boots}')
        self.machine.clock = 1.0
        for pid in list(self.machine.processes):
            self.process_ends(pid)
        self.owned.clear()

    @invariant()
    def nobody_shares_and_nothing_is_lost(self) -> None:
        for folder in (self.folder, self.from_container, self.with_own_boot_id):
            claimed = [uuid for claim in folder.claims() for uuid in claim.uuids]
            assert len(claimed) == len(set(claimed))
            assert sorted(claimed) == sorted(self.taken())


Claims.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestClaims = Claims.TestCase
