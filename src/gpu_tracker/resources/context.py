"""What resources are opened with: the configuration of a run, and what several of them share."""

from __future__ import annotations

import time

from gpu_tracker.processes import open_process_tree
from gpu_tracker.resources.budget import Budget, OverheadLimit
from gpu_tracker.resources.system import open_system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.resources.ram.early import EarlySamples
    from gpu_tracker.resources.system import SystemSource


class Context:
    """One run, in the sampler.

    The tree is opened where it is first needed: a resource that does not need it, and whose opening takes its time in
    a thread of its own, comes before those that do.

    :param config: The sampler's configuration, see :mod:`gpu_tracker.sampler.spawn`.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.limit = None if config['overhead'] is None else OverheadLimit(config['overhead'], time.process_time)
        """What bounds the CPU time of the sampler, where the user has set that."""
        self.budget: Budget | OverheadLimit = self.limit or Budget(time.monotonic())
        """What optional readings are paid from."""
        # Some resources have threads that may be busy: what a reading costs is then told by the loop's own clock.
        self.cpu_time: Callable[[], float] = time.thread_time if config['sections'] else time.process_time
        """The CPU seconds that the loop has used."""
        self.early: EarlySamples | None = None
        """Samples young processes between two points of the grid, where the system allows that."""
        self._tree: ProcessTree | None = None
        self._machine: SystemSource | None = None

    @property
    def tree(self) -> ProcessTree:
        """The tracked processes.

        :raises ProcessLookupError: if there is no such process.
        """
        if self._tree is None:
            config = self.config
            launcher = config['launcher']
            self._tree = open_process_tree(
                config['reader'], config['target'], launcher=launcher, held=launcher is not None
            )
        return self._tree

    @property
    def machine(self) -> SystemSource:
        """What the whole machine uses."""
        if self._machine is None:
            self._machine = open_system(self.config['reader'])
        return self._machine
