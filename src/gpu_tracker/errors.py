"""The exceptions of gpu-tracker, one small tree."""

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
    """A parameter cannot be used.

    :ivar parameter: Name of the parameter.
    :ivar value: The given value.
    :ivar accepted: Accepted values.
    :ivar advice: What to do instead; may be empty.
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
    """A call at the wrong time, such as a second ``start()``."""


class SamplerError(GpuTrackerError, RuntimeError):
    """Nothing could be measured."""


class RecordingError(GpuTrackerError):
    """A recording cannot be written or read."""


class ReportError(GpuTrackerError, ValueError):
    """A text or a dictionary is not a report."""


class SubTrackingError(GpuTrackerError, ValueError):
    """A file of ``SubTracker``, such as a tracking file or a result, is invalid."""


class MissingPackageError(GpuTrackerError, ImportError):
    """A Python package that is needed is not installed."""


class GpuError(GpuTrackerError):
    """A GPU driver fails. ``cause`` is a short name of the reason, for programs to check."""

    def __init__(self, message: str, cause: str) -> None:
        super().__init__(message)
        self.cause = cause

    def __reduce__(self) -> tuple[type[GpuError], tuple[str, str]]:
        """Survive pickling, which would otherwise call the constructor with the text alone."""
        return type(self), (str(self), self.cause)


class GpusUnavailableError(GpuTrackerError):
    """Too few GPUs are free. ``reasons`` says why the other GPUs are not free."""

    def __init__(self, summary: str, reasons: Sequence[str]) -> None:
        super().__init__(''.join([summary, *(f'\n  {reason}' for reason in reasons)]))
        self.summary = summary
        self.reasons = tuple(reasons)

    def __reduce__(self) -> tuple[type[GpusUnavailableError], tuple[str, tuple[str, ...]]]:
        """Survive pickling, which would otherwise call the constructor with the text alone."""
        return type(self), (self.summary, self.reasons)


class ClaimsError(GpuTrackerError):
    """Claims on GPUs cannot be read or written."""


class ClaimsLockedError(ClaimsError):
    """Another process kept the file of the claims locked for too long. Try again later."""


class ProbeUnavailableError(GpuTrackerError):
    """CUDA calls cannot be probed here."""


class GrantError(GpuTrackerError):
    """A process cannot get access to GPUs."""
