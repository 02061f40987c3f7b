"""The names of users."""

from __future__ import annotations


def user_name(user_id: int) -> str:
    """Return the name of a user, or the number as text where the system knows no name."""
    try:
        import pwd  # noqa: PLC0415 - on POSIX only
    except ImportError:
        return str(user_id)
    try:
        return pwd.getpwuid(user_id).pw_name
    except (KeyError, OverflowError):
        return str(user_id)
