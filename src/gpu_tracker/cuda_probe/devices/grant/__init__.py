"""Gives the control group of a process the right to open the device files of NVIDIA GPUs."""

from __future__ import annotations

from gpu_tracker.cuda_probe.devices.grant.choose import plan
from gpu_tracker.cuda_probe.devices.grant.plan import GrantPlan, apply, report

__all__ = ['GrantPlan', 'apply', 'plan', 'report']
