#!/bin/bash
# agent_kill.sh [COUNT] [SEED] - kill parts of a run over SSH at random moments.
# COUNT (50) times each kind of KINDS, 4 ranks that ignore TERM, each with two processes in
# sessions of their own, on 2 hosts (tests/lab/ssh.sh).  Every time: the right culprit and
# status, nothing left on any host (processes, temporary folders, shared memory), the run in
# the store with its end and all that its ranks had printed, within 15 s.
#   rank       a rank                         agent     an agent
#   pair       an agent and its guardian      stopped   an agent, by STOP
#   session    the sshd of an agent           launcher  the launcher
#   link       a host's link goes down        guardian  its guardian
#   drop       packets vanish on the way      both      launcher and guardian at once
# The same seed draws the same victims and moments.  Resumable: what passed is noted in
# $O/soak/agent_kill.SEED (NOTE) and not done again.  O: the build folder; V=1 shows every
# line.
# shellcheck disable=SC2012,SC2016 # names of our own; what another shell expands
set -u
cd "$(dirname "$0")/../.." || exit 4
O=$(cd "${O:-build}" && pwd) count=${1:-50} seed=${2:-1}
kinds=${KINDS:-rank agent pair stopped session link drop launcher guardian both}
most=15 lab=tests/lab/ssh.sh
export O
mkdir -p "$O/soak"
note=${NOTE:-$O/soak/agent_kill.$seed}
touch "$note"
W=$(mktemp -d /tmp/agent_kill.XXXXXX)
trap 'sh $lab stop "$W/lab" 2>/dev/null; rm -rf "$W"' EXIT
why=$(sh $lab start 2 "$W/lab" 2>&1) || { echo "agent_kill: skipped: $why"; exit 0; }
S=$W/lab/shared home=$W/lab/shared/home

now() { date +%s%3N; }
on() { sh $lab on "$W/lab" "$@"; }
field() { sed -n "s/^ *\"$1\": *\"\{0,1\}\([^\",]*\).*/\1/p" "$2" | head -1; }
fail() { bad="$bad; $*"; }

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

started() { [ "$(ls "$S"/pids.[0-3] 2>/dev/null | wc -l)" = 4 ] && dir=$(ls -d "$home"/runs/*/); }
over() { [ -s "$W/status" ]; }

# Of a run: processes by name, and folders.  An sshd whose network was cut is none.
see='pgrep -al "stubborn|mguard|muster|exe|sleep" | grep -v " sleep 1000"; ls -d ${TMP:-/tmp}/muster-* /dev/shm/muster-* 2>/dev/null; true'
nothing_left() { left=$(on 1 sh -c "$see"; on 2 sh -c "$see"; on 0 env TMP=/mnt/lab/tmp sh -c "$see") && [ -z "$left" ]; }

cut() { case $kind in link) on $host ip link set eth0 down ;; drop) on 0 ip link set v$host nomaster ;; esac; }
mend()
{
    on 0 ip link set v$host master lab0
    on $host sh -c "ip link set eth0 up; ip addr replace 10.99.0.$host/24 dev eth0"
}

# What must be said, and the status.
strike()
{
    want="node node$host is lost" status=4
    case $kind in
    rank)
        want="rank $rank on node$host died of signal 9" status=137
        on $host kill -KILL "$(head -1 "$S/pids.$rank")"
        ;;
    agent) on $host sh -c 'kill -KILL $(pgrep -nf "[m]uster agent serve")' ;;
    pair) on $host sh -c 'kill -KILL $(pgrep -f "[m]uster agent serve")' ;;
    stopped) on $host sh -c 'kill -STOP $(pgrep -nf "[m]uster agent serve")' ;;
    session) on $host sh -c 'kill -KILL $(ps -o ppid= -p $(pgrep -of "[m]uster agent serve"))' ;;
    link | drop) cut ;;
    launcher)
        want='the launcher .pid [0-9]*. died of signal 9'
        on 0 kill -KILL "$(field pid "$dir/run.json")"
        ;;
    guardian)
        want='guardian process died' status=137
        on 0 kill -KILL "$(field guardian "$dir/run.json")"
        ;;
    both)
        want='' status=137
        on 0 kill -KILL "$(field guardian "$dir/run.json")" "$(field pid "$dir/run.json")"
        ;;
    esac
}

# The store has the run, how it ended, and what was printed.
in_store()
{
    id=$(basename "$dir") state=failed
    case $kind in launcher | both) state=lost ;; guardian) state=stopped ;; esac
    sh $lab exec "$W/lab" sh -c 'MUSTER_HOME=/mnt/shared/home muster runs --json' >"$W/runs.json" 2>&1 || fail "muster runs: $?"
    grep -q "$id" "$W/runs.json" || fail 'the store has lost the run'
    [ "$(field state "$W/runs.json")" = $state ] || fail "the store says $(field state "$W/runs.json"), not $state"
    case $kind in launcher | both) return ;; esac
    for r in 0 1 2 3; do
        grep -qx "word $r" "$dir/ranks/node$((r / 2 + 1)).$r.log" || fail "what rank $r printed is lost"
    done
}

play()
{
    bad='' rank=$((RANDOM % 4)) moment=$((RANDOM % 1200)) took=0 whole=0 dir=
    host=$((rank / 2 + 1))
    rm -rf "$home" "$S"/pids.* "$W/status"
    {
        timeout 100 sh $lab exec "$W/lab" sh -c 'cd /mnt/shared; export MUSTER_HOME=/mnt/shared/home TMPDIR=/mnt/lab/tmp
            mkdir -p $TMPDIR; exec muster launch --gpus 4 --grace 2s --hosts node1,node2 -- sh -c "echo word \$RANK; exec stubborn /mnt/shared/pids"' >"$W/out" 2>&1 </dev/null
        echo $? >"$W/status"
    } &
    until_true 60 started || { fail "it did not start"; wait; return; }
    sleep "$(printf '%d.%03d' $((moment / 1000)) $((moment % 1000)))"
    t0=$(now)
    strike
    until_true $most over || fail "it did not end within $most s"
    took=$(($(now) - t0))
    until_true $((most - took / 1000)) nothing_left || fail "left: $(head -c 400 <<<"${left//$'\n'/, }")"
    whole=$(($(now) - t0))
    case $kind in link | drop) mend ;; esac
    wait
    [ "$(cat "$W/status")" = $status ] || fail "status $(cat "$W/status"), not $status"
    grep -q "$want" "$W/out" "$dir/result.json" 2>/dev/null || fail "no '$want' in: $(grep '^muster:' "$W/out" | tail -3)"
    in_store
}

passed=0 failed=0
exec 2>"$W/noise" # the shell's own "Killed" lines
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
            [ -z "${V:-}" ] || cat "$W/out"
        fi
    done
    # shellcheck disable=SC2086 # words
    [ -z "$ends" ] || echo "$kind: median $(echo $ends | tr ' ' '\n' | sort -n | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }') ms to the end, at most $worst ms until nothing is left"
done
echo "$passed passed, $failed failed (seed $seed)"
[ $failed -eq 0 ]
