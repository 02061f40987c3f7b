from __future__ import annotations

import os

import pytest

from gpu_tracker.sampler import messages
from gpu_tracker.sampler import store as store_module
from gpu_tracker.sampler.store import PLACE, Store, create_store


@pytest.fixture
def store():
    store, path = create_store()
    yield store
    store.close()
    if path is not None:
        os.unlink(path)


def test_an_empty_store_has_nothing(store):
    assert store.read() is None


def test_the_last_totals_are_read(store):
    for number in range(5):
        store.write({'number': number, 'values': [1.5, None, 'text']})
        assert store.read() == {'number': number, 'values': [1.5, None, 'text']}


def test_a_write_that_was_cut_off_leaves_the_totals_before_it(store):
    writer = Store(store.handle)
    writer.write({'number': 1})
    writer.write({'number': 2})
    os.pwrite(store.handle, bytes(16), PLACE)  # the next one begins by declaring its place empty
    os.pwrite(store.handle, b'half of', PLACE + 16)
    assert store.read() == {'number': 2}


def test_a_place_that_is_written_while_it_is_read_is_read_again(store, monkeypatch):
    writer = Store(store.handle)
    writer.write({'number': 1})
    read = store_module._read_at

    def read_late(handle: int, length: int, offset: int) -> bytes:
        if offset % PLACE:  # a header was read, and now both places are written before the contents are
            monkeypatch.undo()
            writer.write({'number': 2})
            writer.write({'number': 3, 'more': 'text'})
        return read(handle, length, offset)

    monkeypatch.setattr(store_module, '_read_at', read_late)
    assert store.read() == {'number': 3, 'more': 'text'}


def test_messages_come_through_a_pipe_one_by_one():
    reader, writer = os.pipe()
    os.write(writer, messages.encode({'ready': 7}) + messages.encode({'done': True}))
    os.close(writer)
    assert messages.receive(reader) == {'ready': 7}
    assert messages.receive(reader) == {'done': True}
    with pytest.raises(EOFError):
        messages.receive(reader)
    os.close(reader)


def test_what_is_no_message_is_passed_on_as_text():
    reader, writer = os.pipe()
    os.write(writer, b'Fatal Python error: no module named encodings\n')
    os.close(writer)
    with pytest.raises(EOFError, match=r'^Fatal Python error: no module named encodings$'):
        messages.receive(reader)
    os.close(reader)
