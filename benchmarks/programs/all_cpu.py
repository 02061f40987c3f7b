"""Runs a command to its end and prints, as JSON, the seconds it took and the CPU seconds of all that it has started.

all_cpu.py WORDS...: what the command leaves behind is waited for and counts as well, prctl(2): PR_SET_CHILD_SUBREAPER.
"""

import ctypes
import json
import os
import resource
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36

if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))
start = time.perf_counter()
code = subprocess.run(sys.argv[1:], check=False, stdout=subprocess.DEVNULL).returncode
seconds = time.perf_counter() - start
try:
    while True:
        os.wait()
except ChildProcessError:
    pass  # nothing is left
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({'seconds': seconds, 'cpu': used.ru_utime + used.ru_stime}))
sys.exit(code)
