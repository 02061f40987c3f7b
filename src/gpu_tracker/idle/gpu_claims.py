"""Keeps other monitors away from the GPUs of this one, and this one from theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.users import user_name

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Iterable, Mapping

    from gpu_tracker.idle.config.idle_settings import GpuId
    from gpu_tracker.idle.state import Observation
    from gpu_tracker.idle.watch_names import Taken

    class Names(Protocol):
        """See :class:`~gpu_tracker.idle.watch_names.WatchNames`."""

        def claim(self, identities: Iterable[str]) -> tuple[Taken, ...]:
            """Take the names of GPUs, and return those that others have."""

        def release(self, identities: Iterable[str]) -> None:
            """Give names back."""

        def close(self) -> None:
            """Give all names back."""


class GpuClaims:
    """Which of the GPUs belong to this monitor.

    :param names: Nobody else's.
    :param is_root: Whether this monitor is root's: then it gives way to no other user, who could keep it from starting.
    :param name_of: Tells the name of the user with an ID.
    """

    def __init__(
        self, log: logging.Logger, names: Names, *, is_root: bool, name_of: Callable[[int], str] = user_name
    ) -> None:
        self._log = log
        self._name_of = name_of
        self._names = names
        self._is_root = is_root
        self._gpus: dict[str, GpuId] = {}
        """Which GPUs were claimed, by what they were known by."""
        self._told: set[GpuId] = set()

    def make(self, identities: Mapping[GpuId, str]) -> None:
        """Claim all GPUs that are there when the monitor starts.

        :param identities: What each is known by for all monitors.
        :raises GpuTrackerError: Another monitor watches one of them.
        """
        taken = self._taken(identities)
        if taken:
            who = '; '.join(f'GPU {gpu} is watched by {self._who(one)}' for gpu, one in taken.items())
            raise GpuTrackerError(f'{who}. A [gpu-NAME] section in the configuration says which GPUs to watch.')

    def without_taken(self, observation: Observation, identities: Mapping[GpuId, str]) -> Observation:
        """Claim GPUs that have appeared, and return what is seen without those that another monitor was quicker to."""
        taken = self._taken(identities)
        for gpu, one in taken.items():
            self._tell(gpu, one, ', and left alone')
        if not taken:
            return observation
        return observation._replace(gpus=tuple(seen for seen in observation.gpus if seen.gpu not in taken))

    def keep(self, is_needed: Callable[[GpuId], bool]) -> None:
        """Leave to others those GPUs that are not needed any more; one that is only absent is."""
        given_up = [identity for identity, gpu in self._gpus.items() if not is_needed(gpu)]
        self._names.release(given_up)
        for identity in given_up:
            del self._gpus[identity]

    def close(self) -> None:
        """Leave all GPUs to others."""
        self._names.close()

    def _taken(self, identities: Mapping[GpuId, str]) -> dict[GpuId, Taken]:
        """Claim GPUs, and return those that another has who is not to be passed over."""
        self._gpus.update((identity, gpu) for gpu, identity in identities.items())
        found = {taken.identity: taken for taken in self._names.claim(identities.values())}
        of_others = {gpu: found[identity] for gpu, identity in identities.items() if identity in found}
        self._told &= set(of_others)
        passed_over = {gpu for gpu, taken in of_others.items() if self._is_passed_over(taken)}
        for gpu in passed_over:
            self._tell(gpu, of_others[gpu], ' too, to whom root does not give way')
        return {gpu: taken for gpu, taken in of_others.items() if gpu not in passed_over}

    def _is_passed_over(self, taken: Taken) -> bool:
        # One whose holder is not known was taken without waiting for who asks, or too many ask: anybody can do that.
        return self._is_root and (taken.holder is None or taken.holder.user_id != 0)

    def _tell(self, gpu: GpuId, taken: Taken, rest: str) -> None:
        """Warn once of who has a GPU, as long as somebody has it."""
        if gpu not in self._told:
            self._told.add(gpu)
            self._log.warning('GPU %s is watched by %s%s', gpu, self._who(taken), rest)

    def _who(self, taken: Taken) -> str:
        return taken.in_words(self._name_of)
