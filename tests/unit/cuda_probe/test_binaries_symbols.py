from __future__ import annotations

import pytest

from gpu_tracker.cuda_probe.binaries.demangling import common_name, demangle, plain_symbol


@pytest.mark.parametrize(
    ('symbol', 'name'),
    [
        ('_Z5plainPfi', 'plain(float*, int)'),
        ('_ZL13static_kernelPii', 'static_kernel(int*, int)'),
        ('_Z9templatedIdLi64EEvPT_', 'void templated<double, 64>(double*)'),
        ('_ZN39_GLOBAL__N__1d7b55bd_7_prog_cu_4d11ce8d6hiddenEPd', '(anonymous namespace)::hidden(double*)'),
        (
            '_ZN5outer10with_localINS_33_GLOBAL__N__a70b1d3b_5_st_cu_main5LocalEEEvPT_',
            'void outer::with_local<outer::(anonymous namespace)::Local>(outer::(anonymous namespace)::Local*)',
        ),
        ('__nv_static_22__a70b1d3b_5_st_cu_main__Z2stPi', 'st(int*)'),
        ('c_kernel', 'c_kernel'),
        ('_Znonsense', '_Znonsense'),
        ('', ''),
    ],
)
def test_kernels_have_names_for_people(symbol: str, name: str) -> None:
    assert demangle(symbol) == name


def test_the_length_of_an_unnamed_namespace_may_follow_digits() -> None:
    symbol = '_ZN6outer139_GLOBAL__N__1d7b55bd_7_prog_cu_4d11ce8d6hiddenEPd'
    assert plain_symbol(symbol) == '_ZN6outer112_GLOBAL__N_16hiddenEPd'


@pytest.mark.parametrize('symbol', ['_ZN99_GLOBAL__N__1E', '_GLOBAL__N_', '_ZN0_GLOBAL__N__1d7bE', '__nv_static_99_a'])
def test_names_that_only_look_like_it_are_left_as_they_are(symbol: str) -> None:
    assert plain_symbol(symbol) == symbol


@pytest.mark.parametrize(
    ('device', 'host'),
    [
        ('_Z13static_kernelPii', '_ZL13static_kernelPii'),
        ('_ZN5outer8st_in_nsEPi', '_ZN5outerL8st_in_nsEPi'),
        ('__nv_static_22__a70b1d3b_5_st_cu_main__Z2stPi', '_ZL2stPi'),
        ('_ZN39_GLOBAL__N__1d7b55bd_7_prog_cu_4d11ce8d6hiddenEPd', '_ZN12_GLOBAL__N_16hiddenEPd'),
        ('_ZN5outer9with_enumILNS_5ColorE0EEEvPi', '_ZN5outer9with_enumILNS_5ColorE0EEEvPi'),
    ],
)
def test_both_sides_have_one_common_name(device: str, host: str) -> None:
    assert common_name(device) == common_name(host)


def doubled(times: int) -> str:
    """Return a kernel whose arguments' types each hold the one before twice."""
    digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ'
    text = '_Z6kernelI1AIiiE'
    for number in range(times):
        again = f'S{digits[2 * number + 1]}_'
        text += f'1BI{again}{again}E'
    return text + 'EvT_'


def test_a_name_that_would_grow_without_end_is_told_by_its_beginning() -> None:
    assert demangle(doubled(2)).startswith('void kernel<A<int, int>, ')
    assert demangle(doubled(17)) == 'kernel<...>'
    assert demangle('_ZN7outer_212_GLOBAL__N_16kernelI' + 'P' * 9000 + 'iEvv') == (
        'outer_2::(anonymous namespace)::kernel<...>'
    )
    assert demangle('_Z6kernel' + 'P' * 9000 + 'i') == 'kernel(...)'


def test_a_name_of_many_digits_or_capitals_costs_no_time() -> None:
    for symbol in ('_Z' + '1' * 16000, '_Z' + 'S' * 16000, '_Z' + '_GLOBAL__N_' * 1400, '_ZN' + '1a' * 8000):
        assert demangle(symbol)
        assert common_name(symbol)


def test_a_long_name_is_cut() -> None:
    name = demangle(doubled(9))
    assert len(name) == 4096 + len('...')
    assert name.startswith('void kernel<A<int, int>')
