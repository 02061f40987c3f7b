"""What every test can rely on, whoever has started the tests."""

from __future__ import annotations

import signal

from hypothesis import settings

# A shell that starts a program in the background, and nohup, let it ignore these, and all that it starts inherits that.
for name, handler in (('SIGINT', signal.default_int_handler), ('SIGHUP', signal.SIG_DFL), ('SIGQUIT', signal.SIG_DFL)):
    if signal.getsignal(getattr(signal, name)) is signal.SIG_IGN:
        signal.signal(getattr(signal, name), handler)

# How long an example takes says how busy the machine is; pytest-timeout ends a test that hangs.
settings.register_profile('gpu-tracker', deadline=None)
settings.load_profile('gpu-tracker')
