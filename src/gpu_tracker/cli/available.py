"""``gpu-tracker available``: names free GPUs, claims them, and runs a command on them."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from typing import TYPE_CHECKING

from gpu_tracker.cli import options, output
from gpu_tracker.errors import GpusUnavailableError
from gpu_tracker.gpus import visible_devices as visible
from gpu_tracker.gpus.backend import OF_DRM
from gpu_tracker.gpus.claims.folder import ClaimFolder
from gpu_tracker.gpus.inventory import Inventory
from gpu_tracker.gpus.pick import Picker, Terms, Waiting, purpose
from gpu_tracker.gpus.request import check_seconds, make_request
from gpu_tracker.gpus.vendor_variables import settings_for
from gpu_tracker.running.held_command import start_fault

if TYPE_CHECKING:
    from gpu_tracker.gpus.pick import Picked
    from gpu_tracker.gpus.request import Request

TEXT = """
Lists the free GPUs of this machine, or runs a command on them.

Usage:
  gpu-tracker available [options]
  gpu-tracker available [options] [--] <command> [<argument>...]

Options:
  -l --limit=<n>             Choose at most this number of free GPUs.
  -n --count=<n>             Choose exactly this number of free GPUs. If fewer are
                             free, exit with code 1.
  --max-used-percent=<p>     Choose GPUs with at most this percentage of their
                             memory in use. Without --max-utilization, programs and
                             utilization are not checked: a chosen GPU may be busy.
  --max-utilization=<p>      Choose GPUs with at most this utilization, in percent.
  --allow=<names>            Count a GPU as free even if these programs compute on
                             it. Separate the names by commas.
  --min-free=<size>          Choose GPUs with at least this much free memory, such
                             as 10GB or 8GiB.
  --max-temperature=<c>      Choose GPUs with at most this temperature, in degrees
                             Celsius.
  --order=<order>            Choose GPUs in this order: index, free (most free
                             memory first) or power (highest power limit first).
                             Default: free. With --max-used-percent but without
                             --max-utilization, the default is index.
  --gpu-brand, --gb=<brand>  Choose only GPUs of these brands, separated by commas:
                             nvidia, amd, intel, or drm for all GPUs that do not use
                             NVIDIA's own driver. Default: the first brand of nvidia,
                             amd, intel and others that has a dedicated GPU in this
                             machine.
  --uuid                     Print UUIDs instead of indices, for MIG devices too.
  --exclude=<gpus>           Choose none of these GPUs: indices or UUIDs, separated
                             by commas.
  --wait                     Wait until enough GPUs are free.
  --wait-seconds=<s>         Wait at most this number of seconds until enough GPUs
                             are free.
  --claim                    Reserve the GPUs until the command ends. Without a
                             command, reserve the GPUs for --claim-seconds.
                             gpu-tracker gives reserved GPUs to nobody else.
  --claim-seconds=<s>        Reserve the GPUs for at most this number of seconds.
                             Required for --claim without a command.
  -h --help                  Print this text.
  -v --version               Print the version.

By default, a GPU is free if no process other than display servers computes on it, its
utilization is below 5 %, and at most 20 % of its memory is in use.

Without a command, gpu-tracker prints the free GPUs, separated by commas. With a command,
gpu-tracker sets CUDA_VISIBLE_DEVICES to the GPUs and CUDA_DEVICE_ORDER to PCI_BUS_ID,
and then becomes the command (exec). If CUDA_VISIBLE_DEVICES is already set, gpu-tracker
chooses only from these GPUs. For AMD GPUs, the variable is ROCR_VISIBLE_DEVICES. For
Intel GPUs, the variable is ZE_AFFINITY_MASK.

Exit codes: 1 if no GPU is free, or fewer than -n (standard error has the reasons);
125 if the driver or gpu-tracker fails; 126 if the command cannot be started; 127 if the
command is not found.
"""

OPTION_OF = {
    'limit': '--limit',
    'count': '--count',
    'max_used_percent': '--max-used-percent',
    'max_utilization': '--max-utilization',
    'min_free': '--min-free',
    'max_temperature': '--max-temperature',
    'allow': '--allow',
    'order': '--order',
    'exclude': '--exclude',
    'gpu_brand': '--gb',
    'wait_seconds': '--wait-seconds',
    'claim_seconds': '--claim-seconds',
    'seconds': '--claim-seconds',  # of a claim
}
_NONE_FREE = 1


def run(values: options.Values) -> int:
    """Do what ``values`` ask for, and return the exit code."""
    program = values['<command>']
    words = program if isinstance(program, list) else None
    try:
        return _available(values, words)
    except GpusUnavailableError as error:
        output.complain(str(error))
        return _NONE_FREE


def _available(values: options.Values, words: list[str] | None) -> int:
    request = _request(values)
    terms = _terms(values, words)
    waiting = _waiting(values)
    if words is not None:
        fault = start_fault(words[0], os.get_exec_path())
        if fault is not None:
            return output.not_started(words[0], fault)
    inventory = Inventory(report=output.complain)
    picker = Picker(inventory, ClaimFolder(), report=output.complain)
    try:
        with closing(inventory):
            picked = picker.pick(request, terms, waiting)
            if words is not None and terms is None and any(gpu.idle_programs for gpu in picked.chosen):
                # Claimed unasked: else idle programs would stay, or come back before the command uses the GPU.
                terms = Terms(os.getpid(), None, purpose(words), survives_exec=True)
                picked = picker.pick(request, terms, waiting)
        _warn(request, picked, words)
        code = _print(request, picked, picker) if words is None else _become(words, request, picked)
    except BaseException:
        picker.release()
        raise
    if code:
        picker.release()
    return code


def _print(request: Request, picked: Picked, picker: Picker) -> int:
    """Print the names of the GPUs; from then on a claim needs no process any more."""
    if picked.uncounted and not request.by_uuid:
        output.complain(
            f'{picked.uncounted} cannot be read, so CUDA may number the remaining GPUs differently: use --uuid'
        )
    if picker.held is not None:
        picker.held.outlive_process()
    return output.print_text(f'{",".join(request.name(gpu) for gpu in picked.chosen)}\n')


def _request(values: options.Values) -> Request:
    if values['--limit'] is not None and values['--count'] is not None:
        raise options.UsageError('use either --limit (at most) or --count (exactly), not both')
    return make_request(
        max_used_percent=_number(values, '--max-used-percent'),
        max_utilization=_number(values, '--max-utilization'),
        min_free=_text(values, '--min-free'),
        max_temperature=_number(values, '--max-temperature'),
        allow=_text(values, '--allow') or (),
        limit=_whole_number(values, '--limit'),
        count=_whole_number(values, '--count'),
        order=_text(values, '--order'),
        uuid=bool(values['--uuid']),
        exclude=_text(values, '--exclude') or (),
        gpu_brand=_text(values, '--gb'),
        environment=os.environ,
    )


def _terms(values: options.Values, words: list[str] | None) -> Terms | None:
    seconds = check_seconds('claim_seconds', _seconds(values, '--claim-seconds'))
    if not values['--claim']:
        if seconds is not None:
            raise options.UsageError('--claim-seconds needs --claim')
        return None
    if words is None:
        if seconds is None:
            raise options.UsageError('--claim needs --claim-seconds or a command')
        return Terms(os.getpid(), seconds, None)
    return Terms(os.getpid(), seconds, purpose(words), survives_exec=True)


def _waiting(values: options.Values) -> Waiting | None:
    seconds = check_seconds('wait_seconds', _seconds(values, '--wait-seconds'))
    if seconds is None and not values['--wait']:
        return None
    return Waiting(seconds, lambda error: output.complain(f'waiting: {error}'))


def _warn(request: Request, picked: Picked, words: list[str] | None) -> None:
    """Warn if CUDA may choose other GPUs than the user expects."""
    order = os.environ.get(visible.ORDER_VARIABLE)
    given = request.environment.get(visible.VARIABLE)
    nvidia = [gpu for gpu in picked.gpus if gpu.gpu.vendor not in OF_DRM]
    if any(gpu in nvidia for gpu in picked.chosen) and visible.counts_otherwise(nvidia, given, order):
        output.complain(
            f'{visible.VARIABLE}={given} was read in PCI bus order, but CUDA uses another order by default: '
            f'set {visible.ORDER_VARIABLE}={visible.PCI_ORDER}'
        )
    is_list = words is None and (request.exactly, request.at_most) == (None, None)
    if len(picked.chosen) > 1 and any(gpu.parent is not None for gpu in picked.chosen) and not is_list:
        output.complain('a CUDA program can use only one MIG device and no other GPU: choose one with -l 1')


def _become(words: list[str], request: Request, picked: Picked) -> int:
    """Replace this process by the command on the picked GPUs; return an exit code only if that fails."""
    if picked.uncounted and not request.by_uuid:
        output.complain(
            f'{picked.uncounted} cannot be read, so CUDA may number the GPUs differently: '
            f'{visible.VARIABLE} is set to UUIDs'
        )
        request = request._replace(by_uuid=True)
    settings = settings_for(picked.chosen, os.environ, by_uuid=request.by_uuid)
    for remark in settings.remarks:
        output.complain(remark)
    changed = os.environ | {name: value for name, value in settings.variables.items() if value is not None}
    environment = {name: value for name, value in changed.items() if settings.variables.get(name, '') is not None}
    if sys.platform == 'win32':
        import subprocess  # noqa: PLC0415 - where a process cannot become another

        return subprocess.run(words, env=environment, check=False).returncode
    from gpu_tracker.running.held_command import execute, restore_signals  # noqa: PLC0415 - POSIX only

    restore_signals()
    try:
        execute(words, environment)
    except OSError as error:
        return output.not_started(words[0], error)
    return 0


def _number(values: options.Values, option: str) -> float | None:
    given = _text(values, option)
    return None if given is None else options.number(option, float, given, 'a number')


def _seconds(values: options.Values, option: str) -> float | None:
    given = _text(values, option)
    return None if given is None else options.time(option, given, 'a number')


def _whole_number(values: options.Values, option: str) -> int | None:
    given = _text(values, option)
    return None if given is None else options.number(option, int, given, 'a positive whole number')


def _text(values: options.Values, name: str) -> str | None:
    """Return the value of the option ``name`` as docopt has read it."""
    value = values.get(name)
    return value if isinstance(value, str) else None
