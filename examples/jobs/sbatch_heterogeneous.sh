#!/bin/sh
#SBATCH --ntasks=1
#SBATCH --mem=100
#SBATCH hetjob
#SBATCH --ntasks=2
#SBATCH --mem=200
# One report of a Slurm job whose components ask for different memory. The ranks of all components are one step:
#
#   sbatch examples/jobs/sbatch_heterogeneous.sh python train.py
#
# If components run different programs, put gpu-tracker in front of each of them:
#
#   srun --het-group=0 gpu-tracker --job="$folder" -- python load.py : --het-group=1 gpu-tracker --job="$folder" -- ...
folder=results/$SLURM_JOB_ID
srun --het-group=0,1 gpu-tracker --job="$folder" -- "$@"
status=$?
gpu-tracker merge "$folder" -o "$folder/report.txt"
exit "$status"
