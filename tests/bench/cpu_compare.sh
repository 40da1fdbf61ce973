#!/bin/sh
# cpu_compare.sh [ROUNDS [STEPS [THREADS]]] - cpu_step against cpu_torch.py, in turn, so that a busy
# machine disturbs all alike.  PYTHON: one with torch.  O: the build folder.  VARIANTS: of cpu_torch.py.
# Prints least and median of the wall time, and of the processor time of all threads.
set -eu
cd "$(dirname "$0")/../.."
rounds=${1:-3} steps=${2:-5} threads=${3:-2} out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

run()
{
    name=$1
    shift
    "$@" 2>/dev/null >>"$out/$name" || echo "$name: failed" >&2
}

i=0
while [ "$i" -lt "$rounds" ]; do
    i=$((i + 1))
    for variant in ${VARIANTS:-eager-grouped eager-loop compile-grouped compile-loop}; do
        run "muster" "${O:-build}/tests/bench/cpu_step" -n "$steps" -t "$threads"
        run "torch-$variant" "${PYTHON:-python3}" tests/bench/cpu_torch.py --mode "${variant%-*}" \
            --experts "${variant#*-}" --steps "$steps" --threads "$threads" --warmup 2
    done
done

echo '| program | steps | wall min ms | wall median ms | cpu min ms | cpu median ms |'
echo '|---|---|---|---|---|---|'
for f in "$out"/*; do
    grep '^step' "$f" | grep -v warm-up >"$f.steps"
    n=$(wc -l <"$f.steps")
    wall=$(awk '{print $3}' "$f.steps" | sort -n | awk -v n="$n" 'NR == 1 {a = $1} NR == int(n / 2) + 1 {b = $1} END {print a " | " b}')
    cpu=$(awk '{print $6}' "$f.steps" | sort -n | awk -v n="$n" 'NR == 1 {a = $1} NR == int(n / 2) + 1 {b = $1} END {print a " | " b}')
    echo "| ${f##*/} | $n | $wall | $cpu |"
done
