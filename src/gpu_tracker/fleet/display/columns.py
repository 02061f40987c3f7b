"""The columns of the table of GPUs."""

from __future__ import annotations

from gpu_tracker.table_layout import Column

INDEX = 'index'
MARK = 'mark'

COLUMNS = (
    Column(INDEX, 'GPU'),
    Column(MARK, ''),
    Column('type', 'type', least=14),
    Column('utilization', 'util', is_number=True),
    Column('memory', 'memory GB', is_number=True),
    Column('temperature', 'temp', is_number=True),
    Column('clock', 'MHz', is_number=True),
    Column('power', 'power', is_number=True),
    Column('users', 'users', least=8),
    Column('since', 'since', least=11),
    Column('pids', 'pids', least=7),
    Column('command', 'command', least=10),
)

LEFT_OUT_FIRST = ('clock', 'power', 'since', 'temperature', 'pids', 'type', 'command', 'utilization', 'users')
"""Which columns go where there is no room, the first of these first; the others stay."""
