#!/bin/bash
# slurm.sh [N [ROUNDS]] - from the command to the first step on N (2) virtual nodes of 8,
# inside an allocation, without checks, simulated ranks: muster launch beside a bare srun
# --mpi=pmix of the same program.  Interleaved; medians of ROUNDS (7).  Needs root and
# Slurm (tests/lab/slurm.sh).
# Times mean something on a quiet machine only: the load stands beside them.  With cgroups
# of version 1 the processor time of both, cluster included, is measured too, which other
# work disturbs less.  6 s between runs: ext4 looks past the files that were removed in the
# last 5 s for every file it makes, and a run removes thousands.
set -eu
cd "$(dirname "$0")/../.."
N=${1:-2} ROUNDS=${2:-7} O=${O:-build}
cpu=/sys/fs/cgroup/cpuacct/muster-bench
if [ -z "${IN_JOB:-}" ]; then
    if mkdir -p $cpu 2>/dev/null; then echo $$ >$cpu/cgroup.procs; fi
    LAB=$(mktemp -d /tmp/slurm.XXXXXX)
    trap 'tests/lab/slurm.sh stop "$LAB/lab"; rm -rf "$LAB"
        if [ -d $cpu ]; then echo $$ >${cpu%/*}/cgroup.procs; rmdir $cpu; fi' EXIT
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

used() { cat $cpu/cpuacct.usage 2>/dev/null || echo 0; }

# ms from now to the first step, to the end, of processor time to the first step
clock()
{
    local t0 t1="" c0 c1=0 line
    sleep 6
    c0=$(used) t0=$(date +%s%N)
    while read -r line; do
        case $line in *'simulated step 1 '*) t1=$(date +%s%N) c1=$(used) ;; esac
    done < <("$@" 2>"$LAB/err")
    [ -n "$t1" ] || { echo "no step: $(tail -3 "$LAB/err")" >&2; exit 1; }
    echo "$(((t1 - t0) / 1000000)) $((($(date +%s%N) - t0) / 1000000)) $(((c1 - c0) / 1000000))"
}

bare() { clock srun --mpi=pmix --overlap "$M/muster-train" --recipe "$LAB/sim.yaml"; }
ours() { clock "$M/muster" launch "$LAB/sim.yaml" --gpus "$W" --no-check; }
median() { sort -n "$1" | awk -v c="$2" '{ a[NR] = $c } END { print a[int((NR + 1) / 2)] }'; }

for ((i = 0; i < ROUNDS; i++)); do
    bare >>"$LAB/bare"
    ours >>"$LAB/ours"
done
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { if (b > 0) printf "%.2f", a / b; else printf "not measured" }'; }
b=$(median "$LAB/bare" 1) o=$(median "$LAB/ours" 1) bc=$(median "$LAB/bare" 3) oc=$(median "$LAB/ours" 3)
echo "$N nodes, $W ranks, $ROUNDS rounds, load $(cut -d' ' -f1-3 /proc/loadavg)"
echo "  first step, median ms: srun $b, muster $o, ratio $(ratio "$o" "$b")"
echo "  processor time until then, median ms: srun $bc, muster $oc, ratio $(ratio "$oc" "$bc")"
echo "  first step, end, processor time: srun $(paste -sd, "$LAB/bare"); muster $(paste -sd, "$LAB/ours")"
