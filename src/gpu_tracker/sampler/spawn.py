"""Starts the sampling subprocess.

Not with :mod:`multiprocessing`, which would import or copy the program that is measured. The interpreter is started
with ``-S`` and without ``PYTHON*`` variables, and its path is the standard library first, then where this package is,
then the path of this process: what lies in the user's folders can hide nothing, and start-up costs a quarter.

On Linux it is not a child of the measured program, see :mod:`gpu_tracker.sampler.adopted`; elsewhere it is.
"""

from __future__ import annotations

import marshal
import re
import sys

from gpu_tracker.errors import SamplerError
from gpu_tracker.processes import SAMPLER_MARK
from gpu_tracker.real import os, time
from gpu_tracker.sampler.descriptors import CONTROL, EXEC, RECORDING, STATUS, STORE, is_readable, pipe

if sys.platform == 'linux':
    # The kernel's own: gevent's os.waitpid waits for a SIGCHLD that is held back meanwhile, and eventlet's sleeps.
    from posix import wait4

    from gpu_tracker.sampler.adopted import spawn_on_linux

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from typing import Any

    from gpu_tracker.sampler.store import Store
    from gpu_tracker.sampler.unseen import Stub
    from gpu_tracker.totals import Configuration

_BOOTSTRAP = """\
import gc, marshal, sys
gc.disable()
content, length = b'', int(sys.argv[4])
with open(int(sys.argv[2]), 'rb', 0, closefd=False) as control:  # without a buffer, into which messages might come
    while len(content) < length:
        content += control.read(length - len(content)) or sys.exit()
config = marshal.loads(content)
sys.path += [entry for entry in config['path'] if entry not in sys.path]
from gpu_tracker.sampler.process import main
main(config, int(sys.argv[2]), int(sys.argv[3]))
"""
LONGEST_START = 8.0
"""Seconds until a sampler must be ready; it waits 5 s at most for a driver."""
_PAUSE = 0.001
"""Seconds between two attempts to write to a full pipe."""
FLAGS = ('-P', '-s', '-S')
"""Of the interpreter."""
_KEPT_VARIABLES = ('PYTHONHOME', 'PYTHONPLATLIBDIR', 'PYTHONDONTWRITEBYTECODE', 'PYTHONPYCACHEPREFIX')
"""Without the first two some interpreters do not find their standard library; the others say where not to write."""
_PACKAGE_PARENT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""Found out when this is imported: where it is a relative path, the program may change its folder afterwards."""
_INTERPRETER = re.compile(r'(python|pypy|graalpy)w?[\d.]*t?d?(-dbg|-intel64)?(\.exe)?', re.IGNORECASE)


class OwnChildren:
    """The children of this process that are trackers' own: what has started a sampler, and samplers that it adopts."""

    faults = 0
    """Page faults of those that were waited for, which count as those of the program's children (Linux)."""
    peak = 0
    """Bytes that the largest of them had."""

    @classmethod
    def wait_for(cls, pid: int, options: int = 0) -> None:
        """Wait for one of them, unless the program has done so; see wait4(2)."""
        try:
            if sys.platform == 'linux':
                used = wait4(pid, options)[2]
                cls.faults += used.ru_minflt + used.ru_majflt
                cls.peak = max(cls.peak, used.ru_maxrss * 1024)
        except ChildProcessError:
            pass  # SIGCHLD is ignored here, or another thread waits for any child


class Channels:
    """This process' ends: where messages to the sampler go, and where its messages come from."""

    def __init__(self, control: int, status: int) -> None:
        self.control = control
        self.status = status
        self.ready_by = time.monotonic() + LONGEST_START
        self.group = 0
        """The process group of the sampler; on Windows its pid."""
        self.child: subprocess.Popen[bytes] | None = None
        """The sampler where it is a child of this process, which it is not on Linux."""
        self.stub: Stub | None = None
        """The sampler's parent, if this process would adopt the sampler otherwise (Linux)."""

    def send_configuration(self, content: bytes) -> None:
        """Send what the sampler is to do, while this process holds the reading end too: no SIGPIPE can come.

        A pipe may hold less than that. Then the sampler has to read meanwhile, unless it does not start.
        """
        if sys.platform == 'win32':
            os.write(self.control, content)
            return
        os.set_blocking(self.control, False)
        while content and time.monotonic() < self.ready_by:
            try:
                content = content[os.write(self.control, content) :]
            except BlockingIOError:
                if self.is_readable(_PAUSE):
                    break  # it has failed, which :meth:`Session.wait_until_ready` reports
        os.set_blocking(self.control, True)

    def is_readable(self, seconds: float) -> bool:
        """Wait for a message, or the end of the sampler."""
        return is_readable(self.status, seconds)

    def close(self) -> None:
        """Close both."""
        os.close(self.control)
        os.close(self.status)

    def wait_for_child(self, seconds: float) -> None:
        """Wait for the end of a child that ends with the sampler, which has been asked to end, and reap it."""
        if self.stub is not None:
            self.stub.reap(seconds, OwnChildren.wait_for)
        if self.child is not None:
            from subprocess import TimeoutExpired  # noqa: PLC0415 - costs 13 ms; it has been imported to start the child

            self.child.returncode = None
            try:
                self.child.wait(seconds)
            except TimeoutExpired:
                self.child.returncode = 0  # as before


def interpreter() -> str:
    """Return the path of the Python interpreter that runs this process.

    :raises SamplerError: where ``sys.executable`` is none, as in frozen and embedding programs: started again, they
        would run a second copy of the program.
    """
    path = sys.executable
    if not path:
        problem = 'is not set'
    elif getattr(sys, 'frozen', False) or '__compiled__' in vars(sys.modules.get('__main__', sys)):
        problem = f'is {path!r}, a frozen program'
    elif not os.access(path, os.X_OK, effective_ids=os.access in os.supports_effective_ids) or os.path.isdir(path):
        problem = f'is {path!r}, which is no executable file'
    elif not any(_INTERPRETER.fullmatch(os.path.basename(name)) for name in (path, os.path.realpath(path))):
        problem = f'is {path!r}, which is not a Python interpreter by its name'
    else:
        return path
    message = (
        f'The sampler runs in a Python interpreter of its own, but sys.executable {problem}. '
        'Set sys.executable to the path of a Python interpreter before the tracker is started.'
    )
    raise SamplerError(message)


def spawn(config: Configuration, store: Store, path: str | None) -> Channels:
    """Start a sampler and return the channels to it.

    :param config: What to sample.
    :param store: Where the sampler leaves what it has measured.
    :param path: By which it opens the store where it cannot inherit it.
    :raises SamplerError: where there is no interpreter to run it.
    """
    executable = interpreter()
    exec_handle = config['exec_handle']
    if exec_handle is not None:
        config = {**config, 'exec_handle': EXEC if sys.platform == 'linux' else None}
    recording_handle = config['recording_handle']
    if recording_handle is not None:
        config = {**config, 'recording_handle': RECORDING if sys.platform == 'linux' else None}
    plain: Any = {
        **config,
        'path': search_path(),
        'store_handle': STORE,
        'store_path': path,
        'store_place': store.place,
    }
    content = marshal.dumps(plain)
    control_read, control_write = pipe()
    try:
        status_read, status_write = pipe()
    except BaseException:
        os.close(control_read)
        os.close(control_write)
        raise
    channels = Channels(control_write, status_read)
    try:
        words = [executable, *FLAGS, '-c', _BOOTSTRAP, SAMPLER_MARK]
        if sys.platform == 'linux':
            words += [str(CONTROL), str(STATUS), str(len(content))]
            handles = {
                STATUS: status_write,
                STORE: store.handle,
                CONTROL: control_read,
                EXEC: exec_handle,
                RECORDING: recording_handle,
            }
            channels.group, channels.stub = spawn_on_linux(
                words,
                FLAGS,
                environment(),
                handles,
                OwnChildren.wait_for,
                reaps_orphans=config['launcher'] == os.getpid(),
            )
        else:
            words += ['0', '1', str(len(content))]
            channels.child = _spawn_child(words, control_read, status_write)
            channels.group = channels.child.pid
        channels.send_configuration(content)
    except BaseException:
        channels.close()
        raise
    finally:
        os.close(control_read)
        os.close(status_write)
    return channels


def search_path() -> list[str]:
    """Return where the sampler finds this package, psutil and the GPU library: where this process does."""
    entries = [os.fspath(entry) for entry in sys.path if entry and isinstance(entry, (str, os.PathLike))]
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        return [_PACKAGE_PARENT, *filter(os.path.isabs, entries)]  # it was removed, and all that was in it
    return [_PACKAGE_PARENT, *(os.path.join(folder, entry) for entry in entries)]


def environment() -> dict[str, str]:
    """Return the variables with which the interpreter is started."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith('PYTHON') or name in _KEPT_VARIABLES
    }


def _spawn_child(words: list[str], control: int, status: int) -> subprocess.Popen[bytes]:
    """Start the sampler as a child, where there is no init that adopts."""
    import subprocess  # noqa: PLC0415 - costs 13 ms

    flags = getattr(subprocess, 'CREATE_NEW_PROCESS_GROUP', 0)
    child = subprocess.Popen(
        words,
        stdin=control,
        stdout=status,
        stderr=status,
        env=environment(),
        start_new_session=os.name == 'posix',
        creationflags=flags,
    )
    child.returncode = 0  # it is reaped after the stop; Popen must not warn that it still runs in between
    return child
