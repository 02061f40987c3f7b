from __future__ import annotations

from gpu_tracker.resources import FIRST, LAST, MIDDLE, larger
from gpu_tracker.resources.ram import Ram
from gpu_tracker.resources.ram.reading import RamMaxima, RamReading, Resident


def ram(main: Resident, descendants: Resident, combined: Resident, upper=(None, None, None)):
    return RamReading(main, descendants, combined, upper)


def folded(*readings: RamReading):
    maxima = RamMaxima()
    for reading in readings:
        maxima.add(reading)
    return maxima.totals()


def test_maxima_are_kept_for_each_field_by_itself():
    totals = folded(
        ram(Resident(10, 7, 3), Resident(0, 0, 0), Resident(10, 7, 3)),
        ram(Resident(12), Resident(5), Resident(16)),
        ram(Resident(8, 2, 6), Resident(4, 4, 0), Resident(11, 6, 5)),
    )
    assert totals == {
        'main': [12, 7, 6],
        'descendants': [5, 4, 0],
        'combined': [16, 7, 5],
        'lower': {'main': [12, None, None], 'descendants': [5, None, None], 'combined': [16, None, None]},
        'upper': {'main': None, 'descendants': None, 'combined': None},
        'beside_descendants': 16,
    }


def test_a_peak_between_two_samples_counts_and_the_bounds_are_kept():
    main = Resident(10)
    main.peak = 500
    totals = folded(
        ram(main, Resident(0), Resident(10), (500, 0, 500)), ram(Resident(9), Resident(0), Resident(9), (500, 0, 500))
    )
    assert totals['main'] == [500, None, None]
    assert totals['upper'] == {'main': 500, 'descendants': 0, 'combined': 500}


def test_what_was_never_known_stays_unknown():
    totals = folded(ram(Resident(None), Resident(None), Resident(None)))
    assert totals['main'] == [None, None, None]


class Reader:
    """Returns what a test has prepared, and takes note of the samples that it was read for."""

    def __init__(self, *readings: RamReading) -> None:
        self.readings = list(readings)
        self.kinds: list[str] = []
        self.unreadable = False
        self.estimates: tuple[Resident, ...] = ()

    def read(self, now: float, kind: str) -> RamReading:
        self.kinds.append(kind)
        return self.readings.pop(0)

    def estimate(self) -> tuple[Resident, ...]:
        return self.estimates


class Machine:
    ram_capacity = 1000

    def __init__(self, *used: int | None) -> None:
        self.used = list(used)

    def ram(self) -> int | None:
        return self.used.pop(0)


def test_the_most_that_was_in_use_on_the_machine_counts_and_the_row_is_that_of_the_last_sample():
    reader = Reader(
        ram(Resident(10, 7, 3), Resident(0, 0, 0), Resident(10, 7, 3)), ram(Resident(12), Resident(5), Resident(16))
    )
    resource = Ram(reader, Machine(100, 90))
    assert list(resource.row()) == [None] * 10
    resource.begin(0.0)
    resource.sample(0.5, FIRST)
    assert list(resource.row()) == [10, 7, 3, 0, 0, 0, 10, 7, 3, 100]
    resource.sample(1.5, LAST)
    assert list(resource.row()) == [12, None, None, 5, None, None, 16, None, None, 90]
    assert len(resource.columns) == 10
    totals = resource.totals()
    assert (totals['system'], totals['capacity'], totals['main']) == (100, 1000, [12, 7, 3])
    assert reader.kinds == [FIRST, LAST]  # the first one before the run is timed


def test_memory_of_the_machine_that_was_never_known_is_unknown():
    reading = ram(Resident(None), Resident(None), Resident(None))
    resource = Ram(Reader(reading), Machine(None))
    resource.sample(0.0, MIDDLE)
    assert resource.totals()['system'] is None


def test_a_process_that_may_not_be_read_is_a_warning_once():
    reader = Reader()
    resource = Ram(reader, Machine())
    assert resource.take_messages() == []
    reader.unreadable = True
    ((level, text),) = resource.take_messages()
    assert level == 'warning'
    assert text.startswith('Some of the tracked processes belong to another user')
    assert resource.take_messages() == []
    assert resource.record() == {
        'unreadable': True,
        'doubled': 0,
        'may_miss_orphans': False,
        'most_waited_for': None,
    }


def test_a_group_that_never_had_a_process_is_unknown_until_the_end():
    totals = folded(ram(Resident(5), Resident(0, 0, 0), Resident(5)))
    assert totals['descendants'] == totals['lower']['descendants'] == [None, None, None]
    assert totals['beside_descendants'] is None


def counted(main: Resident, descendants: Resident, combined: Resident, given_back: int = 0):
    reading = ram(main, descendants, combined)
    reading.is_exact = True
    reading.given_back = given_back
    return reading


def estimated(size: int) -> Resident:
    """Return a size of which nothing is certain."""
    resident = Resident(size)
    resident.lower = None
    return resident


def test_an_estimate_stands_until_pages_are_counted():
    totals = folded(
        counted(Resident(5, 5, 0), Resident(10, 8, 2), Resident(15, 13, 2)),
        ram(Resident(5), estimated(40), estimated(45)),
    )
    assert totals['descendants'] == [40, 8, 2]
    assert totals['combined'] == [45, 13, 2]
    assert totals['lower']['descendants'] == [10, 8, 2]


def test_an_estimate_that_the_next_counting_does_not_explain_is_cut():
    totals = folded(
        counted(Resident(5, 5, 0), Resident(10, 8, 2), Resident(15, 13, 2)),
        ram(Resident(5), estimated(40), estimated(45)),
        counted(Resident(5, 5, 0), Resident(12, 9, 3), Resident(17, 14, 3)),
    )
    assert totals['descendants'] == [12, 9, 3]
    assert totals['combined'] == [17, 14, 3]


def test_an_estimate_stands_as_far_as_what_was_given_back_explains_it():
    totals = folded(
        ram(Resident(5), estimated(40), estimated(45)),
        counted(Resident(5, 5, 0), Resident(12, 9, 3), Resident(17, 14, 3), given_back=20),
    )
    assert totals['descendants'] == [32, 9, 3]
    assert totals['combined'] == [37, 14, 3]
    assert totals['lower']['descendants'] == [12, 9, 3]


def test_what_was_counted_once_is_never_taken_back():
    totals = folded(
        counted(Resident(5, 5, 0), Resident(30, 28, 2), Resident(35, 33, 2)),
        ram(Resident(5), estimated(40), estimated(45)),
        counted(Resident(5, 5, 0), Resident(12, 9, 3), Resident(17, 14, 3)),
    )
    assert totals['descendants'] == [30, 28, 3]
    assert totals['combined'] == [35, 33, 3]


def test_only_what_is_certain_of_a_peak_is_a_lower_bound():
    descendants = Resident(10, 8, 2)
    descendants.peak, descendants.lower = 60, 50
    totals = folded(ram(Resident(5), descendants, Resident(15)))
    assert totals['descendants'] == [60, 8, 2]
    assert totals['lower']['descendants'] == [50, None, None]


def test_what_was_there_at_once_with_the_most_of_the_descendants_is_remembered():
    combined = Resident(20)
    combined.peak = 26
    readings = [
        ram(Resident(15), Resident(5), Resident(20)),
        ram(Resident(10), Resident(9), combined),
        ram(Resident(90), Resident(8), Resident(98)),
    ]
    assert [folded(*readings[:count])['beside_descendants'] for count in (1, 2, 3)] == [20, 26, 26]


def test_the_same_reading_is_taken_in_once():
    reading = ram(Resident(5), Resident(3), Resident(8), (5, 3, 8))
    assert folded(reading, reading) == folded(reading)


def test_a_moment_without_processes_does_not_hide_that_the_split_of_others_is_unknown():
    descendants = (Resident(0, 0, 0), Resident(7), Resident(0, 0, 0))
    totals = folded(*(ram(Resident(5, 4, 1), resident, Resident(12)) for resident in descendants))
    assert totals['descendants'] == [7, None, None]


def test_the_larger_of_two_values_of_which_one_is_unknown_is_the_other():
    assert larger(None, 3) == 3
    assert larger(3, None) == 3
    assert larger(None, None) is None
    assert larger(2, 3) == 3


def test_a_row_has_an_estimate_of_what_a_sample_has_left_open():
    reader = Reader(ram(Resident(12, 8, 4), Resident(None), Resident(None)))
    reader.estimates = (Resident(13, 9, 4), Resident(5, 5, 0), Resident(17, None, None))
    resource = Ram(reader, Machine(90))
    resource.sample(0.0, MIDDLE)
    assert list(resource.row()) == [12, 8, 4, 5, 5, 0, 17, None, None, 90]
