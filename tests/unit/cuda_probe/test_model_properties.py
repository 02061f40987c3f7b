"""The model against a plain one that keeps every launch, and sets of nanoseconds, on tiny numbers."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_tracker.cuda_probe.kernel_data import Event, EventKind
from gpu_tracker.cuda_probe.model.window import WindowSums
from support.cuda.cuda_events import (
    CORES,
    OWN_STREAM,
    allocation,
    copy,
    destroy_stream,
    device_sync,
    done,
    end,
    launch,
    limits,
    record,
    reset,
    statistics,
    sync,
)

LONGEST = 4
OPEN = 15
NOW = 80
SOME = settings(max_examples=50)
"""A history of 40 events is expensive to make."""
BOUNDS = {'launches_a_span': LONGEST, 'open_for': OPEN}


class PlainStream:
    """Every launch, in a list."""

    def __init__(self):
        self.waiting = []
        self.before = 0
        """How many launches were closed."""
        self.closed = []
        """Begin, end, launches."""

    def close(self, count, time):
        if count > 0:
            taken, self.waiting = self.waiting[:count], self.waiting[count:]
            self.before += len(taken)
            self.closed.append((max(taken[0].time, self.closed[-1][1] if self.closed else 0), time, taken))

    def expire(self, time):
        if self.waiting and time > self.waiting[-1].time + OPEN:
            self.close(len(self.waiting), self.waiting[-1].time + OPEN)

    def launch(self, event):
        if len(self.waiting) == LONGEST:
            self.close(LONGEST, event.time)
        self.waiting.append(event)


class PlainModel:
    """What the rules say, in the plainest way; of events in order."""

    def __init__(self, events, now):
        self.streams = defaultdict(PlainStream)
        self.all = []
        self.recorded = {}
        for event in map(Event._make, events):
            for stream in self.streams.values():
                stream.expire(event.time)
            self.take(event)
        for stream in self.streams.values():
            stream.expire(now)
            stream.close(len(stream.waiting), now)

    def take(self, event):
        of_device = (event.process, event.device)
        stream = self.streams[*of_device, event.stream]
        closing = [stream]
        match event.kind:
            case EventKind.LAUNCH:
                stream.launch(event)
                return
            case EventKind.EVENT_RECORD:
                self.recorded[event.process, event.address] = stream, stream.before + len(stream.waiting)
                return
            case EventKind.EVENT_DONE:
                stream, place = self.recorded.get((event.process, event.address), (stream, 0))
                stream.close(place - stream.before, event.time)
                return
            case EventKind.ALLOCATION:
                return
            case EventKind.DEVICE_SYNC | EventKind.DEVICE_RESET:
                closing = [stream for key, stream in self.streams.items() if key[:2] == of_device]
            case EventKind.PROCESS_END:
                closing = [stream for key, stream in self.streams.items() if key[0] == event.process]
        for each in closing:
            each.close(len(each.waiting), event.time)
        if event.kind == EventKind.STREAM_DESTROY:
            self.streams[*of_device, event.stream, event.time, len(self.streams)] = self.streams.pop(
                (*of_device, event.stream)
            )

    def spans(self, process, device):
        return [span for key, stream in self.streams.items() if key[:2] == (process, device) for span in stream.closed]

    def busy(self, process, devices):
        return {
            moment
            for device in devices
            for begin, end, _ in self.spans(process, device)
            for moment in range(begin, end)
        }

    def core_time(self, process, device):
        return sum(
            (end - begin) * min(Fraction(sum(each.value for each in launches), len(launches)), CORES)
            for begin, end, launches in self.spans(process, device)
        )

    def kernel_times(self, process):
        times = defaultdict(Fraction)
        for device in (0, 1):
            for begin, closed, launches in self.spans(process, device):
                for each in launches:
                    times[process, each.address] += Fraction(closed - begin, len(launches))
        return times


@st.composite
def happenings(draw):
    """Return events of two processes on two GPUs, in the order of their times."""
    moments = sorted(draw(st.lists(st.integers(0, NOW - 1), max_size=40)))
    ended, events = set(), []
    for time in moments:
        of = {'process': draw(st.integers(1, 2)), 'device': draw(st.integers(0, 1))}
        if of['process'] in ended:
            continue
        stream = draw(st.sampled_from([0, OWN_STREAM + 17, 100 + of['device'], 200 + of['device']]))
        handle = draw(st.integers(1, 3))
        kind = draw(st.integers(0, 15))
        match kind:
            case 9:
                made = sync(time, stream, **of)
            case 10:
                made = device_sync(time, **of)
            case 7 | 11:
                made = record(time, handle, stream, **of)
            case 8 | 12:
                made = done(time, handle, **of)
            case 13:
                made = copy(time, **of)
            case 14:
                made = destroy_stream(time, stream, **of) if 100 <= stream < 1000 else reset(time, **of)
            case 15:
                is_end = draw(st.integers(0, 3)) == 0
                made = end(time, of['process']) if is_end else allocation(time, 5, **of)
                ended |= {of['process']} if is_end else set()
            case _:
                made = launch(time, stream, draw(st.integers(1, 3)), draw(st.sampled_from([10, 500, 3000])), **of)
        events.append(made)
    return events


cuts = st.lists(st.integers(0, NOW), max_size=6).map(sorted)


def windows(events, moments, **bounds):
    """Return the windows that end at these moments, each asked for when the events before were there."""
    made, rest, told = statistics(bounds=limits(**BOUNDS, **bounds)), list(events), []
    for now in moments:
        made.consume([event for event in rest if event[0] < now])
        rest = [event for event in rest if event[0] >= now]
        told.append(made.get_and_flush(now))
    return told


@SOME
@given(happenings())
def test_a_window_is_what_the_plain_model_says(events):
    (told,) = windows(events, [NOW])
    plain = PlainModel(events, NOW)
    for use in told.devices:
        assert use.busy == len(plain.busy(use.process, [use.device]))
        assert use.active == use.busy / NOW
        assert use.used_cores == pytest.approx(float(plain.core_time(use.process, use.device) / NOW))
    for process in told.processes:
        assert process.busy == len(plain.busy(process.process, [0, 1]))
        rounded = len(events)
        for key, time in plain.kernel_times(process.process).items():
            assert abs(told.kernels.get(key, 0) - time) <= rounded


@SOME
@given(happenings(), cuts)
def test_windows_cut_anywhere_add_up_to_the_same_busy_time(events, moments):
    whole = PlainModel(events, NOW)
    for told in windows(events, [*moments, NOW]):
        in_window = set(range(told.start, told.end))
        for use in told.devices:
            assert use.busy == len(whole.busy(use.process, [use.device]) & in_window)
        for process in told.processes:
            assert process.busy == len(whole.busy(process.process, [0, 1]) & in_window)


@SOME
@given(happenings(), cuts)
def test_windows_cut_anywhere_accumulate_to_the_run(events, moments):
    run = WindowSums()
    for told in windows(events, [*moments, NOW]):
        run.add(told)
    (whole,) = windows(events, [NOW])
    assert {number: process.busy for number, process in run.processes.items()} == {
        process.process: process.busy for process in whole.processes
    }
    for use in whole.devices:
        device = run.processes[use.process].devices[use.device]
        assert (device.busy, device.launches, device.threads) == (use.busy, use.launches, use.threads)
        assert (device.spans, device.forced_spans) == (use.spans, use.forced_spans)
        assert (device.memory_max, device.memory_leaked) == (use.memory_max, use.memory_leaked)


@SOME
@given(happenings(), st.integers(1, 3))
def test_spans_that_are_added_up_at_once_come_to_the_same(events, held):
    (one,), (other,) = windows(events, [NOW]), windows(events, [NOW], spans_held=held)
    assert [use._replace(used_cores=0, used_cores_normalised=0) for use in one.devices] == [
        use._replace(used_cores=0, used_cores_normalised=0) for use in other.devices
    ]
    assert one.processes == other.processes


@SOME
@given(happenings(), st.randoms(use_true_random=False), cuts)
def test_events_that_come_out_of_order_lose_no_launch_and_stay_in_the_window(events, random, moments):
    shaken = sorted(events, key=lambda event: event[0] + random.randint(0, 6))
    ends = [position for position, event in enumerate(shaken) if event[7] == EventKind.PROCESS_END]
    told = windows(shaken[: ends[0]] if ends else shaken, [*moments, NOW])
    launched = [event for event in (shaken[: ends[0]] if ends else shaken) if event[7] == EventKind.LAUNCH]
    assert sum(use.launches for window in told for use in window.devices) == len(launched)
    for window in told:
        for use in (*window.devices, *window.processes):
            assert 0 <= use.busy <= window.length
        for use in window.devices:
            assert use.used_cores is None or 0 <= use.used_cores_normalised <= min(use.used_cores, CORES) * (1 + 1e-9)
        assert all(time >= 0 for time in window.kernels.values())
