#!/bin/sh
# Corpus to diagnosed law in one command, in minutes on two CPU cores.
#   recipes/speedrun.sh [RECIPE] [FOLDER]
set -eu
# A backbone this small is slower on several threads than on one.
OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
export OMP_NUM_THREADS
recipe=${1:-recipes/tiny.toml}
folder=${2:-runs/speedrun}
waggle=${WAGGLE:-waggle}
$waggle corpus build "$folder/corpus" --recipe "$recipe"
$waggle corpus label "$folder/corpus"
$waggle corpus stats "$folder/corpus"
$waggle train "$recipe" --arm scd --seed 0 --corpus "$folder/corpus" --out "$folder"
$waggle diagnose "$folder/seed-0/scd/law" --corpus "$folder/corpus" --views 16 --out "$folder/scd.json"
