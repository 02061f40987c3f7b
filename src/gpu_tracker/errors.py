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
    """Anything that gpu-tracker itself could not do; its text is written for the person who reads it."""


class ParameterError(GpuTrackerError, ValueError):
    """A parameter has a value that cannot be used.

    ``parameter`` is its name, ``value`` what was given and ``accepted`` what would have been accepted, so that the
    command line can say the same of the option that the value came from. ``advice`` says what to do, in sentences that
    follow; it is empty where that is plain.
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
    """A tracker was started, stopped or asked for its result at the wrong time."""


class SamplerError(GpuTrackerError, RuntimeError):
    """The sampling subprocess could not be started, or ended before it had measured anything."""


class RecordingError(GpuTrackerError):
    """A recording cannot be written or read; the text names the file and says what is wrong with it."""


class ReportError(GpuTrackerError, ValueError):
    """A text or a dictionary is no report; the text says what of it is something else."""


class SubTrackingError(GpuTrackerError, ValueError):
    """A file of code blocks, of what was measured, or of results is something else; the text names it and says what."""


class MissingPackageError(GpuTrackerError, ImportError):
    """A package is not installed that is needed for what was asked for; the text says which."""


class GpuError(GpuTrackerError):
    """A GPU driver is there but does not answer as it should; ``cause`` is a short, stable name of the reason."""

    def __init__(self, message: str, cause: str) -> None:
        super().__init__(message)
        self.cause = cause

    def __reduce__(self) -> tuple[type[GpuError], tuple[str, str]]:
        """Survive pickling, which would otherwise call the constructor with the text alone."""
        return type(self), (str(self), self.cause)


class GpusUnavailableError(GpuTrackerError):
    """Not as many GPUs as wanted are free; ``reasons`` says of each GPU that is not what stands in the way."""

    def __init__(self, summary: str, reasons: Sequence[str]) -> None:
        super().__init__(''.join([summary, *(f'\n  {reason}' for reason in reasons)]))
        self.summary = summary
        self.reasons = tuple(reasons)

    def __reduce__(self) -> tuple[type[GpusUnavailableError], tuple[str, tuple[str, ...]]]:
        """Survive pickling, which would otherwise call the constructor with the text alone."""
        return type(self), (self.summary, self.reasons)


class ClaimsError(GpuTrackerError):
    """Claims on GPUs could not be read or made: their folder cannot be used, or somebody keeps it locked."""


class ClaimsLockedError(ClaimsError):
    """Somebody has kept the claims on GPUs locked for too long; later it may go."""


class ProbeUnavailableError(GpuTrackerError):
    """CUDA calls cannot be probed here; the text is one sentence that names what is missing."""


class GrantError(GpuTrackerError):
    """A process could not be given access to GPUs; the text says what stands in the way."""
