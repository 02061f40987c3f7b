"""The kernel's part of the probe and Python's have the same numbers and the same structures."""

from __future__ import annotations

import struct

import pytest

from gpu_tracker.cuda_probe.cuda_api import FUNCTIONS, What
from gpu_tracker.cuda_probe.engine import kernel_layout
from gpu_tracker.cuda_probe.engine.kernel_layout import Notice, NoticeKind, Overflow
from gpu_tracker.cuda_probe.engine.loading import map_entries
from gpu_tracker.cuda_probe.kernel_data import DeviceTotals, Event, EventKind, KernelTotals
from gpu_tracker.cuda_probe.limits import Limits
from support.cuda import bpf_source
from support.cuda.bpf_source import form, plain

HEADER = '8x'
"""What the kernel puts before each record of a ring."""


def numbers(of: type[What | EventKind | NoticeKind], prefix: str = '') -> dict[str, int]:
    return {f'{prefix}{one.name}': one.value for one in of}


def test_what_functions_do_has_the_same_numbers() -> None:
    assert bpf_source.enum('what') == numbers(What)


def test_kinds_of_events_and_notices_have_the_same_numbers() -> None:
    assert bpf_source.enum('event_kind') == numbers(EventKind, 'EVENT_')
    assert bpf_source.enum('notice_kind') == numbers(NoticeKind, 'NOTICE_')


def test_what_finds_no_room_is_counted_in_the_same_places() -> None:
    counted = bpf_source.enum('overflow')
    assert counted.pop('N_OVERFLOWS') == len(Overflow)
    names = {Overflow.EVENT: 'LOST_EVENT', Overflow.NOTICE: 'LOST_NOTICE', Overflow.PEAK: 'PEAKS'}
    assert counted == {names.get(place, f'NO_{place.name}'): place.value for place in Overflow}


@pytest.mark.parametrize(
    ('name', 'laid_out'),
    [
        ('u32', kernel_layout.FOLLOWED_KEY),
        ('struct followed', kernel_layout.FOLLOWED),
        ('struct process', kernel_layout.PROCESS),
        ('struct device_key', kernel_layout.DEVICE_KEY),
        ('struct device', kernel_layout.DEVICE),
        ('struct handle', kernel_layout.HANDLE),
        ('struct kernel_key', kernel_layout.KERNEL_KEY),
        ('struct kernel', kernel_layout.KERNEL),
        ('struct allocation', kernel_layout.ALLOCATION),
        ('struct failure_key', kernel_layout.FAILURE_KEY),
        ('struct graph', kernel_layout.GRAPH),
        ('struct graph_node', kernel_layout.GRAPH_NODE),
        ('struct nodes', kernel_layout.NODES),
        ('struct settings', kernel_layout.SETTINGS),
    ],
)
def test_structures_are_laid_out_in_the_same_way(name: str, laid_out: struct.Struct) -> None:
    assert plain(laid_out.format) == form(name)


def test_records_of_rings_are_laid_out_in_the_same_way_behind_their_headers() -> None:
    assert plain(kernel_layout.EVENT.format) == plain(HEADER) + form('struct event')
    assert plain(kernel_layout.NOTICE.format) == plain(HEADER) + form('struct notice')


def test_records_have_whole_steps_and_a_field_for_each_name() -> None:
    assert kernel_layout.EVENT.size % 8 == kernel_layout.NOTICE.size % 8 == 0
    assert len(kernel_layout.EVENT.unpack(bytes(kernel_layout.EVENT.size))) == len(Event._fields)
    assert len(kernel_layout.NOTICE.unpack(bytes(kernel_layout.NOTICE.size))) == len(Notice._fields) + 1  # has_text
    assert (
        len(kernel_layout.DEVICE.unpack(bytes(kernel_layout.DEVICE.size))) == len(DeviceTotals._fields) - 1
    )  # resets, no key


def test_maps_have_the_keys_and_values_that_are_read() -> None:
    sizes = {
        name: (struct.calcsize(f'<{form(one.key)}'), struct.calcsize(f'<{form(one.value)}'))
        for name, one in bpf_source.maps().items()
        if name != 'threads'  # which Python never reads
    }
    arrays = {'overflows': (4, 8), 'settings': (4, kernel_layout.SETTINGS.size)}
    assert sizes | arrays == kernel_layout.MAPS


def test_launches_of_kernels_are_added_to_those_of_their_gpu() -> None:
    maps = {name: {} for name in kernel_layout.MAPS}
    maps['devices'] = {
        kernel_layout.DEVICE_KEY.pack(7, 0): kernel_layout.DEVICE.pack(5, 50, 1, 0, 8, 0, 8, 8, 2, 90, 3, 4),
        kernel_layout.DEVICE_KEY.pack(7, -1): kernel_layout.DEVICE.pack(*[0] * 6, 8, 8, *[0] * 4),
    }
    maps['kernels'] = {
        kernel_layout.KERNEL_KEY.pack(64, 7, 0): kernel_layout.KERNEL.pack(3, 30, 10, 0),
        kernel_layout.KERNEL_KEY.pack(64, 7, 1): kernel_layout.KERNEL.pack(2, 20, 10, 0),
        kernel_layout.KERNEL_KEY.pack(65, 7, 0): kernel_layout.KERNEL.pack(1, 1, 1, 0),
    }
    totals = kernel_layout.read_totals(maps)
    assert totals.kernels == (KernelTotals(7, 64, 5, 50), KernelTotals(7, 65, 1, 1))
    assert totals.devices == (
        DeviceTotals(7, 0, 9, 81, 1, 0, 8, 0, 8, 8, 2, 90, 3),
        DeviceTotals(7, None, 0, 0, 0, 0, 0, 0, 8, 8, 0, 0, 0),
        DeviceTotals(7, 1, 2, 20, *[0] * 9),
    )


def test_the_bounds_in_the_kernel_are_the_defaults() -> None:
    written = {name: one.entries for name, one in bpf_source.maps().items()} | bpf_source.rings()
    assert map_entries(Limits()) == written


def test_bounds_that_are_asked_for_are_those_of_the_maps() -> None:
    asked = Limits(2**17, 11, 12, 13, 14, 15, 16, 17, 18)
    assert map_entries(asked) == {
        'followed': 11,
        'processes': 12,
        'devices': 48,
        'allocations': 13,
        'kernels': 14,
        'streams': 15,
        'contexts': 48,
        'threads': 16,
        'failures': 17,
        'graphs': 18,
        'graph_handles': 36,
        'graph_nodes': 288,
        'capturing': 15,
        'events': 131_072,
        'notices': 4_194_304,
    }


def test_a_cookie_says_which_function_is_called_what_it_does_and_whose_default_stream_it_uses() -> None:
    assert [function.number for function in FUNCTIONS] == list(range(len(FUNCTIONS)))
    of_thread = next(function for function in FUNCTIONS if function.symbol == 'cudaMemcpy_ptds')
    assert of_thread.cookie == of_thread.number * 65_536 + 256 + What.COPY
    shared = next(function for function in FUNCTIONS if function.symbol == 'cudaMemcpy')
    assert shared.cookie == shared.number * 65_536 + What.COPY


def test_programmers_call_a_function_by_one_name_whatever_its_symbol() -> None:
    names = {function.symbol: function.name for function in FUNCTIONS}
    assert names['cudaLaunchKernel_ptsz'] == 'cudaLaunchKernel'
    assert names['cuMemcpyDtoH_v2_ptds'] == 'cuMemcpyDtoH'
    assert names['cuMemAlloc_v2'] == 'cuMemAlloc'
    assert len(names) == len(FUNCTIONS)
