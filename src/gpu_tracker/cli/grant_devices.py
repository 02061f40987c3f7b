"""``gpu-tracker grant-devices``: lets the control group of a process open the device files of NVIDIA GPUs."""

from __future__ import annotations

import os
import sys

from gpu_tracker.cli import options, output, request
from gpu_tracker.cli.running_process import no_process
from gpu_tracker.errors import GpuTrackerError

TEXT = """
Gives the control group of a process access to the device files of the NVIDIA GPUs.

Usage:
  gpu-tracker grant-devices --pid=<pid> [--dry-run]

Options:
  --pid=<pid>           Give access to the control group of the process with this
                        ID.
  --dry-run             Change nothing. Print what would be done and how to undo it.
  -h --help             Print this text.
  -v --version          Print the version.

In a control group of version 1, rules are added to its devices.allow. In a group of
version 2, systemd allows the unit the devices until its next start; device filters of
other programs stay. The changes are printed, with how to undo them. This command needs
root. If it fails, the exit code is 125 and the reason is on standard error.
"""


def run(values: options.Values) -> int:
    """Do what ``values`` ask for, and return the exit code."""
    if sys.platform != 'linux':
        raise GpuTrackerError('grant-devices runs on Linux only')
    pid = request.process_id(str(values['--pid']))
    if not os.path.isdir(f'/proc/{pid}'):
        raise no_process(pid)
    from gpu_tracker.cuda_probe.devices import grant, grant_plan  # noqa: PLC0415 - not where only help is wanted

    plan = grant.plan(pid)
    if not values['--dry-run']:
        grant_plan.apply(plan)
    return output.print_text(grant_plan.report(plan, is_done=not values['--dry-run']))
