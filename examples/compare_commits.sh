#!/bin/sh
# Compare what a command uses in two commits of a repository, in three runs of each commit:
#   sh examples/compare_commits.sh main faster python train.py
set -eu
old=$1
new=$2
shift 2
folder=$(mktemp -d)
trap 'git worktree remove --force "$folder/old"; git worktree remove --force "$folder/new"; rm -rf "$folder"' EXIT
git worktree add --quiet --detach "$folder/old" "$old"
git worktree add --quiet --detach "$folder/new" "$new"
for n in 1 2 3; do
    for side in old new; do # alternately, because a machine changes during the runs
        (cd "$folder/$side" && gpu-tracker -q --record="$folder/$side-$n.db" "$@")
    done
done
(cd "$folder" && gpu-tracker compare old=old-1.db,old-2.db,old-3.db new=new-1.db,new-2.db,new-3.db)
