"""The exceptions of gpu-tracker."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def see(entry: str) -> str:
    """Return the sentence that ends the text of an error: the command that prints what to do.

    :param entry: The name of an entry of ``cli/messages.rst``; names stay as they are.
    """
    return f'See "gpu-tracker explain {entry}".'


class GpuTrackerError(Exception):
    """Base class of all errors of gpu-tracker."""


class ParameterError(GpuTrackerError, ValueError):
    """A parameter has an invalid value.

    The message's parts are the fields ``parameter``, ``value``, ``accepted`` and ``advice``.
    """

    def __init__(self, parameter: str, value: object, accepted: str, advice: str = '') -> None:
        super().__init__(f'{parameter} must be {accepted}, not {value!r}{advice and f". {advice}"}')
        self.parameter = parameter
        self.value = value
        self.accepted = accepted
        self.advice = advice

    def __reduce__(self) -> tuple[type[ParameterError], tuple[str, object, str, str]]:
        """Survive pickling, which would otherwise call the constructor with the text alone."""
        return type(self), (self.parameter, self.value, self.accepted, self.advice)


class TrackerStateError(GpuTrackerError, RuntimeError):
    """A method was called at the wrong time, such as ``start()`` twice."""


class SamplerError(GpuTrackerError, RuntimeError):
    """Nothing could be measured."""


class RecordingError(GpuTrackerError):
    """A recording cannot be written or read."""


class ReportError(GpuTrackerError, ValueError):
    """The given text or dictionary is not a valid report."""


class SubTrackingError(GpuTrackerError, ValueError):
    """A tracking file or a result file of ``SubTracker`` is invalid."""


class MissingPackageError(GpuTrackerError, ImportError):
    """A required Python package is not installed."""


class GpuError(GpuTrackerError):
    """A GPU driver does not work. ``cause`` is a short code for the reason, such as ``timeout``."""

    def __init__(self, message: str, cause: str) -> None:
        super().__init__(message)
        self.cause = cause

    def __reduce__(self) -> tuple[type[GpuError], tuple[str, str]]:
        """Survive pickling, which would otherwise call the constructor with the text alone."""
        return type(self), (str(self), self.cause)


class GpusUnavailableError(GpuTrackerError):
    """Too few GPUs are free. ``reasons`` lists why GPUs are not free."""

    def __init__(self, summary: str, reasons: Sequence[str]) -> None:
        super().__init__(''.join([summary, *(f'\n  {reason}' for reason in reasons)]))
        self.summary = summary
        self.reasons = tuple(reasons)

    def __reduce__(self) -> tuple[type[GpusUnavailableError], tuple[str, tuple[str, ...]]]:
        """Survive pickling, which would otherwise call the constructor with the text alone."""
        return type(self), (self.summary, self.reasons)


class ClaimsError(GpuTrackerError):
    """GPU claims cannot be read or written."""


class ClaimsLockedError(ClaimsError):
    """Another process locked the GPU claims for too long. Try again later."""


class ProbeUnavailableError(GpuTrackerError):
    """CUDA calls cannot be traced on this system."""


class GrantError(GpuTrackerError):
    """gpu-tracker cannot give a process access to GPUs."""
