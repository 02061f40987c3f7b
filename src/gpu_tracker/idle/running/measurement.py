"""What a program uses, measured by a tracker that is started and asked without ever holding the guardian up."""

from __future__ import annotations

import _thread
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import resource
    from collections.abc import Sequence

    from gpu_tracker.processes.reaped import OrphansUse
    from gpu_tracker.running.run import Run

_INTERVAL = 1.0
"""Seconds between two samples."""


class Measurement:
    """Starts a tracker of a process that is held back, in a thread: a GPU driver may need long to answer, or for ever.

    :param pid: The process.
    :param exec_handle: Becomes readable when it is let go and runs its program.
    :param uuids: Of its GPUs; None where not all are known, and then neither is their utilization.
    """

    def __init__(self, pid: int, exec_handle: int, uuids: Sequence[str] | None) -> None:
        self.ready_handle, self._ready_writer = os.pipe()
        """The former becomes readable when the tracker runs, or cannot be started."""
        self.problem: str | None = 'the tracker was not ready in time'
        """Why nothing is measured; None: it is."""
        self._run: Run | None = None
        self._knows_gpus = uuids is not None
        self.is_late = False
        """Whether it was given up; a tracker may have been about to start its sampler."""
        _thread.start_new_thread(self._start, (pid, exec_handle, uuids))

    def give_up(self) -> None:
        """Start no tracker any more: it would miss how the program began, and its sampler be taken for one of it."""
        self.is_late = True

    def stop(self, exact: resource.struct_rusage | None, orphans: OrphansUse) -> dict[str, float | None]:
        """Return ``max_ram_bytes``, ``max_gpu_ram_bytes`` and ``gpu_utilization_percent``, None where unknown.

        :param exact: What the kernel reported when the program was waited for.
        :param orphans: The use of descendants that the guardian has reaped.
        """
        try:
            return self._figures(exact, orphans)
        except Exception as error:  # noqa: BLE001 - whatever it is, the program's end must be reported
            self.problem = f'{type(error).__name__}: {error}'
        return {'max_ram_bytes': None, 'max_gpu_ram_bytes': None, 'gpu_utilization_percent': None}

    def _figures(self, exact: resource.struct_rusage | None, orphans: OrphansUse) -> dict[str, float | None]:
        run = self._run
        if run is None:
            raise RuntimeError(self.problem)
        run.stop()
        if exact is not None:
            run.settle_command(exact, orphans)
        usage = run.usage()
        has_gpus = bool(usage.gpu_utilization.system_gpu_count)
        percentages = usage.gpu_utilization.gpu_percentages
        return {
            'max_ram_bytes': usage.max_ram.combined.total_rss,
            'max_gpu_ram_bytes': usage.max_gpu_ram.combined if has_gpus else None,
            'gpu_utilization_percent': percentages.mean_hardware_percent if has_gpus and self._knows_gpus else None,
        }

    def _start(self, pid: int, exec_handle: int, uuids: Sequence[str] | None) -> None:
        try:
            self._run = self._started(pid, exec_handle, uuids)
            self.problem = None
        except Exception as error:  # noqa: BLE001 - whatever it is, the program runs all the same, unmeasured
            self.problem = str(error)
        finally:
            os.close(self._ready_writer)

    def _started(self, pid: int, exec_handle: int, uuids: Sequence[str] | None) -> Run:
        # Imported after the fork: what the waiting process holds counts in the peak that the kernel keeps for it.
        from gpu_tracker.errors import ParameterError  # noqa: PLC0415
        from gpu_tracker.running.command import TrackedCommand  # noqa: PLC0415
        from gpu_tracker.running.options import QUICK_STOP, Options  # noqa: PLC0415
        from gpu_tracker.running.run import Run  # noqa: PLC0415

        def started(uuids: Sequence[str] | None) -> Run:
            options = Options(
                **QUICK_STOP,
                process_id=pid,
                disable_logs=True,
                sleep_time=_INTERVAL,
                ram_unit='bytes',
                gpu_ram_unit='bytes',
                gpu_uuids=uuids,
            )
            command = TrackedCommand((), launcher=os.getpid(), exec_handle=exec_handle)
            run = Run(options, lambda *_: None, command=command)
            if self.is_late:
                raise RuntimeError(self.problem)
            run.start()
            return run

        try:
            return started(uuids)
        except ParameterError:
            if uuids is None:
                raise
            self._knows_gpus = False
            return started(None)  # the driver does not know the GPUs, or does not answer
