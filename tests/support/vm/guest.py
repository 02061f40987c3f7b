"""The first process of the virtual machine, which does what comes over the second serial port.

An order is a line of JSON with the name of a function below and its arguments, and so is its answer.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import termios
import tty

GROUPS = '/sys/fs/cgroup'
OWNED = ('', 'cgroup.procs', 'cgroup.subtree_control', 'cgroup.threads')
"""The files of a group that is delegated, and its folder: cgroups(7)."""


def run(words, user, group, environment):
    """Run a command to its end."""

    def prepare() -> None:
        if group is not None:
            write(f'{group}/cgroup.procs', '0')
        if user:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)

    # Not pipes: what a command leaves in the background would keep them open.
    with open('/tmp/output', 'w+b') as output, open('/tmp/errors', 'w+b') as errors:
        done = subprocess.run(
            words,
            env={**os.environ, **environment},
            preexec_fn=prepare,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            cwd='/tmp',
            check=False,
        )
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode(errors='replace'))
    return {'code': done.returncode, 'output': texts[0], 'errors': texts[1]}


def read(path):
    """Return the text of a file."""
    with open(path, encoding='utf-8') as file:
        return file.read()


def write(path, text):
    """Write into a file with one call."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def put(path, text):
    """Write a file, and make its folder where there is none."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


def names(path):
    """Return the names of the folders in a folder."""
    return sorted(entry.name for entry in os.scandir(path) if entry.is_dir())


def make_group(path, owner):
    """Make a group that belongs to a user."""
    os.mkdir(path)
    for name in OWNED:
        os.chown(f'{path}/{name}', owner, owner)


def remove_group(path):
    """Remove a group in which nothing is, with those below it."""
    for folder, _, _ in os.walk(path, topdown=False):
        os.rmdir(folder)


ORDERS = {order.__name__: order for order in (run, read, write, put, names, make_group, remove_group)}


def mount(kind, folder):
    """Mount a file system of the kernel."""
    os.makedirs(folder, exist_ok=True)
    if ctypes.CDLL(None, use_errno=True).mount(kind.encode(), folder.encode(), kind.encode(), 0, None):
        raise OSError(ctypes.get_errno(), f'{kind} cannot be mounted')


def main():
    """Mount what programs expect, and do what comes, for good."""
    for kind, folder in (('proc', '/proc'), ('sysfs', '/sys'), ('devtmpfs', '/dev')):
        mount(kind, folder)
    for folder in ('/tmp', '/dev/shm'):
        mount('tmpfs', folder)
    mount('cgroup2', GROUPS)
    console = os.open('/dev/console', os.O_RDWR)
    for number in range(3):
        os.dup2(console, number)
    port = os.open('/dev/ttyS1', os.O_RDWR | os.O_NOCTTY)
    tty.setraw(port, termios.TCSANOW)
    os.write(port, b'ready\n')
    with open(port, 'rb', buffering=0) as received:
        rest = b''
        while True:
            while b'\n' not in rest:
                rest += received.read(4096)
            line, _, rest = rest.partition(b'\n')
            order = json.loads(line)
            try:
                answer = {'result': ORDERS[order.pop('name')](**order)}
            except OSError as error:
                answer = {'failure': f'{type(error).__name__}: {error}'}
            data = memoryview(json.dumps(answer).encode() + b'\n')
            while data:
                data = data[os.write(port, data) :]
            reap()


def reap():
    """Wait for the orphans that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        pass


main()
