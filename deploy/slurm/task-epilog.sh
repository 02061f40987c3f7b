#!/bin/sh
# Waits for the report of a task that has ended; behind the last one it makes the report of the job, and puts it into the
# comment of the job as one line: TaskEpilog of Slurm. See task-prolog.sh.
GPU_TRACKER=/usr/local/bin/gpu-tracker
FOLDER=/scratch/gpu-tracker

# Slurm runs this as the user. Afterwards it kills what is left of the step, with proctrack/cgroup the tracker too.
folder=$FOLDER/$SLURM_JOB_ID
step=$(sed -n 's/.*\[\(.*\)\].*/\1/p' "/proc/$PPID/cmdline" 2>/dev/null)
step=${step:-$SLURM_JOB_ID.${SLURM_STEP_ID:-batch}}
name=$folder/.tracker-$SLURMD_NODENAME-$step-$SLURM_PROCID
[ -O "$folder" ] && read -r tracker 2>/dev/null <"$name.pid" || exit 0
waited=0
while kill -0 "$tracker" 2>/dev/null && [ "$waited" -lt 50 ]; do # 5 s at most, where the file system hangs
    sleep 0.1
    waited=$((waited + 1))
done
rm -f "$name.pid"
[ -s "$name.err" ] || rm -f "$name.err"

# The batch script is the last task of its job. Later than here, scontrol does not change a job's comment.
[ "${step#*.}" = batch ] || exit 0
timeout 20 "$GPU_TRACKER" merge "$folder" -o "$folder/summary.txt" 2>"$folder/errors.txt" || exit 0
[ -s "$folder/errors.txt" ] || rm -f "$folder/errors.txt"
line=$(sed -n '/^$/q; s/^Ranks  *//p; s/^CPU  */CPU /p; s/^GPU  */GPU /p; s/^Peak RAM  */RAM /p; s/^Request  *//p' \
    "$folder/summary.txt" | paste -s -d '|' - | sed 's/|/; /g')
comment=$(scontrol show job "$SLURM_JOB_ID" | sed -n 's/^ *Comment=//p')
case $comment in
'' | 'gpu-tracker: '*) scontrol update job="$SLURM_JOB_ID" comment="gpu-tracker: $line" >/dev/null 2>&1 ;;
esac # what the user has put there stays
exit 0
