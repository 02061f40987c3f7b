"""The rules on thirty runs, each with what a good colleague would say about it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpu_tracker.advice.facts import Facts, GPUFacts, RankFacts, RegionFacts
from gpu_tracker.advice.rules import RULES, advise
from gpu_tracker.advice.site import Site

if TYPE_CHECKING:
    from collections.abc import Mapping

_SPEC = importlib.util.spec_from_file_location('advice_situations', Path(__file__).with_name('situations.py'))
assert _SPEC is not None
assert _SPEC.loader is not None
_MODULE = importlib.util.module_from_spec(_SPEC)
sys.modules['advice_situations'] = _MODULE
_SPEC.loader.exec_module(_MODULE)
SITUATIONS = _MODULE.SITUATIONS


def facts_from(given: Mapping[str, Any]) -> Facts:
    parts = {'gpus': GPUFacts, 'regions': RegionFacts, 'ranks': RankFacts}
    found = {name: value for name, value in given.items() if name != 'command'}
    return Facts(
        **{
            name: tuple(parts[name](**one) for one in value) if name in parts else value
            for name, value in found.items()
        }
    )


@pytest.mark.parametrize('situation', SITUATIONS, ids=lambda situation: situation.name)
def test_advice_is_that_of_a_good_colleague(situation: Any) -> None:
    found = advise(facts_from(situation.facts), Site())
    assert tuple((advice.rule, advice.text) for advice in found) == situation.advice


@pytest.mark.parametrize('situation', SITUATIONS, ids=lambda situation: situation.name)
def test_nothing_is_said_if_nothing_is_known(situation: Any) -> None:
    assert advise(Facts(seconds=situation.facts['seconds']), Site()) == ()


def test_each_rule_has_the_name_of_its_function() -> None:
    said = {rule for situation in SITUATIONS for rule, _ in situation.advice}
    assert said == {rule.__name__ for rule in RULES}


def test_each_line_has_its_figures() -> None:
    for situation in SITUATIONS:
        for advice in advise(facts_from(situation.facts), Site()):
            assert advice.figures, advice
