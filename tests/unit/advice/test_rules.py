"""The rules on thirty runs, each with what a good colleague would say about it."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpu_tracker.advice.facts import Facts, GPUFacts, RankFacts, RegionFacts
from gpu_tracker.advice.rules import RULES, advise, ram_grows
from gpu_tracker.advice.site import Site
from gpu_tracker.advice.thresholds import Thresholds

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


def growth_of(*megabytes: float) -> float | None:
    sizes = tuple(size * 1e6 for size in megabytes)
    advice = ram_grows(Facts(seconds=600, ram_peak_bytes=max(sizes), ram_per_minute_bytes=sizes), Thresholds())
    return None if advice is None else advice.figures['bytes_per_minute']


def rules_of(name: str, **changes: Any) -> dict[str, str]:
    (facts,) = (facts_from(one.facts) for one in SITUATIONS if one.name == name)
    return {one.rule: one.text for one in advise(replace(facts, **changes), Site())}


def test_files_in_memory_may_need_more_than_the_peak_of_the_processes() -> None:
    name = 'slurm_memory_and_cores_far_below'
    assert 'request_memory' in rules_of(name, shmem_growth_bytes=80_000_000)
    assert list(rules_of(name, shmem_growth_bytes=100_000_000)) == ['cores_unused']


def test_a_gpu_of_several_is_named() -> None:
    text = rules_of('slurm_gpu_idle_during_load', machine_gpus=8)['gpu_idle']
    assert text == 'GPU 0 was idle 37 % of the time, during load. load used 1.0 of 8 cores.'


def test_no_region_is_named_if_several_gpus_were_used() -> None:
    (facts,) = (facts_from(one.facts) for one in SITUATIONS if one.name == 'slurm_gpu_idle_during_load')
    gpus = (facts.gpus[0], replace(facts.gpus[0], index=1))
    assert rules_of('slurm_gpu_idle_during_load', gpus=gpus)['gpu_idle'] == 'GPU 0 was idle 37 % of the time.'


def test_a_growth_is_found_in_spite_of_noise() -> None:
    noise = (0, 3, -2, 4, 1, -3, 2, 0, -1, 3)
    found = growth_of(*(300 + 20 * minute + noise[minute % 10] for minute in range(20)))
    assert found == pytest.approx(20e6, rel=0.03)


def test_a_growth_of_many_calls_is_found_in_some_of_them() -> None:
    assert growth_of(*(100 + 0.5 * call for call in range(1000))) == pytest.approx(0.5e6)


@pytest.mark.parametrize(
    'sizes',
    [
        (100,) * 20,
        (*(100,) * 15, *(900,) * 5),
        (*(100,) * 14, *(500,) * 3, *(900,) * 3),
        tuple(100 * (call % 5) + 100 for call in range(20)),
        tuple(300 + 60 * (call % 2) for call in range(20)),
        (*range(100, 1100, 100), *(1100,) * 10),
        (100, 200, 300, 400, 500),
        tuple(1000 + call for call in range(40)),
    ],
    ids=['level', 'one step', 'two steps', 'sawtooth', 'up and down', 'warm-up', 'too few', 'too little'],
)
def test_no_growth(sizes: tuple[float, ...]) -> None:
    assert growth_of(*sizes) is None
