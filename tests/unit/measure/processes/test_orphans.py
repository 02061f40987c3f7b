"""Which processes whose parent has ended belong to a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_tracker.processes import stat
from gpu_tracker.processes.orphans import Orphans
from gpu_tracker.processes.process import Process
from support.simulated_proc import stat_line

if TYPE_CHECKING:
    from collections.abc import Iterable

INIT, SHELL, LAUNCHER, ROOT, MEMBER, OTHER, SAMPLER, ORPHAN = 1, 20, 40, 50, 60, 66, 99, 61
OLDER, NEWER = 30, 98
"""Leaders of other sessions that were started before the root and after it."""
STARTED = 500
"""When the sampler was started: what is older is not of interest."""
USER, SOMEBODY = 1000, 1001
ROOT_IMAGE = (1000 + ROOT, 2000 + ROOT, 3000 + ROOT)


def process_of(pid: int, parent: int, *, user: int = USER, **fields: object) -> Process:
    process = Process(pid)
    stat.update(process, stat_line(pid, parent, **fields).encode())
    process.user = user
    return process


class Files:
    """Processes that can be opened; all are closed again. None of them is a sampler."""

    def is_sampler(self, process: Process) -> bool:
        return process.name == b'gput-sampler'

    def __init__(self, processes: Iterable[Process]) -> None:
        self.processes = {process.pid: process for process in processes}
        self.opened = 0

    def open(self, pid: int) -> Process | None:
        found = self.processes.get(pid)
        self.opened += found is not None
        return found

    def close(self, process: Process) -> None:
        self.opened -= 1


class Tracked:
    """A root in the group and the session of a shell, and a member that has a group and a session of its own."""

    def __init__(self, *, launcher: int | None = None, sampler_parent: int = SHELL, **root: object) -> None:
        self.root = process_of(ROOT, SHELL, **{'group': SHELL, 'session': SHELL, 'start': 100} | root)
        self.files = Files(
            [
                process_of(INIT, 0, group=INIT, session=INIT, start=1),
                process_of(SHELL, INIT, group=SHELL, session=SHELL, start=99),
                process_of(OLDER, INIT, group=OLDER, session=OLDER, start=99),
                process_of(NEWER, INIT, group=NEWER, session=NEWER, start=101),
                process_of(SAMPLER, sampler_parent, start=STARTED),
                self.root,
            ]
        )
        self.orphans = Orphans(self.root, launcher, SAMPLER, self.files)
        self.members = {
            ROOT: self.root,
            MEMBER: process_of(MEMBER, ROOT, group=MEMBER, session=MEMBER),
            OTHER: process_of(OTHER, ROOT, group=65, session=SHELL),  # the group's leader has ended
        }
        self.gone: list[Process] = []

    def finds(self, parent: int = INIT, **fields: object) -> bool:
        """Return whether an orphan belongs to the tree."""
        options: dict[str, object] = {'group': 7, 'session': 7, 'start': STARTED}
        found = self.orphans.member_for(process_of(ORPHAN, parent, **options | fields), self.members, self.gone)
        assert found == parent or found in self.members
        assert self.files.opened == 0
        return found != parent


def test_the_launcher_of_a_command_has_all_its_orphans() -> None:
    tracked = Tracked(launcher=LAUNCHER)
    assert tracked.orphans.may_adopt(LAUNCHER)
    assert tracked.finds(LAUNCHER)
    assert not tracked.finds(INIT, session=SHELL, image=ROOT_IMAGE)
    assert not tracked.orphans.suspects


@pytest.mark.parametrize(('parent', 'may_adopt'), [(INIT, True), (SHELL, True), (ROOT, False), (77, False)])
def test_init_and_the_parent_of_the_sampler_adopt_orphans(parent: int, may_adopt: bool) -> None:
    tracked = Tracked()
    assert tracked.orphans.may_adopt(parent) is may_adopt
    assert tracked.finds(parent, group=MEMBER) is may_adopt


def test_the_root_itself_may_adopt_the_sampler() -> None:
    tracked = Tracked(sampler_parent=ROOT)
    assert not tracked.orphans.may_adopt(ROOT)
    assert not tracked.orphans.may_adopt(SHELL)


@pytest.mark.parametrize(
    ('group', 'session', 'belongs'),
    [(MEMBER, 8, True), (7, MEMBER, True), (65, 8, True), (SHELL, 8, False), (8, 8, False)],
)
def test_an_orphan_is_known_by_a_group_or_a_session_that_a_member_has_made(
    group: int, session: int, belongs: bool
) -> None:
    assert Tracked().finds(group=group, session=session, start=1) is belongs


def test_a_group_stays_known_until_the_sample_after_its_leaders_end() -> None:
    tracked = Tracked()
    tracked.gone = [tracked.members.pop(MEMBER)]
    assert tracked.finds(group=MEMBER, start=1)
    tracked.gone = []
    assert not tracked.finds(group=MEMBER, start=1)


def test_a_copy_of_the_root_in_its_session_belongs_to_it() -> None:
    tracked = Tracked()
    assert tracked.finds(image=ROOT_IMAGE, session=SHELL)
    assert not tracked.orphans.suspects


def test_a_copy_in_another_session_may_be_another_run_without_random_addresses() -> None:
    tracked = Tracked()
    assert not tracked.finds(image=ROOT_IMAGE, session=7)
    assert tracked.orphans.suspects == [ORPHAN]


@pytest.mark.parametrize('fields', [{'start': STARTED - 1}, {'user': SOMEBODY}])
def test_an_older_process_and_another_users_is_a_stranger(fields: dict[str, int]) -> None:
    tracked = Tracked()
    assert not tracked.finds(image=ROOT_IMAGE, **fields)
    assert not tracked.finds(session=SHELL, **fields)
    assert not tracked.orphans.suspects


@pytest.mark.parametrize(
    ('fields', 'may_be'),
    [
        ({'group': 7, 'session': SHELL}, True),  # or another program's that the same shell has started
        ({'group': SHELL, 'session': SHELL}, True),
        ({'group': 7, 'session': 7}, True),  # a daemon whose parent made the session
        ({'group': NEWER, 'session': NEWER}, True),
        ({'group': INIT, 'session': INIT}, False),
        ({'group': OLDER, 'session': OLDER}, False),  # a program in another terminal
    ],
)
def test_an_orphan_whose_session_the_root_has_or_may_have_made_is_a_suspect(
    fields: dict[str, int], may_be: bool
) -> None:
    tracked = Tracked()
    assert not tracked.finds(**fields)
    assert tracked.orphans.suspects == [ORPHAN] * may_be


@pytest.mark.parametrize(('session', 'belongs'), [(SHELL, True), (7, False), (0, False)])
def test_an_orphan_in_the_roots_session_belongs_to_it_if_a_descendant_has_just_ended(
    session: int, belongs: bool
) -> None:
    tracked = Tracked()
    tracked.orphans.are_expected = True
    assert tracked.finds(session=session) is belongs
    assert tracked.orphans.suspects == [ORPHAN] * (not belongs)


def test_a_session_that_is_outside_the_pid_namespace_proves_nothing() -> None:
    tracked = Tracked(session=0)
    tracked.orphans.are_expected = True
    assert not tracked.finds(INIT, session=0)
    assert tracked.orphans.suspects == [ORPHAN]


@pytest.mark.parametrize(
    ('image', 'launcher', 'is_copy'),
    [
        (ROOT_IMAGE, None, False),
        ((1000 + SHELL, 2000 + SHELL, 3000 + SHELL), None, True),
        ((0, 0, 0), None, True),
        ((0, 0, 0), LAUNCHER, False),
    ],
)
def test_a_root_with_the_image_of_its_parent_is_a_copy_of_it(
    image: tuple[int, int, int], launcher: int | None, is_copy: bool
) -> None:
    tracked = Tracked(image=image, launcher=launcher)
    assert tracked.orphans.root_is_copy is is_copy
    if is_copy:  # so that others may be copies of the parent
        assert not tracked.finds(image=image, session=SHELL)


def test_a_root_without_a_parent_that_can_be_seen_is_no_copy() -> None:
    tracked = Tracked()
    root = process_of(ROOT, 0)
    assert not Orphans(root, None, SAMPLER, tracked.files).root_is_copy
