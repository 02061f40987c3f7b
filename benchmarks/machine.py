"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime

_GIGABYTE = 10**9


def describe() -> dict[str, str]:
    """Return one text a property."""
    memory = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / _GIGABYTE
    return {
        'Processor': f'{_processor()}, {os.cpu_count()} cores, {memory:.0f} GB of memory',
        'System': f'{platform.system()} {platform.release()}, Python {platform.python_version()}',
    }


def conditions() -> str:
    """Return when this is, and what the machine has been doing besides."""
    return f'{datetime.now(UTC).date().isoformat()}, load average before {os.getloadavg()[0]:.1f}'


def _processor() -> str:
    with open('/proc/cpuinfo', encoding='ascii', errors='replace') as file:
        for line in file:
            if line.startswith('model name'):
                return line.partition(':')[2].strip()
    return platform.machine()
