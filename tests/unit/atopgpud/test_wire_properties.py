"""Any readings whatever give an answer that atop reads back as the same figures."""

from __future__ import annotations

from functools import reduce

from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_tracker.atopgpud import wire
from gpu_tracker.atopgpud.counters import GpuCounters, count
from gpu_tracker.atopgpud.records import Section
from gpu_tracker.gpus.model import Account, GpuProcess
from support.atop.atop_client import parsed_statistics, parsed_types
from support.gpus.gpu_readings import known, monitored

KIB = 1024

percent = st.none() | st.integers(0, 100)
size = st.none() | st.integers(0, 2**60)
processes = st.lists(
    st.builds(
        GpuProcess,
        st.integers(1, 4_194_304),
        size,
        computes=st.booleans(),
        draws=st.booleans(),
        utilization=percent,
        memory_utilization=percent,
    ),
    max_size=300,
    unique_by=lambda process: process.pid,
).map(tuple)
accounts = st.lists(st.builds(Account, st.integers(1, 4_194_304), percent, percent, st.integers(0, 2**60)), max_size=3)
problems = st.sampled_from([None, None, None, 'is lost'])
activities = st.builds(
    monitored,
    problems,
    percent,
    percent,
    size,
    size,
    st.none() | processes,
    ended=accounts.map(tuple),
)


@settings(max_examples=50)  # with hundreds of processes each
@given(st.lists(st.lists(activities, min_size=1, max_size=3), min_size=1, max_size=4), st.sampled_from([1, 2]))
def test_any_readings_give_an_answer_that_reads_back_as_the_same_figures(readings_of_gpus, version):
    sections = []
    for readings in readings_of_gpus:
        before = reduce(lambda gpu, reading: count(gpu, reading, {}).gpu, readings[:-1], GpuCounters())
        counted = count(before, readings[-1], {})
        sections.append(Section(counted.gpu, ended=counted.ended))
    text, left_out = wire.statistics(version, sections)
    assert len(text.encode('ascii')) <= 8192
    told = parsed_statistics(text, version)
    assert len(told) == len(sections)
    memory, records = {}, {}
    for gpu, section, readings in zip(told, sections, readings_of_gpus, strict=True):
        expect_gpu(gpu, readings)
        expected = shown(section, version)
        for process in gpu.processes:
            expect_process(process, expected[process.state, process.pid], version)
            records.setdefault(process.pid, []).append(process)
        for (_, pid), process in expected.items():
            memory[pid] = memory.get(pid, 0) + process.memory
    for pid, told_of_it in records.items():
        expect_sums(told_of_it, of_process(sections, pid), version)
    left_out_pids = memory.keys() - records.keys()
    assert len(left_out_pids) == left_out
    assert max((memory[pid] for pid in left_out_pids), default=0) <= min(
        (memory[pid] for pid in records), default=2**80
    )


def shown(section, version):
    """Return what has a record, by state and process ID: in version 1 nothing that only draws."""
    listed = section.gpu.processes.values() if section.gpu.is_readable and section.gpu.are_listed else ()
    records = {('A', one.pid): one for one in listed} | {('E', one.pid): one for one in section.ended}
    return {key: one for key, one in records.items() if version > 1 or one.computes or not one.draws}


def of_process(sections, pid):
    """Return the counters of a process on all GPUs, those included that cannot be read just now."""
    counters = [section.gpu.processes[pid] for section in sections if pid in section.gpu.processes]
    return counters + [process for section in sections for process in section.ended if process.pid == pid]


def expect_gpu(gpu, readings):
    """Compare with sums over the readings that do not come from the counters."""
    good = [reading for reading in readings if reading.problem is None]
    pairs = [None not in {reading.utilization, reading.memory_utilization} for reading in good]
    first_known = pairs.index(True) if True in pairs else len(good)
    sampled = [reading for place, reading in enumerate(good) if pairs[place] or place < first_known]
    last = readings[-1]
    is_readable = last.problem is None
    busy = last.utilization if is_readable else None
    memory_busy = last.memory_utilization if is_readable else None
    assert gpu.samples == len(sampled)
    assert gpu.busy == (-1 if busy is None else busy)
    assert gpu.memory_busy == (-1 if memory_busy is None else memory_busy)
    assert gpu.busy_total == (-1 if busy is None else sum(reading.utilization or 0 for reading in sampled))
    assert gpu.memory_busy_total == (
        -1 if memory_busy is None else sum(reading.memory_utilization or 0 for reading in sampled)
    )
    assert gpu.memory_size == ((last.memory_total or 0) // KIB if is_readable else 0)
    assert gpu.memory == ((last.memory_used or 0) // KIB if is_readable else 0)
    assert gpu.memory_total == sum((reading.memory_used or 0) // KIB for reading in sampled)


def expect_process(told, counters, version):
    assert told.memory == counters.memory
    if version == 1:
        assert told.milliseconds == counters.milliseconds
        assert (told.busy, told.memory_busy) in {(-1, -1), (counters.busy, counters.memory_busy)}
    else:
        letters = {(True, False): 'C', (False, True): 'G', (True, True): 'U', (False, False): 'C'}
        assert told.type == letters[counters.computes, counters.draws]


def expect_sums(told, counters, version):
    """Compare what a client adds up of a process with what has been counted of it."""
    assert sum(process.memory_total for process in told) == sum(process.memory_total for process in counters)
    assert sum(process.samples for process in told) == sum(process.samples for process in counters)
    if version == 2:
        busy = [(process.busy_total, process.memory_busy_total) for process in counters]
        if any(None in pair for pair in busy):
            assert {(process.busy_total, process.memory_busy_total) for process in told} == {(-1, -1)}
        else:
            assert sum(process.busy_total for process in told) == sum(total for total, _ in busy)
            assert sum(process.memory_busy_total for process in told) == sum(total for _, total in busy)


identities = st.builds(
    known,
    st.integers(0, 31),
    st.none() | st.text(),
    st.none() | st.text(),
    st.none() | st.text(),
    st.booleans(),
    lists_graphics=st.booleans(),
    keeps_accounts=st.booleans(),
)


@given(st.lists(identities, min_size=1, max_size=32), st.sampled_from([1, 2]))
def test_any_gpus_can_be_told(gpus, version):
    text = wire.types(version, gpus)
    assert len(text.encode('ascii')) <= 8192
    assert len(parsed_types(text)) == len(gpus)


@given(st.lists(st.builds(GpuCounters, st.just(True), percent, percent, *[st.integers(0, 2**70)] * 6), max_size=32))
def test_no_figures_of_gpus_are_too_long(gpus):
    assert len(wire.statistics(1, [Section(gpu) for gpu in gpus]).text) <= 8192
