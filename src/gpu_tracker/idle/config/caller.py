"""Who runs the monitor, and where: what the meaning of a configuration file depends on besides its text."""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.users import user_name

if TYPE_CHECKING:
    from collections.abc import Callable


class Caller(NamedTuple):
    """A user who runs the monitor."""

    user: str
    """The name; the number as text where there is none."""
    is_root: bool
    """Whether programs may be run as other users."""
    folder: str | None
    """The working folder; None where it is gone."""
    home_of: Callable[[str], str | None]
    """Returns the home folder of a user; None where there is no such user."""


def this_caller() -> Caller:
    """Return the user of this process."""
    user_id = os.geteuid()
    user = user_name(user_id)
    return Caller(user, user_id == 0, _working_folder(), lambda name: _home(name, user))


def _working_folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None  # deleted, or not to be read


def _home(name: str, own: str) -> str | None:
    if name == own:
        return os.path.expanduser('~')  # HOME goes first, as in a shell
    try:
        return pwd.getpwnam(name).pw_dir
    except (KeyError, ValueError):
        return None  # no such user; ValueError: its name has characters that this locale cannot encode
