"""The IDs of the running kernel and of this process's PID namespace; Linux only."""

from __future__ import annotations

from gpu_tracker.real import os


def boot_id(proc: str = '/proc') -> str | None:
    """Return the boot ID, random(4), which is new after each restart; None if it is unknown.

    A container may have its own.
    """
    try:
        with open(f'{proc}/sys/kernel/random/boot_id', encoding='utf-8') as file:
            return file.read().strip() or None
    except (OSError, ValueError):
        return None


def pid_namespace(proc: str = '/proc') -> int | None:
    """Return the ID of this process's PID namespace, pid_namespaces(7); None if the system has none."""
    try:
        return os.stat(f'{proc}/self/ns/pid').st_ino
    except OSError:
        return None
