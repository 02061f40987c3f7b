#!/bin/sh
# One report of all ranks that torchrun starts, here on one node:
#
#   sh examples/jobs/torchrun.sh python train.py
#
# On several nodes, run torchrun with its --rdzv-... options on each of them and a folder that they share. With Accelerate
# it is: accelerate launch --multi_gpu --num_processes=4 --no_python gpu-tracker --job=results -- python train.py
torchrun --standalone --nproc-per-node=4 --no-python gpu-tracker --job=results -- "$@"
status=$?
# Give each run a folder of its own: what runs write into the same one is added up.
gpu-tracker merge results -o results/report.txt
exit "$status"
