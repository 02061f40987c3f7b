"""The table of what reading DRM clients costs, made from given figures."""

from __future__ import annotations

from benchmarks.drm import PART, ROWS, drm_table
from benchmarks.peers import OURS
from benchmarks.results import Gap, Results


def test_a_row_is_the_median_of_its_rounds_in_microseconds() -> None:
    results = Results()
    for number, seconds in enumerate([2.5e-06, 3.5e-06, 2.75e-06]):
        results.add(PART, ROWS['none'], OURS.name, number, {'cpu': seconds})
    results.gaps.append(Gap(PART, ROWS['idle'], OURS.name, 'there is no GPU'))
    table = drm_table(results)
    assert table.rows == [['no descriptor of a GPU', '2.75', '3']]
    assert table.notes == ['a client each, which does nothing: there is no GPU']


def test_what_was_not_measured_has_no_rows() -> None:
    assert drm_table(Results()).rows == []
