"""The gate: which tiers run, which failures get a second try, and what the working tree says about verified commits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.scripts import load_script

if TYPE_CHECKING:
    from types import ModuleType

pytest_plugins = ['pytester']

ROOT = Path(__file__).resolve().parents[3]

HOOKS = f"""
import sys
sys.path.insert(0, {str(ROOT / 'tests')!r})
from support.outcomes import *

def pytest_addoption(parser):
    parser.addoption('--no-skips', action='store_true')
"""
PROGRAM = """
from pathlib import Path

def test_passes():
    assert count('passes') == 1

def test_fails_once():
    print('what it prints')
    assert count('fails_once') > 1, 'first try'

def count(name):
    with open(name + '.tries', 'a+') as log:
        log.write('x')
        log.seek(0)
        return len(log.read())

def test_fails_always():
    raise ValueError('always')
"""
JUNIT = """<testsuites><testsuite>
<testcase classname="tests.unit.test_a" name="test_fails[1]"><failure message="assert 1 == 2&#10; +1">...</failure>
</testcase>
<testcase classname="tests.unit.test_a" name="test_passes" />
<testcase classname="tests.figures.test_b" name="test_ram">
<properties><property name="figures" value="true" /></properties>
<error message="ValueError: no">...</error></testcase>
</testsuite></testsuites>
"""
END = '</testsuite></testsuites>'


@pytest.fixture
def tiers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return scripts/tiers.py, in a project of its own."""
    module = load_script('tiers')
    monkeypatch.setattr(module, 'ROOT', tmp_path)
    monkeypatch.setattr(module, 'RESULTS', tmp_path / '.test-results')
    monkeypatch.setattr(module, 'VERIFIED', tmp_path / 'verified')
    return module


def test_failed_tests_are_retried_alone_and_named(tiers, tmp_path, capsys):
    (tmp_path / 'tests').mkdir()
    (tmp_path / 'tests' / 'conftest.py').write_text(HOOKS)
    (tmp_path / 'tests' / 'test_it.py').write_text(PROGRAM)
    stage = tiers.Stage(('tests',), workers=0)
    with pytest.raises(tiers.Failed, match='failed twice'):
        tiers.run_stage(stage, stage.folders, sys.executable, [], 'it')
    assert (tmp_path / 'passes.tries').read_text() == 'x'
    assert (tmp_path / 'fails_once.tries').read_text() == 'xx'
    printed = capsys.readouterr().out
    assert '\nE       AssertionError: first try' in printed
    assert '\nwhat it prints\n' in printed
    assert [line for line in printed.splitlines() if line.startswith('RETRIED')] == [
        'RETRIED tests/test_it.py::test_fails_once: passed alone: AssertionError: first try',
        'RETRIED tests/test_it.py::test_fails_always: FAILED again: ValueError: always',
    ]


def test_a_tier_passes_if_its_failed_test_passes_alone(tiers, tmp_path, monkeypatch, capsys):
    def pytest_ends(place: Path, name: str, words: list[str]) -> int:
        failed = JUNIT.partition('<testcase classname="tests.figures')[0] + END
        (place / f'{name}.xml').write_text(failed if name == 'first' else f'<testsuites><testsuite>{END}')
        return {'first': 1, 'second': 0}[name]

    monkeypatch.setattr(tiers, 'pytest', pytest_ends)
    tiers.run_stage(tiers.Stage(('tests',)), (), sys.executable, [], 'it')
    assert 'RETRIED tests/unit/test_a.py::test_fails[1]: passed alone: assert 1 == 2\n' in capsys.readouterr().out


def test_failures_are_read_from_the_junit_file(tiers, tmp_path):
    (tmp_path / 'first.xml').write_text(JUNIT)
    assert tiers.failures(tmp_path / 'first.xml') == {
        'tests/unit/test_a.py::test_fails[1]': ('assert 1 == 2', False),
        'tests/figures/test_b.py::test_ram': ('ValueError: no', True),
    }


def test_up_to_three_tests_are_retried_and_none_of_figures(tiers):
    waiting, truth = tiers.Stage(('tests',)), tiers.Stage(('tests',), has_second_try=False)
    failed = {f'test_{number}': ('assert 0', False) for number in range(3)}
    assert tiers.may_retry(waiting, failed)
    assert not tiers.may_retry(truth, failed)
    assert not tiers.may_retry(waiting, failed | {'test_3': ('assert 0', False)})
    assert not tiers.may_retry(waiting, {'test_ram': ('assert 0', True)})
    assert not tiers.may_retry(waiting, {})


@pytest.mark.parametrize(
    ('in_ci', 'reason', 'outcomes'),
    [
        ('false', 'needs atop', {'failed': 1}),
        ('true', 'needs atop', {'failed': 1}),
        ('false', 'needs root', {'skipped': 1}),
        ('true', 'needs root', {'failed': 1}),
        ('true', 'this machine has no IPv6', {'skipped': 1}),
    ],
)
def test_a_skip_fails_in_a_tier_that_was_asked_for(pytester, monkeypatch, in_ci, reason, outcomes):
    monkeypatch.setenv('CI', in_ci)
    pytester.makeconftest(HOOKS)
    pytester.makepyfile(f'import pytest\ndef test_it():\n    pytest.skip({reason!r})')
    pytester.runpytest_inprocess('--no-skips').assert_outcomes(**outcomes)
    pytester.runpytest_inprocess().assert_outcomes(skipped=1)


def test_a_second_try_that_did_not_run_is_no_success(tiers, tmp_path, monkeypatch, capsys):
    def pytest_ends(place: Path, name: str, words: list[str]) -> int:
        (place / f'{name}.xml').write_text(JUNIT.partition('<testcase classname="tests.figures')[0] + END)
        return {'first': 1, 'second': 2}[name]

    monkeypatch.setattr(tiers, 'pytest', pytest_ends)
    with pytest.raises(tiers.Failed, match='the second try ended with 2'):
        tiers.run_stage(tiers.Stage(('tests',)), (), sys.executable, [], 'it')
    assert 'passed alone' not in capsys.readouterr().out


def test_what_a_tier_tests_is_there(tiers):
    paths = [path for tier in tiers.TIERS.values() for stage in tier.stages for path in stage.folders]
    paths += [path for changed in tiers.TESTED_BY.values() for path in changed]
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_tiers_come_first_and_the_rest_is_for_pytest(tiers, monkeypatch):
    assert tiers.split_arguments([]) == (['core'], [])
    assert tiers.split_arguments(['-k', 'units']) == (['core'], ['-k', 'units'])
    assert tiers.split_arguments(['clients', 'core', '-x']) == (['clients', 'core'], ['-x'])
    assert tiers.split_arguments(['tests/unit/test_x.py']) == (['core'], ['tests/unit/test_x.py'])
    assert tiers.split_arguments(['tests/vm/test_x.py::test_y', '-x'])[0] == ['vm']
    monkeypatch.setattr(tiers, 'IS_X86', True)
    assert tiers.split_arguments(['all']) == (list(tiers.TIERS), [])
    monkeypatch.setattr(tiers, 'IS_X86', False)
    assert tiers.split_arguments(['all'])[0] == [tier for tier in tiers.TIERS if tier != 'vm']


def test_tiers_run_whose_files_have_changed_since_the_verified_commit(tiers, tmp_path):
    def git(*words: str) -> str:
        settings = ('-c', 'user.name=a', '-c', 'user.email=a@example.org')
        done = subprocess.run(['git', *settings, *words], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git('init', '-q')
    for name in ('deploy/a', 'docs/b', 'tests/vm/c'):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
        git('add', '.')
        git('commit', '-qm', name)
    assert tiers.changed_tiers() == ['wings', 'engines', 'vm', 'pythons']  # nothing was ever verified
    for revision, changed in (('HEAD', []), ('HEAD~1', ['vm']), ('HEAD~2', ['vm'])):
        (tmp_path / 'verified').write_text(git('rev-parse', revision) + '\n')
        assert tiers.changed_tiers() == changed
    (tmp_path / 'verified').write_text('0' * 40 + '\n')
    assert tiers.changed_tiers() == ['wings', 'engines', 'vm', 'pythons']
