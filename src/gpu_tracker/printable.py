"""What of a text that others wrote may reach a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """Replace by ``?`` what is not to be printed: command lines are written by strangers.

    Control characters could command the terminal, and those of bidirectional text could turn a whole line around.
    """
    return ''.join(character if character.isprintable() else '?' for character in text)
