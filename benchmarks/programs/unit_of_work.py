"""A unit of work: so many seconds of nothing; writes when it begins and ends into a file.

python unit_of_work.py SECONDS FILE
"""

from __future__ import annotations

import sys
import time

with open(sys.argv[2], 'a', buffering=1, encoding='ascii') as log:
    print(time.time(), file=log)
    time.sleep(float(sys.argv[1]))
    print(time.time(), file=log)
