#!/bin/sh
#SBATCH --array=1-3
#SBATCH --ntasks=1
# One report of all tasks of a Slurm array, each of which gets its number as the last argument:
#
#   sbatch examples/jobs/sbatch_array.sh python train.py
#
# While it runs, and when it has ended: gpu-tracker merge results/ARRAY, the number that sbatch has printed.
gpu-tracker --job="results/$SLURM_ARRAY_JOB_ID" -- "$@" "$SLURM_ARRAY_TASK_ID"
