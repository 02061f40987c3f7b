"""Figures beside a truth that is not ours: these tests get no second try."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker('figures')
