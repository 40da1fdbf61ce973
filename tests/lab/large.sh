#!/bin/bash
# large.sh [NODES [STEPS]] - `make lab-512`: a launch of simulated ranks over a real Slurm of
# NODES (64) virtual nodes of 8 GPUs, from nothing to nothing, and its figures.
#
# One `muster launch` outside an allocation, as an ordinary user: it asks for the nodes,
# starts the ranks, takes STEPS (5) steps and gives the nodes back.  Slurm, PMIx, agents and
# launcher are real; nodes, GPUs and steps are not.  All of it is on this one machine, so
# the times are those of process starts on its cores.
# Status 0: all ranks met in the plan's order and nothing is left; 1: not so; 3: no such lab
# can be had here (the reason is on stderr).  Needs root.
set -u
here=$(cd "$(dirname "$0")" && pwd)
O=${O:-$here/../../build}
O=$(cd "$O" && pwd)
N=${1:-64} STEPS=${2:-5} W=$((${1:-64} * 8))
DEADLINE=${DEADLINE:-600}
D=$(mktemp -d /tmp/muster-lab.XXXXXX) || exit 4
mib() { awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo; }
now() { date +%s.%N; }
since() { awk -v a="$1" -v b="${2:-$(now)}" 'BEGIN { printf "%.2f s", b - a }'; }
say() { printf '%-12s %s\n' "$1" "$2"; }
bad=0
bad() { echo "large.sh: $*" >&2; bad=1; }

sampler=
# shellcheck disable=SC2317 # the trap calls it
tidy()
{
    [ -z "$sampler" ] || { kill "$sampler"; wait "$sampler"; } 2>/dev/null
    "$here/slurm.sh" stop "$D/lab" || bad 'the lab did not stop'
    rm -rf "$D"
}
trap tidy EXIT
trap 'exit 130' INT TERM HUP

# The least memory that was available, looked at ten times a second.
sample()
{
    least=$(mib)
    while sleep 0.1; do
        m=$(mib)
        [ "$m" -ge "$least" ] || { least=$m; echo "$m" >"$D/least"; }
    done
}

chmod 755 "$D"
say lab "$N nodes of 8 GPUs, $W ranks: everything about nodes, GPUs and steps is simulated"
before=$(mib)
begun=$(now)
"$here/slurm.sh" start "$N" "$D/lab" || { status=$?; exit $status; }
eval "$("$here/slurm.sh" env "$D/lab")"
up=$(mib)
say nodes "$(sinfo -h -t idle -o %D | head -1) of $N up after $(since "$begun"); memory $((before - up)) MiB"

user=65534 # nobody
mkdir "$D/home" && chown $user "$D/home"
cat >"$D/sim.yaml" <<Y
name: lab
model: {preset: qwen3-30b-a3b}
training: {seq_len: 4096, local_batch_size: 2, steps: $STEPS, log_interval: 1}
parallelism: {data_parallel_shard_degree: 16, data_parallel_replicate_degree: -1}
activation_checkpoint: {mode: full}
data: {path: none/*.bin}
cluster: {backend: slurm, device: sim}
Y
chmod 755 "$D/lab"
echo "$up" >"$D/least"
sample &
sampler=$!
ulimit -n "$(ulimit -H -n)"
begun=$(now)
cd "$D/home" || exit 4
timeout -k 10 "$DEADLINE" setpriv --reuid $user --regid $user --clear-groups env HOME="$D/home" \
    MUSTER_HOME="$D/home/muster" MUSTER_SIM="${MUSTER_SIM:-time=0.1}" \
    "$O/bin/muster" launch "$D/sim.yaml" --gpus "$W" --no-check --start-timeout "${DEADLINE}s" >"$D/out" 2>&1
status=$?
ended=$(now)
kill $sampler && wait $sampler 2>/dev/null
sampler=
cd /

events=$(echo "$D"/home/muster/runs/*/events.jsonl)
[ -e "$events" ] || { bad "no run was started (status $status)"; tail -5 "$D/out" >&2; exit 1; }
# times EVENT TEXT: how many ranks said so, and when the last of them did
times()
{
    grep "\"event\":\"$1\"" "$events" | grep -F "${2:-}" |
        sed 's/.*"rank":\(-*[0-9]*\),"t":\([0-9.]*\),.*/\1 \2/' |
        awk '!seen[$1]++ { n++; if (n == 1 || $2 > last) last = $2 } END { printf "%d %.3f\n", n, last }'
}
read -r _ started < <(times start)
read -r agents reached < <(times agent)
read -r met meeting < <(times leave '"stage":"wireup"')
read -r _ first < <(grep '"rank":0,' "$events" | grep -m 1 '"event":"step"' | sed 's/.*"t":\([0-9.]*\),.*/0 \1/')
read -r ends last < <(times exit)
placed=$(grep '"event":"agent"' "$events" | sed 's/.*"rank":\([0-9]*\),.*"pmix_rank":\([0-9]*\),"node":"\([^"]*\)".*/\1 \2 \3/' |
    sort -n | awk 'NR == FNR { host[NR - 1] = $1; next } $1 == $2 && host[$1] == $3 { n++ } END { print n + 0 }' \
        "${events%/*}/hosts" -)
say allocation "$N nodes after $(since "$begun" "$started")"
say agents "$agents of $W there after $(since "$begun" "$reached")"
say met "$met of $W ranks by PMIx after $(since "$begun" "$meeting"), $placed where the plan has them"
say 'first step' "after $(since "$begun" "${first:-0}")"
say end "$ends ranks ended after $(since "$begun" "$last"), muster with status $status after $(since "$begun" "$ended")"
say memory "$((before - $(cat "$D/least"))) MiB more in use at the most, $((before - up)) of them the nodes' daemons"
grep '^muster: run' "$D/out"
[ $status -eq 0 ] || { bad "muster ended with status $status"; tail -5 "$D/out" >&2; }
[ "$agents $met $placed $ends" = "$W $W $W $W" ] || bad "not all $W ranks were there, in order"
k=0
while [ -n "$(squeue -h)" ] && [ $((k += 1)) -le 100 ]; do sleep 0.1; done
[ -z "$(squeue -h)" ] || bad "the allocation is still there: $(squeue -h | head -1)"
left=$(pgrep -d, -f "$D/home" || true)
[ -z "$left" ] || bad "processes are left: $(ps -o pid=,args= -p "$left" | head -3)"
exit $bad
