#!/bin/sh
# One report of all ranks that mpirun starts, of Open MPI or of MPICH:
#
#   sh examples/jobs/mpirun.sh python train.py
mpirun -n 4 gpu-tracker --job=results -- "$@"
status=$?
# Use a new folder for each run: runs in the same folder are added up.
gpu-tracker merge results -o results/report.txt
exit "$status"
