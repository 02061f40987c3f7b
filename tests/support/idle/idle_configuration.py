"""Configuration texts of ``gpu-tracker idle`` read for users who are made up."""

from __future__ import annotations

from gpu_tracker.idle.config.file_access import Caller
from gpu_tracker.idle.config.parser import parse

HOMES = {'root': '/root', 'alice': '/home/alice', 'bob': '/home/bob'}
ROOT = Caller('root', is_root=True, folder='/srv', home_of=HOMES.get)
ALICE = Caller('alice', is_root=False, folder='/home/alice/work', home_of=HOMES.get)

PROGRAM = """\
[process-0]
dir=/tmp
cmd=miner-run
gpus=0
"""

TWO_README_EXAMPLES = (
    """\
[defaults]
; how frequently perform GPU and tty checks
interval_seconds=10

[gpu-all]
gpus=ALL
ignore_programs=nvidia-smi

[process-all]
dir=/tmp
cmd=miner-run
gpus=ALL
log=/dev/null

[tty]
enabled=True
whitelist=user1,user2
idle_seconds=300
""",
    """\
[defaults]
; how frequently perform GPU and tty checks
interval_seconds=10

[gpu-all]
gpus=ALL
ignore_programs=nvidia-smi

[process-0]
dir=/tmp
cmd=miner-run
gpus=0
log=/dev/null

[process-1]
dir=/tmp
cmd=miner-run\x20\x20
gpus=1
log=/dev/null

[tty]
enabled=True
whitelist=user1,user2
idle_seconds=300
""",
)


def settings(text, caller=ROOT):
    """Return the settings of a text that has neither errors nor warnings."""
    parsed = parse(text, caller)
    assert parsed.errors == ()
    assert parsed.warnings == ()
    return parsed.settings


def program(lines='', caller=ROOT):
    """Return the program of a section that has a few lines besides the required ones."""
    return settings(PROGRAM + lines, caller).programs[0]


def errors(text, caller=ROOT):
    """Return the errors of a text as a person sees them."""
    return [problem.describe('f.conf') for problem in parse(text, caller).errors]


def warnings(text, caller=ROOT):
    """Return the warnings of a text as a person sees them."""
    return [problem.describe('f.conf') for problem in parse(text, caller).warnings]
