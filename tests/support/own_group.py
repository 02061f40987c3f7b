"""Programs that are tracked with a control group of their own, and what the files of that group say to them."""

from __future__ import annotations

MEBIBYTE = 2**20
OPTIONS = ('--cgroup', '--ru=bytes', '-f', 'json')
"""Those by which the figures of the group can be compared."""
NO_STORAGE = (
    'not counted: what was read from storage (the io controller), '
    'what was written to storage (the io controller of version 2)'
)

OWN_FILES = """
import json, os, select, sys, time
def folder_of(controller=''):
    lines = [line.rstrip('\\n').split(':', 2) for line in open('/proc/self/cgroup')]
    path = next(path for _, names, path in lines if controller in names.split(','))
    for line in open('/proc/self/mounts'):
        _, point, kind, options = line.split(' ')[:4]
        if kind == 'cgroup2' if not controller else kind == 'cgroup' and controller in options.split(','):
            return (point + path).rstrip('/')
def own(name, controller=''):
    path = f'{folder_of(controller)}/{name}'
    return open(path).read().split() if os.path.exists(path) else []
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
"""
"""The beginning of a program that reads the files of its group, of version 1 where it names a controller."""

DAEMON = f"""{OWN_FILES}
before = time.process_time()
reading, writing = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        burn(0.3)
        os.write(writing, b'%d %f' % (os.getpid(), time.process_time()))
    os._exit(0)
os.wait()
os.close(writing)
pid, of_daemon = os.read(reading, 100).split()
of_daemon = float(of_daemon)
try:
    select.select([os.pidfd_open(int(pid))], [], [])  # until it has ended
except ProcessLookupError:
    pass
print(json.dumps([of_daemon, time.process_time() - before]))
"""
"""Has a daemon for which nobody waits, and which has ended before it; prints the CPU seconds of both.

Those of its own first steps are left out, some of which were before it got into the group.
"""
