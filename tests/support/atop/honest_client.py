"""Clients of atopgpud that mean well, on a machine with two GPUs, and what they have to be told."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from support.gpus.gpu_machine import GIB, NO_SUCH_PROCESS
from support.simulated_nvml import Gpu, Process
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.atop.atop_client import AtopClient
    from support.atop.atop_daemon import AtopDaemon

GPUS = [
    Gpu(
        total=80 * GIB,
        used=4 * GIB,
        util=75,
        memory_util=40,
        processes=[Process(NO_SUCH_PROCESS - number, memory=GIB) for number in range(50)],
    ),
    Gpu(total=80 * GIB, used=8 * GIB, util=30, memory_util=20),
]
BUS_IDS = ['00000000:01:00.0', '00000000:02:00.0']
BUSY = [75, 30]


def bus_ids(client: AtopClient) -> list[str]:
    return [gpu.bus_id for gpu in client.types()]


def busy(client: AtopClient) -> list[int]:
    return [gpu.busy for gpu in client.statistics()]


def samples(client: AtopClient) -> list[int]:
    return [gpu.samples for gpu in client.statistics()]


@contextlib.contextmanager
def asking(daemon: AtopDaemon) -> Iterator[Callable[[], None]]:
    """Ask all the while, and fail where an answer is not right; what is given waits for some more answers."""
    answers = 0
    is_over = threading.Event()
    failures: list[BaseException] = []

    def ask() -> None:
        nonlocal answers
        try:
            with daemon.over_tcp() as first, daemon.over_socket() as second:
                while not is_over.is_set():
                    for client in (first, second):
                        assert bus_ids(client) == BUS_IDS
                        assert busy(client) == BUSY
                    answers += 1
                    is_over.wait(0.01)
        except BaseException as error:  # noqa: BLE001 - it is raised where the test waits
            failures.append(error)

    def go_on() -> None:
        before = answers
        eventually(lambda: failures or answers > before + 5)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        go_on()
        yield go_on
        go_on()
    finally:
        is_over.set()
        thread.join()
        if failures:
            raise failures[0]
