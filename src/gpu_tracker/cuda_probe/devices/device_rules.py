"""What ``devices.list`` of a control group of version 1 says: kernel documentation, cgroup-v1/devices. Pure."""

from __future__ import annotations

from typing import NamedTuple

ALL_RIGHTS = 'rwm'


class Rule(NamedTuple):
    """Device files that a group may open; None: all of them."""

    kind: str
    """``c`` character, ``b`` block, ``a`` all."""
    major: int | None
    minor: int | None
    rights: str
    """Of ``r`` read, ``w`` write and ``m`` make."""

    def covers(self, major: int, minor: int | None, rights: str) -> bool:
        """Tell whether character devices are among them; ``minor`` None: all those of ``major``."""
        is_it = self.kind in 'ac' and self.major in {None, major} and self.minor in {None, minor}
        return is_it and set(rights) <= set(self.rights)


def parse(text: str) -> list[Rule]:
    """Return the rules of the file's text."""
    rules = []
    for line in text.splitlines():
        kind, numbers, rights = line.split(' ')
        major, _, minor = numbers.partition(':')
        rules.append(Rule(kind, _number(major), _number(minor), rights))
    return rules


def allows_all(rules: list[Rule]) -> bool:
    """Tell whether a group may open everything, but for exceptions: the kernel does not show those of such a group."""
    return any(rule.kind == 'a' for rule in rules)


def allows(rules: list[Rule], major: int, minor: int | None = None, rights: str = ALL_RIGHTS) -> bool:
    """Tell whether a group may open character devices, as far as the rules show it."""
    return any(rule.covers(major, minor, rights) for rule in rules)


def missing_rights(rules: list[Rule], major: int) -> str:
    """Return the rights that a rule of exactly all devices of ``major`` would add, and so what its undoing removes."""
    same = (rule for rule in rules if (rule.kind, rule.major, rule.minor) == ('c', major, None))
    there = {right for rule in same for right in rule.rights}
    return ''.join(right for right in ALL_RIGHTS if right not in there)


def _number(text: str) -> int | None:
    return None if text == '*' else int(text)
