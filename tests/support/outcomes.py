"""Hooks of pytest: with --no-skips skips are failures, and failures are printed when they happen."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _refuse_skip(item.config, (yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _refuse_skip(collector.config, (yield))


def _refuse_skip(config: pytest.Config, report: pytest.TestReport | pytest.CollectReport):
    """Fail a skipped report if its tier was asked for.

    Ordinary users may lack root, CI may not. "this machine ..." is a reason that no package or right changes.
    """
    if report.skipped and config.getoption('--no-skips') and not hasattr(report, 'wasxfail'):
        reason = report.longrepr[2].removeprefix('Skipped: ')
        may_skip = reason.startswith('needs root') and os.environ.get('CI') != 'true'
        if not may_skip and not reason.startswith('this machine '):
            report.outcome = 'failed'
            report.longrepr = f'{report.nodeid} was skipped: {reason}'
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print a failure when it happens."""
    if report.failed and _terminal is not None:
        _terminal.write_line('')
        _terminal.write_sep('_', report.nodeid, red=True)
        report.toterminal(_terminal._tw)


_terminal: pytest.TerminalReporter | None = None
"""The terminal of this process; None in the workers of pytest-xdist."""


@pytest.hookimpl(trylast=True)  # after the terminal's own
def pytest_configure(config: pytest.Config) -> None:
    global _terminal  # noqa: PLW0603 - the hook above gets no configuration
    _terminal = config.pluginmanager.get_plugin('terminalreporter')


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Don't print the failures again at the end."""
    session.config.option.tbstyle = 'no'
