"""The real ``os``, ``time`` and ``fcntl``, for what runs in the measured process.

Tests of that process replace them: pyfakefs replaces the modules, freezegun functions of ``time``, wherever they are an
attribute of a loaded module. They do not find the copies here.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os as os  # noqa: PLC0414 - exported
    import time as time  # noqa: PLC0414 - as above

    if sys.platform != 'win32':
        import fcntl as fcntl  # noqa: PLC0414 - as above
else:
    import os as _os
    import time as _time

    _namespace = type(sys.implementation)  # types.SimpleNamespace, without that import
    os = _namespace(**vars(_os))
    time = _time.__loader__.create_module(_time.__spec__)  # made anew: it may be frozen already
    _time.__loader__.exec_module(time)
    if sys.platform != 'win32':
        import fcntl as _fcntl

        fcntl = _namespace(**vars(_fcntl))
