"""Track all ranks of an MPI program, and print in rank 0 which was the slowest."""

from mpi4py import MPI

import gpu_tracker as gput
from gpu_tracker.mpi import Tracker

rank = MPI.COMM_WORLD.rank
with Tracker(sleep_time=0.1) as tracker, gput.region('squares'):
    sum(number * number for number in range((rank + 1) * 1_000_000))

if tracker.job is not None:  # in rank 0
    for each in tracker.job.ranks:
        print('rank', each.rank, 'used', each.cpu_seconds, 's of CPU time')
    for region in tracker.job.regions:
        print('rank', region.slowest_rank, 'was the slowest in', region.path[0])
