"""What the probe counts, against what the program itself knows that it has called."""

from __future__ import annotations

import pytest

from probed_program import probed

pytestmark = pytest.mark.ebpf


def test_launches_and_memory_are_counted_as_the_program_made_them():
    seen = probed('alloc a 1000; alloc b 500; free a; launches 1000 axpy default 2 1 1 256 1 1; sync default')
    truth, process = seen.truth.device, seen.process
    assert (process.launches, process.allocations, process.frees) == (1000, 2, 1)
    assert (process.memory_max_bytes, process.memory_leaked_bytes) == (1500, 500)
    assert process.launches == truth.launches
    assert process.memory_max_bytes == truth.maximum
