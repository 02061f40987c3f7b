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


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note in the junit file that a test compares figures: scripts/tiers.py gives it no second try."""
    if item.get_closest_marker('figures'):
        item.user_properties.append(('figures', 'true'))


class FailurePrinter:
    """Prints failures when they happen.

    :param terminal: That of the process that prints.
    """

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._print(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._print(report)

    def _print(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed:
            self._terminal.write_line('')
            self._terminal.write_sep('_', report.nodeid, red=True)
            report.toterminal(self._terminal._tw)
            for title, text in report.sections:
                self._terminal.write_sep('-', title)
                self._terminal.write_line(text.rstrip('\n'))


@pytest.hookimpl(trylast=True)  # after the terminal's own
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.get_plugin('terminalreporter')
    if terminal is not None:  # a worker of pytest-xdist has none
        config.pluginmanager.register(FailurePrinter(terminal))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Don't print the failures again at the end."""
    session.config.option.tbstyle = 'no'
