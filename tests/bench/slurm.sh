#!/bin/bash
# slurm.sh [N [ROUNDS]] - from the command to the first step on N (2) virtual nodes of 8,
# inside an allocation, without checks, simulated ranks: muster launch beside a bare srun
# --mpi=pmix of the same program.  Interleaved; medians of ROUNDS (7).  Needs root and
# Slurm (tests/lab/slurm.sh).
set -eu
cd "$(dirname "$0")/../.."
N=${1:-2} ROUNDS=${2:-7} O=${O:-build}
if [ -z "${IN_JOB:-}" ]; then
    LAB=$(mktemp -d /tmp/slurm.XXXXXX)
    trap 'tests/lab/slurm.sh stop "$LAB/lab"; rm -rf "$LAB"' EXIT
    tests/lab/slurm.sh start "$N" "$LAB/lab"
    eval "$(tests/lab/slurm.sh env "$LAB/lab")"
    export LAB IN_JOB=1 MUSTER_HOME="$LAB/home" MUSTER_SIM=time=0
    ulimit -n 8192
    salloc -Q -N"$N" --ntasks-per-node=8 --gres=gpu:8 "$0" "$N" "$ROUNDS"
    exit
fi
W=$((N * 8)) M=$PWD/$O/bin
cat >"$LAB/sim.yaml" <<'Y'
name: bench
model: {preset: qwen3-30b-a3b}
training: {seq_len: 4096, local_batch_size: 2, steps: 1, log_interval: 1}
parallelism: {data_parallel_shard_degree: 16, data_parallel_replicate_degree: -1}
activation_checkpoint: {mode: full}
data: {path: none/*.bin}
cluster: {device: sim}
Y

# ms from now to the first step, then to the end
clock()
{
    local t0 t1="" line
    t0=$(date +%s%N)
    while read -r line; do
        case $line in *'simulated step 1 '*) t1=$(date +%s%N) ;; esac
    done < <("$@" 2>"$LAB/err")
    [ -n "$t1" ] || { echo "no step: $(tail -3 "$LAB/err")" >&2; exit 1; }
    echo "$(((t1 - t0) / 1000000)) $((($(date +%s%N) - t0) / 1000000))"
}

bare() { clock srun --mpi=pmix --overlap "$M/muster-train" --recipe "$LAB/sim.yaml"; }
ours() { clock "$M/muster" launch "$LAB/sim.yaml" --gpus "$W" --no-check; }
median() { sort -n "$1" | awk -v c="$2" '{ a[NR] = $c } END { print a[int((NR + 1) / 2)] }'; }

for ((i = 0; i < ROUNDS; i++)); do
    bare >>"$LAB/bare"
    ours >>"$LAB/ours"
done
b=$(median "$LAB/bare" 1) o=$(median "$LAB/ours" 1)
echo "$N nodes, $W ranks, $ROUNDS rounds: first step, median ms: srun $b, muster $o, ratio $(awk -v a="$o" -v b="$b" 'BEGIN { printf "%.2f", a / b }')"
echo "  first step and end, ms: srun $(paste -sd, "$LAB/bare"); muster $(paste -sd, "$LAB/ours")"
