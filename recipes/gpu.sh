#!/usr/bin/env bash
# What the tables need of a GPU, one step a call. Steps are resumable and, but for `bench`, may run side
# by side on one GPU once `service` has run; none of them may be killed then: a process that dies under
# the multi-process service takes the others with it.
#   recipes/gpu.sh service            start NVIDIA's multi-process service
#   recipes/gpu.sh warm               compile what `bench` will measure, so that it only measures
#   recipes/gpu.sh bench              decoding against generate at batch 64 and 256; nothing beside it
#   recipes/gpu.sh nano               the shipped law in every table, late counterevidence first
#   recipes/gpu.sh smollm2            the adapter where the tables want it
#   recipes/gpu.sh zero-shot [MODE]   the backbone as it is: constrained, free or (unset) both
#   recipes/gpu.sh shuffled           nano in shuffled order, trained and diagnosed
#   recipes/gpu.sh tune               rates of the factorials, chosen on decision-only loss
#   recipes/gpu.sh factorial-smollm2  its arms, trained, diagnosed and played
#   recipes/gpu.sh factorial-nano     the same of nano
#   recipes/gpu.sh pack [FOLDER]      archive every run that has rows (results/ if unset)
# Not side by side: the two factorials (ten arms of nano hold some 90 GB while they train, an arm of SmolLM2
# 46), nor either of them with more than one other step.
# WAGGLE is the command (waggle), LANES the processes of a law (4), WORKERS those of a harvest (14), DRY=1
# prints what would be run. Rows and records lie in runs/; logs are what the commands print.
set -euo pipefail
cd "$(dirname "$0")/.."
waggle=${WAGGLE:-waggle}
lanes=${LANES:-4}
workers=${WORKERS:-14}

run() {
  echo "+ $*"
  [ -n "${DRY:-}" ] || "$@"
}

# play RECIPE METHODS [OPTION...]: their episodes
play() {
  local recipe=$1 methods=$2
  shift 2
  run $waggle eval "recipes/$recipe.toml" --methods "$methods" --processes "$lanes" --width 512 "$@"
}

# searched NAME KIND: options that begin with what the search of a factorial has made, if it has
searched() {
  [ ! -e "runs/tune_$1/$2/seed-1000/warm-start/law" ] || echo "--start runs/tune_$1/$2/seed-1000/warm-start --corpus runs/tune_$1/corpus"
}

# take RECIPE METHODS RUN...: cells that another table has in common with this one
take() {
  local recipe=$1 methods=$2 other
  shift 2
  for other in "$@"; do
    [ ! -e "runs/$other/rows.jsonl" ] || run $waggle eval "recipes/$recipe.toml" --methods "$methods" --merge "runs/$other"
  done
}

bench() {
  run $waggle bench engine --model smollm2 --device cuda --dtype bfloat16 --fastest --batch "$1" --repeats "$2"
}

step=${1:-}
[ -n "$step" ] || { sed -n '2,/^set/p' "$0" | sed '$d;s/^# \{0,1\}//'; exit 2; }
shift
case $step in
  service) run nvidia-cuda-mps-control -d ;;
  warm) for batch in 64 256; do bench "$batch" 1; done ;;
  bench) for batch in 64 256; do bench "$batch" 10; done ;;
  nano)
    play reorganization/decision_sources nano
    for table in components perturbations sensitivity; do
      take "reorganization/$table" nano decision_sources
      play "reorganization/$table" 'nano*'
    done
    play reorganization/components_extension 'nano*'
    play tables/primary nano
    play tables/agentsnet nano
    take tables/same_runtime nano primary decision_sources
    play tables/same_runtime nano
    play tables/flocking_transport nano
    play tables/anchors nano
    play tables/horizon nano --seeds 3
    play tables/silo_ports nano --seeds 3
    play tables/extension nano --seeds 3
    ;;
  smollm2)
    play tables/primary smollm2
    play reorganization/decision_sources smollm2
    play tables/agentsnet smollm2
    take tables/same_runtime smollm2 primary decision_sources
    play tables/same_runtime smollm2
    ;;
  zero-shot)
    for mode in ${1:-constrained free}; do
      case $mode in
        constrained) method=zero-shot-constrained ;;
        free) method=zero-shot ;;
        *) echo "$0: zero-shot is constrained or free, not $mode" >&2; exit 2 ;;
      esac
      guess="run $waggle eval --methods $method --processes $lanes --width 64"
      $guess recipes/reorganization/decision_sources.toml
      $guess recipes/tables/agentsnet.toml --seeds 3
      $guess recipes/tables/primary.toml --seeds 3
      take tables/same_runtime "$method" primary decision_sources
    done
    ;;
  shuffled)
    run $waggle train recipes/nano_shuffled.toml --out runs/nano_shuffled --workers "$workers" \
      --views 800 --native 800
    ;;
  tune)
    run $waggle tune recipes/factorial_nano.toml --rates 2e-5,5e-5,1e-4,2e-4,5e-4 --updates 324 --jobs 5 \
      --workers "$workers" --out runs/tune_nano
    run $waggle tune recipes/factorial_smollm2.toml --rates 1e-5,2e-5,5e-5,1e-4 --updates 162 --jobs 4 \
      --workers "$workers" --out runs/tune_smollm2
    ;;
  factorial-smollm2)
    run $waggle train recipes/factorial_smollm2.toml --arm all --seeds 2 --jobs 2 --workers "$workers" \
      $(searched smollm2 dense) --views 400 --native 200 --out runs/factorial_smollm2/train \
      --arms runs/factorial_smollm2/arms
    play reorganization/factorial_smollm2 '*'
    take reorganization/decision_sources decision-only factorial_smollm2
    ;;
  factorial-nano)
    run $waggle train recipes/factorial_nano.toml --arm all --seeds 5 --jobs 10 --workers "$workers" \
      $(searched nano full) --views 400 --native 200 --out runs/factorial/train --arms runs/factorial/arms
    play reorganization/factorial '*'
    take reorganization/decision_sources nano-decision factorial
    ;;
  pack)
    for rows in runs/*/rows.jsonl; do
      name=$(basename "$(dirname "$rows")")
      run $waggle archive "runs/$name" "${1:-results}/$name"
    done
    ;;
  *) echo "$0: no step $step; call it without one for the list" >&2; exit 2 ;;
esac
