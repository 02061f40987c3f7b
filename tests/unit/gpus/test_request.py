from __future__ import annotations

import math

import pytest

from gpu_tracker.errors import ParameterError
from gpu_tracker.gpus.request import Request, check_count, check_seconds, make_request

PERCENTAGE = 'a percentage from 0 to 100'
NAMES = 'indices or UUIDs of GPUs: a list, or a text with commas between them'
BRANDS = 'one or more of nvidia, amd, intel, drm, separated by commas'
SIZE = 'a size with its unit, such as 10GB (powers of 1000), 8GiB or 8G (powers of 1024)'


def test_nothing_given() -> None:
    assert make_request() == Request()


def test_everything_given() -> None:
    request = make_request(
        max_used_percent=30,
        max_utilization=5,
        min_free='10GB',
        max_temperature=-3.5,
        allow='Xvnc',
        limit=2,
        order='free',
        uuid=True,
        exclude=(1, 'GPU-a'),
        environment={'CUDA_VISIBLE_DEVICES': '0', 'HOME': '/'},
    )
    assert request.limits == (30.0, 5.0, 10_000_000_000, -3.5, ('Xvnc',))
    assert request[1:] == (2, None, 'free', True, ('1', 'GPU-a'), {'CUDA_VISIBLE_DEVICES': '0'}, ())
    assert make_request(exclude='0, GPU-a,').exclude == ('0', 'GPU-a')
    assert make_request(exclude=['1 ', '']).exclude == ('1',)
    assert make_request(exclude='').exclude == ()
    assert make_request(count=3, min_free=12).exactly == 3
    assert make_request(min_free=12).limits.min_free == 12


@pytest.mark.parametrize(
    ('name', 'value', 'accepted'),
    [
        ('max_used_percent', -1, PERCENTAGE),
        ('max_used_percent', 100.5, PERCENTAGE),
        ('max_used_percent', math.nan, PERCENTAGE),
        ('max_used_percent', True, PERCENTAGE),
        ('max_used_percent', '20', PERCENTAGE),
        ('max_utilization', 101, PERCENTAGE),
        ('max_temperature', math.inf, 'a number of degrees Celsius'),
        ('min_free', '10', SIZE),
        ('min_free', 'GB', SIZE),
        ('min_free', '-1GB', SIZE),
        ('min_free', -1, f'a number of bytes, or {SIZE}'),
        ('min_free', 1.5, f'a number of bytes, or {SIZE}'),
        ('limit', 0, 'a positive whole number'),
        ('limit', 1.0, 'a positive whole number'),
        ('count', True, 'a positive whole number'),
        ('order', 'name', 'index, free or power'),
        ('order', [], 'index, free or power'),
        ('max_temperature', 10**400, 'a number of degrees Celsius'),
        ('allow', 1, 'names of programs: a list, or a text with commas between them'),
        ('exclude', 1, NAMES),
        ('exclude', None, NAMES),
        ('exclude', [1.0], NAMES),
        ('exclude', [True], NAMES),
        ('gpu_brand', 'voodoo', BRANDS),
        ('gpu_brand', 'amd,', BRANDS),
        ('gpu_brand', '', BRANDS),
        ('gpu_brand', [], BRANDS),
        ('gpu_brand', [1], BRANDS),
        ('gpu_brand', 1, BRANDS),
        ('min_free', '9' * 400 + 'GB', SIZE),
    ],
)
def test_what_cannot_be_used(name: str, value: object, accepted: str) -> None:
    with pytest.raises(ParameterError) as caught:
        make_request(**{name: value})
    assert str(caught.value) == f'{name} must be {accepted}, not {value!r}'


def test_brands() -> None:
    assert make_request(gpu_brand='amd').brands == ('amd',)
    assert make_request(gpu_brand=' NVIDIA, amd,AMD').brands == ('nvidia', 'amd')
    assert make_request(gpu_brand=['intel']).brands == ('intel',)


def test_counts_and_seconds() -> None:
    assert check_count('n', 2) == 2
    assert check_seconds('seconds', None) is None
    assert check_seconds('seconds', 2) == 2.0
    for wrong in (0, -1, math.inf, 'soon', False):
        with pytest.raises(ParameterError, match=r'^seconds must be a positive number of seconds, not '):
            check_seconds('seconds', wrong)
