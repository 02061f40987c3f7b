"""Starts a program and tracks it as one that it has only been told of: attached.py INTERVAL PROGRAM ARGUMENT...

The program is let go when it is tracked: its standard input comes to an end.
"""

import subprocess
import sys

from gpu_tracker import Tracker

if __name__ == '__main__':
    with subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE) as process:
        with Tracker(sleep_time=float(sys.argv[1]), process_id=process.pid):
            process.communicate()
        if process.returncode != 0:
            sys.exit(f'the program has ended with status {process.returncode}')
