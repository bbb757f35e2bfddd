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
#   recipes/gpu.sh factorial-nano     four arms of nano, five seeds: rate, training, diagnosis, episodes
#   recipes/gpu.sh factorial-smollm2  the same of SmolLM2-135M, three seeds
#   recipes/gpu.sh factorial-gemma    the same of gemma-3-270m, two seeds
#   recipes/gpu.sh near               the second arm of the clean lineage: 9 and 8 minutes, then AgentsNet
#   recipes/gpu.sh specialists        one law against specialists: base, five controllers, episodes
#   recipes/gpu.sh learn [SEED...]    AgentsNet from outcomes, seeds (0) side by side: explore; called again, cool down
#   recipes/gpu.sh learn-task TASK [SEED...]  foraging, synchronization or median from outcomes, likewise
#   recipes/gpu.sh outcomes           nano-outcome, and the laws that `learn` and `learn-task` left, in their tables
#   recipes/gpu.sh pack [FOLDER]      archive every run that has rows (results/ if unset)
# A factorial has the GPU to itself (ten arms of nano hold some 90 GB while they train, an arm of SmolLM2 46).
# The one of nano is two calls of ten minutes on an H200 with 16 cores, one right after the other:
#   recipes/gpu.sh service; LIMIT=560 LANES=12 WORKERS=15 recipes/gpu.sh factorial-nano
# WAGGLE is the command (waggle), RECIPES the folder of recipes (recipes), LANES the processes of a law (4),
# WORKERS those of a harvest, and of all seeds that learn together (14), JOBS those that train arms (10), VIEWS
# those that an arm is diagnosed on (800), LIMIT the seconds after which a call ends (none), DRY=1 prints what
# would be run. Rows and records lie in runs/; logs are what the commands print. A command that fails does not
# keep the next from being run; the call then ends with 1.
set -euo pipefail
cd "$(dirname "$0")/.."
waggle=${WAGGLE:-waggle}
recipes=${RECIPES:-recipes}
lanes=${LANES:-4}
workers=${WORKERS:-14}
jobs=${JOBS:-10}
failed=0

# run COMMAND...: within the seconds that are left, and say how long it took
run() {
  echo "+ $*"
  [ -z "${DRY:-}" ] || return 0
  local began=$SECONDS left=$((${LIMIT:-86400} - SECONDS)) code=0
  [ "$left" -gt 0 ] || { echo "$0: time is up" >&2; exit 124; }
  timeout -k 5 "$left" "$@" || code=$?
  echo "= $((SECONDS - began)) s, $SECONDS s in all, exit $code"
  [ "$code" -ne 124 ] || { echo "$0: time is up" >&2; exit 124; }
  [ "$code" -eq 0 ] || failed=1
}

# together: wait for what runs beside this, which ends with its own `failed`
together() {
  local job
  for job in $(jobs -p); do wait "$job" || failed=1; done
}

# play RECIPE METHODS [OPTION...]: their episodes; without METHODS those of all laws that are there
play() {
  local recipe=$1 methods=$2
  shift 2
  run $waggle eval "$recipes/$recipe.toml" ${methods:+--methods "$methods"} --processes "$lanes" --width 512 "$@"
}

# factorial BACKBONE RUN SEEDS JOBS RATES [OPTION...]: search the rate of stage two, train and diagnose arms
factorial() {
  local recipe=$recipes/factorial_$1.toml backbone=$1 name=$2 seeds=$3 jobs=$4 rates=$5
  shift 5
  run $waggle tune "$recipe" --rates "$rates" --jobs "$jobs" --workers "$workers" --out "runs/tune_$backbone" "$@"
  run mkdir -p "runs/$name"
  run cp "runs/tune_$backbone/tune.json" "runs/$name"
  run $waggle train "$recipe" --arm all --seeds "$seeds" --jobs "$jobs" --workers "$workers" \
    --start "runs/tune_$backbone" --views "${VIEWS:-800}" --native "${VIEWS:-200}" \
    --out "runs/$name/train" --arms "runs/$name/arms"
}

# share SEEDS: the processes and the memory of each of so many runs of learning side by side
share() {
  players=$((workers / $1))
  export WAGGLE_GPU_SHARE=${WAGGLE_GPU_SHARE:-$(printf 0.%02d $((99 / $1)))}
}

# learn NAME RECIPE SEED OUT [OPTION...]: one run of learning from outcomes. One that is finished would only play
# its last comparison again, and one whose law alone is here has been learned elsewhere.
learn() {
  local name=$1 recipe=$2 seed=$3 out=$4
  shift 4
  [ ! -e "$out/learn.json" ] && [ ! -d "$out/law" ] || return 0
  # shellcheck disable=SC2086  # a name may bring its plug-in
  run $waggle learn $name "$recipes/learn/$recipe.toml" --seed "$seed" --processes "$players" --out "$out" "$@"
}

# advance SEED: the next run of AgentsNet, SEED-1, SEED-2 and so on: without a law it explores, else it cools that law
# down. A run that brings nothing leaves the law of the one before.
advance() {
  local seed=$1 out=runs/learn/agentsnet/$1 number=1 options=()
  [ ! -d "$out/law" ] || options=(--start "$out/law" --temperature 2)
  [ ${#options[@]} -gt 0 ] || [ ! -e "$out-1/learn.json" ] || return 0
  while [ -e "$out-$number/learn.json" ]; do number=$((number + 1)); done
  learn agentsnet agentsnet "$seed" "$out-$number" "${options[@]}"
  [ ! -d "$out-$number/law" ] || { run mkdir -p "$out"; run cp -r "$out-$number/law" "$out"; }
}

# learned RECIPE SEEDS METHOD:RUN...: the episodes of those laws of these training seeds that are there: a method named
# without its law would end the call
learned() {
  local recipe=$1 seeds=$2 pair seed methods=
  shift 2
  for pair in "$@"; do
    for seed in $seeds; do
      [ ! -d "runs/learn/${pair#*:}/$seed/law" ] && [ -z "${DRY:-}" ] || methods+=,${pair%:*}-$seed
    done
  done
  [ -n "$methods" ] || { echo "$0: no law for $recipe; call learn or learn-task first" >&2; return 0; }
  play "learn/$recipe" "${methods#,}"
}

# take RECIPE METHODS RUN...: cells that another table has in common with this one
take() {
  local recipe=$1 methods=$2 other
  shift 2
  for other in "$@"; do
    [ ! -e "runs/$other/rows.jsonl" ] || run $waggle eval "$recipes/$recipe.toml" --methods "$methods" --merge "runs/$other"
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
  factorial-nano)
    factorial nano factorial 5 "$jobs" 3e-6,1e-5,3e-5,1e-4,3e-4,1e-3
    # Half of the late counterevidence, then one seed of everything, then the rest: whole comparisons
    # come first, whenever time is up.
    play reorganization/factorial "" --tasks swarmbench/pursuit,silo/III-26 --seeds 5
    play reorganization/factorial "" --seeds 1
    play reorganization/factorial ""
    take reorganization/decision_sources nano-decision factorial
    ;;
  factorial-smollm2)
    factorial smollm2 factorial_smollm2 3 2 2e-6,5e-6,1e-5,2e-5,5e-5 --updates 162
    play reorganization/factorial_smollm2 ""
    take reorganization/decision_sources decision-only factorial_smollm2
    ;;
  factorial-gemma)
    factorial gemma factorial_gemma 2 2 2e-6,5e-6,1e-5,2e-5,5e-5 --updates 162
    play reorganization/factorial_gemma ""
    ;;
  near)
    for part in near near_second; do
      run $waggle train "$recipes/lineage/$part.toml" --out "runs/lineage/$part" --workers "$workers" \
        --views 800 --native 800
    done
    play lineage/transfer lineage-near
    ;;
  specialists)
    run $waggle train "$recipes/specialists/base.toml" --arm warm-start --out runs/specialists/base --workers "$workers"
    for law in joint matched_swarmbench matched_silo oracle_swarmbench oracle_silo; do
      { run env WAGGLE_GPU_SHARE=0.15 $waggle train "$recipes/specialists/$law.toml" \
          --out "runs/specialists/train/${law/_/-}" --workers 3 --jobs 2
        exit $failed; } &
    done
    together
    play specialists/specialists "joint,matched*,oracle*" --seeds 4
    play specialists/specialists "joint,matched*,oracle*"
    ;;
  learn)
    [ $# -gt 0 ] || set -- 0
    share $#
    for seed; do { advance "$seed"; exit $failed; } & done
    together
    ;;
  learn-task)
    task=${1:-foraging} name=swarmbench/${1:-foraging}
    [ "$task" != median ] || name="median --plugin examples/median/median.py"
    [ $# -gt 1 ] || set -- "$task" 0
    shift
    share $#
    for seed; do { learn "$name" "$task" "$seed" "runs/learn/$task/$seed"; exit $failed; } & done
    together
    ;;
  outcomes)
    for table in outcomes outcomes_kept; do
      play "learn/$table" nano-outcome
      learned "$table" "1 2" outcomes:agentsnet
    done
    learned outcomes_beyond "0 1 2" foraging:foraging synchronization:synchronization
    ;;
  pack)
    for rows in runs/*/rows.jsonl; do
      name=$(basename "$(dirname "$rows")")
      run $waggle archive "runs/$name" "${1:-results}/$name"
    done
    ;;
  *) echo "$0: no step $step; call it without one for the list" >&2; exit 2 ;;
esac
exit $failed
