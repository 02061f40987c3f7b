"""What clients are told, each as far as it has not been told before."""

from __future__ import annotations

from gpu_tracker.atopgpud.ledger import REMEMBERED_ENDS, Ledger, ListedGpu
from gpu_tracker.gpus.model import GpuProcess
from support.atop.atop_client import parsed_statistics, parsed_types
from support.gpus.gpu_readings import known, monitored

KIB = 1024
FIRST = ListedGpu('GPU-1', known(0, 'GPU-1', '00000000:01:00.0', 'A', lists_compute=True))
SECOND = ListedGpu('GPU-2', known(1, 'GPU-2', '00000000:02:00.0', 'B', lists_compute=True))
CLIENT_TIMEOUT = 3.0


def ledger(*gpus, now=0.0):
    new = Ledger(CLIENT_TIMEOUT)
    new.show(gpus or (FIRST, SECOND), now)
    return new


def reading(*pids, busy=50):
    return monitored(None, busy, 10, 80 * KIB, 4 * KIB, tuple(GpuProcess(pid, KIB) for pid in pids))


def take(book, gpu, activity, now=0.0):
    book.take(gpu.key, activity, {}, now)


def told(book, visitor, version=1):
    return parsed_statistics(book.statistics(version, visitor)[4:].decode(), version)


def records(book, visitor):
    """Return state and process ID of each record, by section."""
    return [[(process.state, process.pid) for process in gpu.processes] for gpu in told(book, visitor)]


def test_answers_have_the_version_that_was_asked():
    book = ledger()
    assert book.types(1, book.welcome())[:4] == b'\x01\x00\x00' + bytes([len('2@00000000:01:00.0 A 1') * 2 - 1])
    assert book.statistics(2, book.welcome())[0] == 2


def test_before_the_first_reading_all_is_unknown():
    book = ledger(FIRST)
    assert told(book, book.welcome())[0][:8] == (-1, -1, 0, 0, 0, -1, -1, 0)


def test_each_client_that_was_there_is_told_once_of_an_end():
    book = ledger()
    take(book, FIRST, reading(7))
    take(book, SECOND, reading(7, 8))
    there, idle = book.welcome(), book.welcome()
    take(book, SECOND, reading(7))
    late = book.welcome()
    assert records(book, there) == [[('A', 7)], [('A', 7), ('E', 8)]]
    assert records(book, there) == [[('A', 7)], [('A', 7)]]
    assert records(book, late) == [[('A', 7)], [('A', 7)]]
    take(book, FIRST, reading())
    assert records(book, idle) == [[('E', 7)], [('A', 7), ('E', 8)]]
    assert records(book, late) == [[('E', 7)], [('A', 7)]]


def test_a_client_that_never_asks_is_told_of_the_last_ends_only():
    book = ledger(FIRST)
    idle = book.welcome()
    for pid in range(1, REMEMBERED_ENDS + 501):
        take(book, FIRST, reading(pid))
    ends = [pid for state, pid in records(book, idle)[0] if state == 'E']
    assert 0 < len(ends) < 450  # what an answer has room for
    assert min(ends) >= 500
    assert [state for state, _ in records(book, idle)[0]] == ['A']


def test_a_gpu_that_is_silent_becomes_unknown_and_is_told_once():
    book = ledger(now=100.0)
    take(book, FIRST, reading(7), now=100.0)
    take(book, SECOND, reading(8), now=100.0)
    visitor = book.welcome()
    take(book, SECOND, reading(8), now=102.0)
    assert book.age(103.0) == []
    assert book.age(103.1) == ['GPU-1']
    assert book.age(104.0) == []
    silent, other = told(book, visitor)
    assert silent == (-1, -1, 0, 0, 1, -1, -1, 4, ())
    assert (other.busy, other.samples) == (50, 2)


def test_a_gpu_that_never_answered_is_told_as_silent():
    book = ledger(FIRST, now=100.0)
    assert book.age(103.0) == []
    assert book.age(104.0) == ['GPU-1']


def test_a_gpu_that_answers_again_goes_on_where_it_was():
    book = ledger(FIRST, now=100.0)
    before, during, after = book.welcome(), book.welcome(), book.welcome()
    take(book, FIRST, reading(), now=100.0)
    told(book, before), told(book, during)
    book.age(110.0)
    assert told(book, during)[0].busy_total == -1
    take(book, FIRST, reading(busy=30), now=111.0)
    assert told(book, before)[0][4:8] == (2, 80, 20, 8)  # was told 50 before: the difference is 30
    assert told(book, during)[0][4:8] == (2, 29, 9, 8)  # was told -1 before: the difference is 30
    assert told(book, after)[0][4:8] == (2, 80, 20, 8)


def test_clients_that_are_to_be_told_the_same_get_the_same_answer():
    book = ledger(FIRST)
    take(book, FIRST, reading(7))
    assert book.statistics(1, book.welcome()) is book.statistics(1, book.welcome())


def test_other_gpus_are_told_to_those_who_ask_which_there_are():
    book = ledger(FIRST)
    take(book, FIRST, reading(7))
    old = book.welcome()
    book.types(1, old)
    book.show([SECOND, FIRST], 0.0)
    take(book, SECOND, reading(busy=20))
    assert [gpu.busy for gpu in told(book, old)] == [50]
    new = book.welcome()
    assert [gpu.busy for gpu in told(book, new)] == [20, 50]
    assert [gpu.name for gpu in parsed_types(book.types(1, old)[4:].decode())] == ['B', 'A']
    assert [gpu.busy for gpu in told(book, old)] == [20, 50]


def test_a_gpu_that_is_no_more_keeps_its_section_for_those_who_know_it():
    book = ledger(now=100.0)
    take(book, FIRST, reading(7), now=100.0)
    take(book, SECOND, reading(8), now=100.0)
    old = book.welcome()
    book.show([SECOND], 100.0)
    take(book, SECOND, reading(8), now=104.0)
    assert book.age(104.0) == ['GPU-1']
    assert [gpu.busy for gpu in told(book, old)] == [-1, 50]


def test_processes_for_which_there_was_no_room_are_counted():
    book = ledger(FIRST)
    take(book, FIRST, reading(*range(1, 501)))
    assert book.take_left_out() is None
    shown = [len(told(book, book.welcome(), version)[0].processes) for version in (2, 1)]
    most = 500 - min(shown)
    assert most > 50
    assert book.take_left_out() == most
    assert book.take_left_out() is None
    take(book, FIRST, reading(1))
    told(book, book.welcome())
    assert book.take_left_out() == 0
