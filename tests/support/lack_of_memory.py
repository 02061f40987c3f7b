"""Programs that take more memory than their control group may have."""

from __future__ import annotations

HOG = """
import os, sys
for folder in sys.argv[2:]:
    os.mkdir(folder)
    open(folder + '/cgroup.procs', 'w').write('0')
open('/proc/self/oom_score_adj', 'w').write('1000')
blocks = [b'x' * 1_000_000 for _ in range(int(sys.argv[1]))]
"""
"""Takes as many megabytes as its first argument says. The others are groups: it makes them and moves into each. Where
there is no room, the kernel kills it before any other process."""

LET_ONE_BE_KILLED = f"""
import os, sys, time
def let_one_be_killed(usage_file, *words):
    '''Run the hog; return its exit code once its memory is free.

    The kernel keeps that as long as anybody reads of it in /proc, as samplers do, and whoever of a full group asks for
    memory before is killed next. Hence all that is needed here is there before: the hog has run once with nothing.
    '''
    usage = os.open(usage_file, os.O_RDONLY)
    used = lambda: int(os.pread(usage, 30, 0))
    for taken in (('0',), words):
        before = used()
        pid = os.posix_spawn(sys.executable, [sys.executable, '-S', '-c', {HOG!r}, *taken], os.environ)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        latest = time.monotonic() + 2  # others of the group may have grown meanwhile
        while used() > before + 20_000_000 and time.monotonic() < latest: pass
    os.close(usage)
    return code
"""
"""The beginning of a program that runs the hog and survives it, though it is of the same group."""

HOGS = f"""{LET_ONE_BE_KILLED}
for folders in ([], *[[folder] for folder in sys.argv[3:]]): let_one_be_killed(*sys.argv[1:3], *folders)
"""
"""Runs one in its own group, and one in each of the folders; wants the file with the group's memory before."""
