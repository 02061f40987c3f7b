"""The file of a site."""

from __future__ import annotations

import re
import tomllib
from dataclasses import asdict
from pathlib import Path

import pytest

from gpu_tracker.advice.facts import Facts
from gpu_tracker.advice.rules import RULES as ALL_RULES
from gpu_tracker.advice.rules import advise
from gpu_tracker.advice.site import VARIABLE, Site, read_site
from gpu_tracker.advice.thresholds import Thresholds

RULES = ('time_limit', 'swapped')
ROOT = Path(__file__).parents[3]
PAGE = (ROOT / 'docs' / 'reading.rst').read_text()
DEFAULTS = ROOT / 'deploy' / 'advice.toml'
NEAR = Facts(seconds=850, time_limit_seconds=1000, exit_code=0)


def site_of(folder: Path, text: str) -> Site:
    (folder / 'advice.toml').write_text(text)
    return read_site(RULES, str(folder / 'advice.toml'))


def test_the_documentation_has_all_rules_and_a_file_all_default_thresholds() -> None:
    assert tomllib.loads(DEFAULTS.read_text())['thresholds'] == asdict(Thresholds())
    assert read_site(RULES, str(DEFAULTS)) == Site()
    names = [rule.__name__ for rule in ALL_RULES]
    assert re.findall(r'^``(\w+_\w+|swapped)``$', PAGE, re.MULTILINE) == names


def test_it_changes_a_threshold_and_adds_a_sentence(tmp_path: Path) -> None:
    site = site_of(
        tmp_path, '[thresholds]\ntime_scarce_share = 0.8\n[sentences]\ntime_limit = "Ask hpc@example.org for more."\n'
    )
    assert advise(NEAR, Site()) == ()
    (found,) = advise(NEAR, site)
    assert found.text == 'The run took 14 min of its limit of 17 min. Ask hpc@example.org for more.'


def test_a_sentence_follows_the_options_of_the_batch_system() -> None:
    facts = Facts(seconds=950, time_limit_seconds=1000, exit_code=0, batch='slurm')
    (found,) = advise(facts, Site(sentences={'time_limit': 'See the wiki.'}))
    assert found.text == 'The run took 16 min of its limit of 17 min. Next time: --time=00:30:00. See the wiki.'


def test_only_the_usual_file_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = str(tmp_path / 'none')
    monkeypatch.setattr('gpu_tracker.advice.site.SITE_FILE', missing)
    assert read_site(RULES) == Site()
    monkeypatch.setenv(VARIABLE, missing)
    assert read_site(RULES).problem == f'{missing} is not used: No such file or directory.'


@pytest.mark.parametrize(
    ('text', 'reason'),
    [
        ('[threshold]\nx = 1', 'only the tables [thresholds] and [sentences] are accepted, not threshold'),
        ('thresholds = 3', 'only the tables [thresholds] and [sentences] are accepted, not thresholds'),
        ('[thresholds]\nx = 1', "the table [thresholds] must not have the key 'x'"),
        ('[sentences]\nx = "y"', "the table [sentences] must not have the key 'x'"),
        ('[thresholds]\nswap_share = "y"', "swap_share cannot be 'y'"),
        ('[thresholds]\nswap_share = true', 'swap_share cannot be True'),
        ('[thresholds]\nswap_share = 0', 'swap_share cannot be 0'),
        ('[thresholds]\nswap_share = nan', 'swap_share cannot be nan'),
        ('[sentences]\nswapped = 3', 'swapped cannot be 3'),
    ],
)
def test_a_wrong_file_is_named_and_not_used(tmp_path: Path, text: str, reason: str) -> None:
    problem = f'{tmp_path}/advice.toml is not used: {reason}.'
    assert site_of(tmp_path, text) == Site(problem=problem)
    assert [(one.rule, one.text) for one in advise(NEAR, Site(problem=problem))] == [('site_file', problem)]


def test_what_is_no_toml_and_what_cannot_be_read(tmp_path: Path) -> None:
    assert '/advice.toml is not used: Invalid' in (site_of(tmp_path, '[').problem or '')
    assert read_site(RULES, str(tmp_path)).problem == f'{tmp_path} is not used: Is a directory.'


def test_a_variable_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / 'own.toml').write_text('[thresholds]\ntime_scarce_share = 0.8')
    monkeypatch.setenv(VARIABLE, str(tmp_path / 'own.toml'))
    assert [one.rule for one in advise(NEAR)] == ['time_limit']
