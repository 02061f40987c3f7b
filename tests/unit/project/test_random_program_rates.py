"""Rates of wrong figures in random programs."""

from __future__ import annotations

import pytest

from support.random_programs.outcomes import Outcome
from support.random_programs.rates import ANY, CHANCE, above, most_violations, table


def outcomes(interval: float, *violated: bool) -> list[Outcome]:
    """Return the outcomes of programs of which two properties were checked; one is violated by some."""
    return [
        Outcome(seed, interval, {'main CPU': 'main CPU: 2' if is_wrong else None, 'main RAM': None}, None)
        for seed, is_wrong in enumerate(violated)
    ]


def test_the_table_has_a_row_for_each_property_and_a_column_for_each_interval() -> None:
    assert table([*outcomes(0.05, True, False, False, False), *outcomes(1.0, True, True)]) == (
        'property              0.05 s              1 s             all\n'
        'main CPU      1 / 4 = 25.00%  2 / 2 = 100.00%  3 / 6 = 50.00%\n'
        'main RAM       0 / 4 = 0.00%    0 / 2 = 0.00%   0 / 6 = 0.00%\n'
        'any property  1 / 4 = 25.00%  2 / 2 = 100.00%  3 / 6 = 50.00%'
    )


def test_a_property_that_no_program_of_an_interval_has_is_a_dash_there() -> None:
    only = Outcome(1, 0.05, {'main threads': None}, None)
    *_, row, _ = table([only, *outcomes(1.0, False)]).splitlines()
    assert row == 'main threads  0 / 1 = 0.00%              -  0 / 1 = 0.00%'


def test_violations_of_an_outcome_name_its_seed_and_interval() -> None:
    (found,) = outcomes(0.2, True)
    assert found.violations == {'main CPU': 'main CPU: 2'}
    assert str(found) == 'seed 0, interval 0.2 s: main CPU: 2'


@pytest.mark.parametrize(('programs', 'rate', 'most'), [(500, 0.001, 4), (60, 0.001, 2), (1, 0.5, 1), (100, 0.0, 0)])
def test_more_violations_than_chance_explains(programs: int, rate: float, most: int) -> None:
    assert CHANCE == 0.001
    assert most_violations(programs, rate) == most


def test_only_properties_above_their_documented_rate_are_reported() -> None:
    found = outcomes(0.05, *[True] * 5, *[False] * 495)
    assert above(found, {'main CPU': 0.01, ANY: 0.01}, 0.001) == []
    assert above(found, {ANY: 0.01}, 0.001) == ['main CPU: 5 / 500 = 1.00%, documented 0.10%: up to 4 by chance']
