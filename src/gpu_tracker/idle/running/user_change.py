"""The variables of a program that is another user's than the monitor."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pwd import struct_passwd

_DROPPED = {
    'XDG_RUNTIME_DIR': 'a folder that only its user can enter',
    'XDG_CACHE_HOME': 'folders in a home; the new HOME tells where they are',
    'XDG_CONFIG_HOME': 'as above',
    'XDG_DATA_HOME': 'as above',
    'XDG_STATE_HOME': 'as above',
    'DBUS_SESSION_BUS_ADDRESS': "a session of the monitor's user",
    'SSH_AGENT_PID': "keys of the monitor's user",
    'SSH_AUTH_SOCK': 'as above',
    'KRB5CCNAME': "tickets of the monitor's user",
    'XAUTHORITY': "a file that opens the screen of the monitor's user",
    'MAIL': "a mailbox of the monitor's user",
    'PWD': 'the program starts in a folder of its own',
    'OLDPWD': 'as above',
}
"""Variables that belong to a user or a login, and why another user's program has nothing of them."""
_DROPPED_BEGINNING = 'SUDO_'
"""Who has started the monitor is no matter of its programs."""


def variables_for(user: struct_passwd, environment: Mapping[str, str], configured: Iterable[str]) -> dict[str, str]:
    """Return the variables of a program of ``user``.

    :param environment: Those that it would have without a change of user.
    :param configured: The names of those that the configuration gives: they stay as they are.
    """
    fixed = set(configured)
    kept = {name: value for name, value in environment.items() if name in fixed or not _is_dropped(name)}
    own = {'HOME': user.pw_dir, 'SHELL': user.pw_shell, 'USER': user.pw_name, 'LOGNAME': user.pw_name}
    return kept | {name: value for name, value in own.items() if name not in fixed}


def _is_dropped(name: str) -> bool:
    return name in _DROPPED or name.startswith(_DROPPED_BEGINNING)
