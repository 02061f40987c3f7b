from __future__ import annotations

from gpu_tracker.atopgpud.server import Clients

ROOT = 0
SOMEBODY = 1000
ANOTHER = 1001
TURNED_AWAY = 'disconnected a client: too many clients are connected'


class Connection:
    """A client of a user, who has asked or not."""

    def __init__(self, user, *, has_asked=False) -> None:
        self.user = user
        self.has_asked = has_asked
        self.stalled_since = None
        self.is_dropped = False

    def drop(self) -> None:
        self.is_dropped = True


class Scene:
    """Places for so many clients."""

    def __init__(self, most) -> None:
        self.complaints = []
        self.notes = []
        self.clients = Clients(None, self.complaints.append, self.notes.append, most)

    def come(self, *users, has_asked=False):
        """Let a client of each of these users come, and return them."""
        connections = [Connection(user, has_asked=has_asked) for user in users]
        for connection in connections:
            self.clients.opened(connection)
        return connections


def dropped(connections):
    """Return of each whether it had to go."""
    return [connection.is_dropped for connection in connections]


def test_a_user_has_three_quarters_of_the_places_and_others_have_the_rest():
    scene = Scene(8)
    crowd = scene.come(*[SOMEBODY] * 8, has_asked=True)
    assert dropped(crowd) == [False] * 6 + [True] * 2
    assert len(scene.clients) == 6
    assert dropped(scene.come(ROOT, ANOTHER)) == [False, False]
    assert scene.complaints == [TURNED_AWAY] * 2


def test_root_may_have_all_places():
    scene = Scene(4)
    assert dropped(scene.come(*[ROOT] * 5, has_asked=True)) == [False] * 4 + [True]
    assert scene.complaints == [TURNED_AWAY]


def test_clients_whose_user_is_not_told_may_have_all_places():
    scene = Scene(4)
    assert dropped(scene.come(*[None] * 5, has_asked=True)) == [False] * 4 + [True]


def test_where_a_user_has_too_many_the_oldest_of_this_user_goes_that_has_never_asked():
    scene = Scene(4)
    others = scene.come(ROOT)
    (asked,) = scene.come(SOMEBODY, has_asked=True)
    silent = scene.come(SOMEBODY, SOMEBODY)
    (late,) = scene.come(SOMEBODY)
    assert dropped([*others, asked, *silent, late]) == [False, False, True, False, False]
    assert len(scene.clients) == 4


def test_a_user_with_too_many_takes_nobody_elses_place_where_all_are_taken():
    scene = Scene(4)
    others = scene.come(ANOTHER)
    mine = scene.come(*[SOMEBODY] * 3, has_asked=True)
    (late,) = scene.come(SOMEBODY)
    assert dropped([*others, *mine, late]) == [False, False, False, False, True]


def test_where_all_places_are_taken_the_oldest_client_goes_that_has_never_asked_whosever_it_is():
    scene = Scene(4)
    mine = scene.come(SOMEBODY, SOMEBODY)
    others = scene.come(ANOTHER, ANOTHER)
    (late,) = scene.come(ROOT)
    assert dropped([*mine, *others, late]) == [True, False, False, False, False]


def test_a_client_that_has_gone_counts_no_more_and_one_that_had_to_go_counts_once():
    scene = Scene(4)
    mine = scene.come(*[SOMEBODY] * 4, has_asked=True)
    assert dropped(mine) == [False, False, False, True]
    scene.clients.closed(mine[3])  # asyncio tells it once more
    assert len(scene.clients) == 3
    assert scene.come(SOMEBODY, has_asked=True)[0].is_dropped
    scene.clients.closed(mine[0])
    assert not scene.come(SOMEBODY, has_asked=True)[0].is_dropped
    assert scene.come(SOMEBODY, has_asked=True)[0].is_dropped


def test_nothing_is_kept_of_users_whose_clients_have_gone():
    scene = Scene(4)
    for user in range(1000, 1100):
        (connection,) = scene.come(user)
        scene.clients.closed(connection)
    assert len(scene.clients) == 0
    assert not scene.clients._by_user
    assert scene.complaints == []


def test_where_there_is_one_place_any_user_may_have_it():
    scene = Scene(1)
    assert dropped(scene.come(SOMEBODY, has_asked=True)) == [False]
    assert dropped(scene.come(ANOTHER)) == [True]
