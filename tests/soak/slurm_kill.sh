#!/bin/bash
# slurm_kill.sh [COUNT] [SEED] - kill parts of a run under a real Slurm at random moments.
# COUNT (50) times each kind of KINDS, 6 simulated ranks on 3 nodes.  Every time: the
# right culprit and status, nothing left on any node, the run in the store with its end,
# within 15 s; slurmd or the controller alone: the run goes on and says so.
# The same seed draws the same victims and moments.  Resumable: what passed is noted in
# $O/soak/slurm_kill.SEED (NOTE) and not done again.  LAB: a lab of 3 nodes that is there.
# O: the build folder; V=1 shows every line.
set -u
cd "$(dirname "$0")/../.." || exit 4
O=$(cd "${O:-build}" && pwd) count=${1:-50} seed=${2:-1}
all='rank agent stepd node launcher guardian srun step job slurmd ctld'
kinds=${KINDS:-$all}
PATH="$O/bin:$PATH" lab=tests/lab/slurm.sh most=15
mkdir -p "$O/soak"
note=${NOTE:-$O/soak/slurm_kill.$seed}
touch "$note"
W=$(mktemp -d /tmp/slurm_kill.XXXXXX)
chmod 755 "$W"
L=${LAB:-$W/lab}
trap '[ -n "${LAB:-}" ] || sh $lab stop "$L"; [ -n "${KEEP:-}" ] || rm -rf "$W"' EXIT
[ -n "${LAB:-}" ] || why=$(sh $lab start 3 "$L" 2>&1) || { echo "slurm_kill: skipped: $why"; exit 0; }
eval "$(sh $lab env "$L")"
export MUSTER_HOME="$W/home" MUSTER_SIM=time=0.02
unset SLURM_JOB_ID
cat >"$W/sim.yaml" <<'Y'
name: sim
model: {preset: qwen3-30b-a3b, layers: 4}
training: {seq_len: 4096, local_batch_size: 2, steps: 1000000, log_interval: 100}
parallelism: {data_parallel_shard_degree: 2, data_parallel_replicate_degree: -1}
activation_checkpoint: {mode: full}
data: {path: none/*.bin}
cluster: {device: sim, gpus_per_node: 2}
Y

# The run is an ordinary user's, where that can be.
user=
if setpriv --reuid=nobody --clear-groups test -x "$O/bin/muster" 2>/dev/null; then
    user="setpriv --reuid=nobody --regid=$(id -g nobody) --clear-groups env HOME=$MUSTER_HOME USER=nobody LOGNAME=nobody"
fi

now() { date +%s%3N; }
ps_of() { bash tests/lab/slurm_ps.sh "$L"; }
field() { sed -n "s/^ *\"$1\": *\"\{0,1\}\([^\",]*\).*/\1/p" "$2" | head -1; }
kill_all() { [ -n "$*" ] && kill -KILL "$@" 2>/dev/null; }

# until SECONDS COMMAND...: does it become true?
until_true()
{
    end=$(($(now) + $1 * 1000))
    shift
    until "$@"; do
        [ "$(now)" -lt $end ] || return 1
        sleep 0.1
    done
}

# A slurmstepd stays until the controller has heard from it.
nothing_left() { left=$(ps_of | if [ "$kind" = ctld ]; then sed '/ slurmstepd /d'; else cat; fi) && [ -z "$left" ]; }
free_again() { [ -z "$(squeue -h 2>&1)" ] && [ "$(sinfo -h -t idle -o %D)" = 3 ]; }
# shellcheck disable=SC2012 # names of our own
started() { dir=$(ls -d "$MUSTER_HOME"/runs/* 2>/dev/null | head -1); [ -n "$dir" ] && grep -q '"event":"step"\|"event": *"step"' "$dir/events.jsonl" 2>/dev/null; }
# Without its guardian the launcher ends after what the shell sees as the end.
over()
{
    [ "$kind" != guardian ] || ! kill -0 "$launcher" 2>/dev/null || return 1
    ! kill -0 "$job" 2>/dev/null || [ -s "$W/status" ]
}

# What must be said, in which status: $want (a regular expression), $status
strike()
{
    case $kind in
    rank) kill_all "$(ps_of | awk -v r=$rank '$3 == "rank" && $4 == r { print $1 }')"
        want="rank $rank on $node died of signal 9" status=137 ;;
    agent) kill_all "$(ps_of | awk -v r=$rank '$3 == "agent" && $4 == r { print $1 }')"
        want="rank $rank on $node was lost: its agent died" status=4 ;;
    stepd) kill_all "$(ps_of | awk -v n=$node '$3 == "slurmstepd" && $2 == n { print $1 }' | head -1)"
        want="node $node: the slurmstepd of the step died" status=4 ;;
    node) sh $lab kill "$L" $node
        want="node $node .ranks $((rank / 2 * 2)), $((rank / 2 * 2 + 1)). is lost" status=4 ;;
    launcher) kill_all "$(field pid "$dir/run.json")"
        want='the launcher .pid [0-9]*. died of signal 9' status=4 ;;
    guardian) launcher=$(field pid "$dir/run.json")
        kill_all "$(field guardian "$dir/run.json")"
        want="guardian process died" status=137 ;;
    srun) kill_all "$(pgrep -P "$(field pid "$dir/run.json")" -x srun | head -1)"
        want='srun .pid [0-9]*., which holds the step, died of signal 9' status=4 ;;
    step) scancel "$(squeue -h -s -o %i | grep -v extern | head -1)"
        want='Slurm ended the step' status=143 ;;
    job) scancel "$(squeue -h -o %i | head -1)"
        want='"cause": *"stopped"' status=any ;; # salloc ends its command too
    slurmd) sh $lab kill "$L" slurmd@$node
        want="node $node: slurmd died" ;;
    ctld) sh $lab kill "$L" slurmctld
        want="controller does not answer" ;;
    esac
}

said() { grep -q "$want" "$W/out" "$dir/launch.log" "$dir/result.json" 2>/dev/null; }

# The run goes on with a part of Slurm gone; then it is stopped, and ends.
goes_on()
{
    until_true 20 said || fail "no word of it"
    before=$(grep -c . "$dir/events.jsonl")
    until_true 5 sh -c "[ \$(grep -c . '$dir/events.jsonl') -gt $((before + 50)) ]" || fail "it does not go on"
    t0=$(now) status=143 want='stopped by signal 15'
    kill -TERM "$(field guardian "$dir/run.json")"
}

fail() { bad="$bad; $*"; }

# The store has the run, and how it ended.
in_store()
{
    id=$(basename "$dir")
    # shellcheck disable=SC2086 # words
    $user muster runs --json >"$W/runs.json" 2>&1 || fail "muster runs: $?"
    grep -q "$id" "$W/runs.json" || fail "the store has lost the run"
    grep -q '"state": *"running"' "$W/runs.json" && fail "the store says it runs"
    [ "$(tail -c 1 "$dir/events.jsonl" | od -An -c | tr -d ' ')" = '\n' ] || [ "$kind" = launcher ] || fail "events.jsonl is cut"
}

play()
{
    bad='' rank=$((RANDOM % 6)) moment=$((RANDOM % 1200))
    node=n$((rank / 2 + 1))
    rm -rf "$MUSTER_HOME" "$W/status" "$W/out"
    mkdir "$MUSTER_HOME"
    : >"$W/out"
    : >"$W/status"
    [ -z "$user" ] || chown nobody "$MUSTER_HOME" "$W/out" "$W/status"
    # shellcheck disable=SC2016,SC2086 # for the inner shell; words
    timeout 120 $user salloc -Q -N3 --gres=gpu:8 --no-kill sh -c 'muster launch "$1" --gpus 6 --grace 1s --no-check >"$2/out" 2>&1; echo $? >"$2/status"' sh "$W/sim.yaml" "$W" >"$W/salloc" 2>&1 &
    job=$!
    until_true 30 started || fail "it did not start"
    sleep "$(printf '%d.%03d' $((moment / 1000)) $((moment % 1000)))"
    status=0 want=.
    [ -n "$bad" ] || strike
    t0=$(now)
    case $kind in slurmd | ctld) goes_on ;; esac
    until_true $most over || fail "it did not end within $most s"
    took=$(($(now) - t0))
    until_true $((most - took / 1000)) nothing_left || fail "left: $left"
    whole=$(($(now) - t0))
    case $kind in
    slurmd | node) sh $lab revive "$L" $node ;;
    ctld) sh $lab revive "$L" slurmctld ;;
    esac
    [ "$(cat "$W/status" 2>/dev/null)" = "$status" ] || [ "$status" = any ] || fail "status $(cat "$W/status" 2>/dev/null), not $status"
    said || fail "no '$want' in: $(grep '^muster:' "$W/out" | tail -3)"
    in_store
    wait $job
    until_true 60 free_again || { squeue -h -o %i | xargs -r scancel; until_true 60 free_again || fail "the nodes are not free again"; }
}

passed=0 failed=0
for kind in $kinds; do
    worst=0 ends=''
    for i in $(seq "$count"); do
        RANDOM=$((seed * 1000 + i + ${#kind} * 97))
        grep -qxF "$kind $i" "$note" && { passed=$((passed + 1)); continue; }
        play
        [ $whole -gt $worst ] && worst=$whole
        ends="$ends $took"
        if [ -z "$bad" ]; then
            passed=$((passed + 1))
            echo "$kind $i" >>"$note"
            [ -z "${V:-}" ] || echo "ok $kind $i (rank $rank, after $moment ms): ended in $took ms, nothing left after $whole ms"
        else
            failed=$((failed + 1))
            echo "not ok $kind $i (seed $seed, rank $rank, after $moment ms)$bad"
            [ -z "${V:-}" ] || { cat "$W/out" "$dir/srun.log"; }
        fi
    done
    [ -z "$ends" ] || echo "$kind: median $(echo "${ends# }" | tr -s ' ' '\n' | sort -n | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }') ms to the end, at most $worst ms until nothing is left"
done
echo "$passed passed, $failed failed (seed $seed)"
[ $failed -eq 0 ]
