from __future__ import annotations

from gpu_tracker.atopgpud.observer import Drivers
from gpu_tracker.errors import GpuError
from support.gpus.gpu_readings import known


class Monitor:
    """Looks at nothing."""

    def __init__(self, number, uuid=None) -> None:
        self.gpu = known(number, uuid)


class Backend:
    """An opened driver with these monitors, or one that has stopped working."""

    def __init__(self, *monitors, problem=None) -> None:
        self._monitors = monitors
        self._problem = problem
        self.is_closed = False

    def monitors(self):
        if self._problem is not None:
            raise self._problem
        return self._monitors

    def close(self) -> None:
        self.is_closed = True


def broken():
    raise GpuError('The driver is broken.', 'broken')


def keys(drivers):
    return [gpu.key for gpu in drivers.open()]


def test_gpus_of_all_drivers_in_order_each_with_a_key_of_its_own():
    backend = Backend(Monitor(0, 'GPU-a'), Monitor(1))
    other = Backend(Monitor(0))
    drivers = Drivers({'one': lambda: backend, 'none': lambda: None, 'other': lambda: other})
    assert keys(drivers) == ['GPU-a', 'one 1', 'other 0']
    assert drivers.problems == []


def test_a_driver_that_cannot_be_opened_is_told_and_hides_no_other():
    drivers = Drivers({'broken': broken, 'one': lambda: Backend(Monitor(0, 'GPU-a'))})
    assert keys(drivers) == ['GPU-a']
    assert drivers.problems == ['The driver is broken.']


def test_a_driver_that_stops_working_after_it_was_opened_is_told_and_hides_no_other():
    stopped = Backend(problem=GpuError('It works no more.', 'stopped'))
    drivers = Drivers({'stopped': lambda: stopped, 'one': lambda: Backend(Monitor(0, 'GPU-a'))})
    assert keys(drivers) == ['GPU-a']
    assert drivers.problems == ['It works no more.']
    drivers.close()
    assert stopped.is_closed


def test_problems_are_those_of_the_last_opening():
    openers = [broken, lambda: Backend(Monitor(0, 'GPU-a'))]

    def open_next():
        return openers.pop(0)()

    drivers = Drivers({'one': open_next})
    assert keys(drivers) == []
    assert drivers.problems == ['The driver is broken.']
    drivers.close()
    assert keys(drivers) == ['GPU-a']
    assert drivers.problems == []


def test_closing_lets_go_of_each_driver_once():
    backends = [Backend(Monitor(0)), Backend(Monitor(0)), Backend(Monitor(0))]
    remaining = list(backends)
    drivers = Drivers({'one': lambda: remaining.pop(0), 'other': lambda: remaining.pop(0)})
    drivers.open()
    drivers.close()
    assert [backend.is_closed for backend in backends] == [True, True, False]
    drivers.close()  # nothing is open
