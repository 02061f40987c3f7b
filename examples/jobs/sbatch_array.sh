#!/bin/sh
#SBATCH --array=1-3
#SBATCH --ntasks=1
# One report of all tasks of a Slurm array. Each task gets its number as the last argument:
#
#   sbatch examples/jobs/sbatch_array.sh python train.py
#
# During and after the run: gpu-tracker merge results/ARRAY, where ARRAY is the number that sbatch printed.
gpu-tracker --job="results/$SLURM_ARRAY_JOB_ID" -- "$@" "$SLURM_ARRAY_TASK_ID"
