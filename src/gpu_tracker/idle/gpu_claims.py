"""Keeps other monitors away from the GPUs of this one, and this one from theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.idle.watch_names import WatchNames

if TYPE_CHECKING:
    import logging
    from collections.abc import Mapping

    from gpu_tracker.idle.gpu_id import GpuId
    from gpu_tracker.idle.observation import Observation


class GpuClaims:
    """Which of the GPUs belong to this monitor."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._names = WatchNames()
        self._told: set[GpuId] = set()

    def make(self, identities: Mapping[GpuId, str]) -> None:
        """Claim all GPUs that are there when the monitor starts.

        :param identities: What each is known by for all monitors.
        :raises GpuTrackerError: Another monitor watches one of them.
        """
        taken = self._taken(identities)
        if taken:
            who = '; '.join(f'GPU {gpu} is watched by {holder}' for gpu, holder in taken.items())
            raise GpuTrackerError(f'{who}. A [gpu-NAME] section in the configuration says which GPUs to watch.')

    def without_taken(self, observation: Observation, identities: Mapping[GpuId, str]) -> Observation:
        """Claim GPUs that have appeared, and return what is seen without those that another monitor was quicker to."""
        taken = self._taken(identities)
        for gpu, holder in taken.items():
            if gpu not in self._told:
                self._log.warning('GPU %s is watched by %s, and left alone', gpu, holder)
        self._told = set(taken)
        if not taken:
            return observation
        return observation._replace(gpus=tuple(seen for seen in observation.gpus if seen.gpu not in taken))

    def close(self) -> None:
        """Leave all GPUs to others."""
        self._names.close()

    def _taken(self, identities: Mapping[GpuId, str]) -> dict[GpuId, str]:
        found = {taken.identity: str(taken) for taken in self._names.claim(identities.values())}
        return {gpu: found[identity] for gpu, identity in identities.items() if identity in found}
