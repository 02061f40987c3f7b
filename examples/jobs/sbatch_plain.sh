#!/bin/sh
#SBATCH --nodes=2
#SBATCH --ntasks=4
#SBATCH --mem=300
# One report of all ranks of a Slurm job:
#
#   sbatch examples/jobs/sbatch_plain.sh python train.py
folder=results/$SLURM_JOB_ID
srun gpu-tracker --job="$folder" -- "$@"
status=$?
gpu-tracker merge "$folder" -o "$folder/report.txt"
exit "$status"
