#!/bin/sh
# One report of all ranks that mpirun starts, of Open MPI or of MPICH:
#
#   sh examples/jobs/mpirun.sh python train.py
mpirun -n 4 gpu-tracker --job=results -- "$@"
status=$?
# Give each run a folder of its own: what runs write into the same one is added up.
gpu-tracker merge results -o results/report.txt
exit "$status"
