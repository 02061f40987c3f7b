#!/bin/sh
# Tracks each task of each job: TaskProlog of Slurm. How to install this with task-epilog.sh and epilog.sh, and the shared
# FOLDER, is in docs/jobs.rst, "Every job of a Slurm cluster". Set these two lines in all three files.
GPU_TRACKER=/usr/local/bin/gpu-tracker
FOLDER=/scratch/gpu-tracker

# Slurm runs this as the user, with the environment of the task, and waits for it. SLURM_TASK_PID is the process that
# becomes the task. The task has to run whatever goes wrong: each way out of here is exit 0.
folder=$FOLDER/$SLURM_JOB_ID
mkdir -m 700 "$folder" 2>/dev/null
[ -O "$folder" ] && [ ! -L "$folder" ] || exit 0 # somebody else was here first

# The parent says which step this is, as JOB.STEP: a script that was submitted inside a step has inherited SLURM_STEP_ID.
step=$(sed -n 's/.*\[\(.*\)\].*/\1/p' "/proc/$PPID/cmdline" 2>/dev/null)
name=$folder/.tracker-$SLURMD_NODENAME-${step:-$SLURM_JOB_ID.${SLURM_STEP_ID:-batch}}-$SLURM_PROCID

# Slurm kills the process group of this script when the script ends, so that the tracker needs a session of its own, and
# this waits until it has it. The tracker ends with the task. Its memory and CPU time count as the job's.
# shellcheck disable=SC2016 # for the inner shell
setsid sh -c 'echo $$ >"$0" && exec "$@"' "$name.pid" \
    "$GPU_TRACKER" --pid="$SLURM_TASK_PID" --job="$folder" </dev/null >/dev/null 2>"$name.err" &
waited=0
while [ ! -s "$name.pid" ] && [ "$waited" -lt 100 ]; do
    sleep 0.01
    waited=$((waited + 1))
done
exit 0
