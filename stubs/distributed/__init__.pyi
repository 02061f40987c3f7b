# What gpu_tracker uses of distributed, whose own annotations are there only where it is installed.
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

_T = TypeVar('_T')

class WorkerPlugin: ...

class _TaskState:
    run_spec: Any

class _WorkerState:
    tasks: dict[Any, _TaskState]

class _Scheduler:
    async def identity(self, n_workers: int = -1) -> dict[str, Any]: ...

class Worker:
    name: object
    plugins: dict[str, WorkerPlugin]
    scheduler: _Scheduler
    state: _WorkerState

class Client:
    # The results themselves outside of the client's event loop.
    def sync(self, func: Callable[..., Awaitable[_T]], *args: object) -> _T: ...
    # Awaitable in the client's event loop, where gpu_tracker calls them.
    def run(self, function: Callable[..., _T], *, on_error: str = 'raise') -> Awaitable[dict[str, _T]]: ...
    def unregister_worker_plugin(self, name: str) -> Awaitable[object]: ...
