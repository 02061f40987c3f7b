"""Sizes, times and units as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.units import memory_unit, parse_size, parse_time, time_unit


@pytest.mark.parametrize(
    ('text', 'unit'),
    [
        ('bytes', 'bytes'),
        ('B', 'bytes'),
        ('kB', 'kilobytes'),
        ('MB', 'megabytes'),
        ('mb', 'megabytes'),
        ('Megabytes', 'megabytes'),
        ('GB', 'gigabytes'),
        ('TB', 'terabytes'),
        ('KiB', 'kibibytes'),
        ('mib', 'mebibytes'),
        ('GiB', 'gibibytes'),
        ('G', 'gibibytes'),
        ('TiB', 'tebibytes'),
        ('tebibytes', 'tebibytes'),
        ('pages', None),
        ('Gi', None),
        ('gb', 'gigabytes'),
        ('Gb', None),
        ('Mib', None),
        ('s', None),
        ('', None),
        ('auto', None),
    ],
)
def test_units_of_memory(text: str, unit: str | None) -> None:
    assert memory_unit(text) == unit


@pytest.mark.parametrize(
    ('text', 'unit'),
    [
        ('seconds', 'seconds'),
        ('s', 'seconds'),
        ('sec', 'seconds'),
        ('min', 'minutes'),
        ('m', 'minutes'),
        ('Minutes', 'minutes'),
        ('h', 'hours'),
        ('HOUR', 'hours'),
        ('d', 'days'),
        ('ms', None),
        ('weeks', None),
        ('', None),
    ],
)
def test_units_of_time(text: str, unit: str | None) -> None:
    assert time_unit(text) == unit


@pytest.mark.parametrize(
    ('text', 'size'),
    [
        ('10GB', 10_000_000_000),
        ('2gb', 2_000_000_000),
        ('100 MB', 100_000_000),
        ('1.5 gb', 1_500_000_000),
        ('2kB', 2000),
        ('.5TB', 500_000_000_000),
        ('7B', 7),
        ('1K', 1024),
        ('512M', 536_870_912),
        ('2G', 2_147_483_648),
        ('2g', 2_147_483_648),
        ('1T', 1_099_511_627_776),
        ('2KiB', 2048),
        ('512 MiB', 536_870_912),
        ('8GiB', 8_589_934_592),
        ('1.5GiB', 1_610_612_736),
        ('1TiB', 1_099_511_627_776),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    'text',
    [
        '10', '', ' ', 'GB', '10GBs', '1e3MB', '1.2.3MB', '-1MB', '+1MB', '٣MB', '.MB', '10 000 MB', '1G 1M', '1_0MB',
        '5Gi', '5 Gb', '1Mib', '2\N{KELVIN SIGN}', '1,5GB', 'nanGB', '90s', '9' * 31 + 'B',
    ],
)  # fmt: skip
def test_what_is_no_size(text: str) -> None:
    assert parse_size(text) is None


@pytest.mark.parametrize(
    ('text', 'seconds'),
    [
        ('90s', 90),
        ('90 S', 90),
        ('5 min', 300),
        ('5Min', 300),
        ('5m', 300),
        ('5 minutes', 300),
        ('1.5 h', 5400),
        ('1H', 3600),
        ('1 hour', 3600),
        ('2d', 172_800),
        ('2 Days', 172_800),
        ('100ms', 0.1),
        ('0.5s', 0.5),
        ('.5sec', 0.5),
        ('1h30m', 5400),
        ('1h 30min', 5400),
        ('1 d 2 h 3 m 4 s 500 ms', 93_784.5),
        ('0s', 0),
    ],
)
def test_times(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize(
    'text',
    [
        '', ' ', 'soon', '-1s', '1e3s', '1_0s', '90 90s', 'nans', '٣s', '²s', '5x', '1' * 40 + 's', 'm', '2GB', '90',
        '1.', '1h30', '30m1h', '1h1h', '1:30', '1h,30m', '5 m s', '1,5h',
    ],
)  # fmt: skip
def test_what_is_no_time(text: str) -> None:
    assert parse_time(text) is None


@pytest.mark.parametrize(('text', 'seconds'), [('90', 90), (' .5 ', 0.5), ('1.', 1), ('1h30m', 5400)])
def test_a_number_alone_has_the_unit_that_is_said(text: str, seconds: float) -> None:
    assert parse_time(text, of_number='s') == seconds


@pytest.mark.parametrize('text', ['', '.', '1..', '1h30', 'nan', 'inf', '1e3', '1 0'])
def test_what_is_no_number_has_no_unit(text: str) -> None:
    assert parse_time(text, of_number='s') is None


@given(st.floats(0.001, 1e9).map(lambda number: f'{number:.3f}'), st.sampled_from(['s', 'm', ' H', 'd', ' min']))
def test_every_number_with_a_unit_is_a_time(number: str, unit: str) -> None:
    size = {'s': 1, 'm': 60, ' min': 60, ' H': 3600, 'd': 86400}[unit]
    assert parse_time(number + unit) == float(number) * size


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    size, seconds = parse_size(text), parse_time(text, of_number='s')
    assert size is None or size >= 0
    assert seconds is None or seconds >= 0
