"""Tools by which one writes probes of functions oneself."""

from __future__ import annotations

from benchmarks.environments import Tool


class Bpftrace(Tool):
    """bpftrace: a language of its own for probes."""

    name = 'bpftrace'
    requirement = None
    program = 'bpftrace'


class Bcc(Tool):
    """BCC: probes in C, and a Python program that reads what they tell."""

    name = 'BCC'
    requirement = None
    system_module = 'bcc'
