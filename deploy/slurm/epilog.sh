#!/bin/sh
# Makes the report of a job that has none yet, since it has no batch script or its script was killed: Epilog of Slurm. See
# task-prolog.sh.
GPU_TRACKER=/usr/local/bin/gpu-tracker
FOLDER=/scratch/gpu-tracker

# Slurm runs this as root on each node, with little in the environment, and takes a node away from all jobs where it
# fails: each way out of here is exit 0. One node does it, as the user: what users have written is not for root to read.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
folder=$FOLDER/$SLURM_JOB_ID
[ -d "$folder" ] && [ ! -e "$folder/summary.txt" ] || exit 0
first=$(scontrol show hostnames "${SLURM_JOB_NODELIST:-$SLURM_NODELIST}" | head -n 1)
[ "$SLURMD_NODENAME" = "$first" ] || exit 0
timeout 20 setpriv --reuid="$SLURM_JOB_UID" --regid="$SLURM_JOB_GID" --clear-groups \
    env -i PATH="$PATH" "$GPU_TRACKER" merge "$folder" -o "$folder/summary.txt" >/dev/null 2>&1
exit 0
