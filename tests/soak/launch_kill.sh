#!/bin/bash
# launch_kill.sh [COUNT] [SEED] - kill muster at random moments in random ways; after
# each, no process, temporary folder or shared memory of the run may be left.
# The same seed plays the same kills.  O: the build folder.
set -u
cd "$(dirname "$0")/../.." || exit 4
O=$(cd "${O:-build}" && pwd) count=${1:-200} seed=${2:-1}
PATH="$O/bin:$O/tests/cli/helpers:$PATH"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export MUSTER_HOME="$work/home" TMPDIR="$work/tmp" SOAK
mkdir "$TMPDIR"
RANDOM=$seed bad=0

# everything that carries the mark of this round, zombies aside
left()
{
    for e in /proc/[0-9]*/environ; do
        p=${e%/environ} p=${p#/proc/}
        [ "$p" = $$ ] && continue
        # what the shell started itself has its marks from the shell
        grep -qazx "SOAK=$SOAK" "$e" 2>/dev/null && ! grep -q '^State:.Z' "/proc/$p/status" 2>/dev/null && echo "$p"
    done
}

programs=("stubborn $work/pids" 'mpi_hello' 'sleep 30' 'pmix_hello late 1')
victims=(guardian launcher rank all-ranks)
signals=(KILL KILL TERM HUP ABRT SEGV)
i=0
while [ $i -lt "$count" ]; do
    i=$((i + 1))
    SOAK=$work/$i
    program=${programs[RANDOM % ${#programs[@]}]} victim=${victims[RANDOM % ${#victims[@]}]}
    signal=${signals[RANDOM % ${#signals[@]}]} ms=$((RANDOM % 600))
    # shellcheck disable=SC2086 # words
    muster launch --gpus 3 --grace 1s -- $program >"$work/out" 2>&1 </dev/null &
    guardian=$!
    sleep "$(printf '0.%03d' $ms)"
    launcher=$(pgrep -x muster -P $guardian)
    case $victim in
    guardian) targets=$guardian ;;
    launcher) targets=$launcher ;;
    rank) targets=$(pgrep -P "${launcher:-1999999999}" | head -1) ;;
    all-ranks) targets=$(pgrep -P "${launcher:-1999999999}") ;;
    esac
    [ -n "$targets" ] || targets=$guardian # nobody else is there yet
    # shellcheck disable=SC2086
    kill -$signal $targets 2>/dev/null
    [ "$victim" != all-ranks ] || [ "$signal" = KILL ] || kill -TERM $guardian 2>/dev/null
    for _ in $(seq 100); do
        now=$(left)
        [ -z "$now" ] && break
        # a rank that outlived a signal it ignores: the user ends the run
        [ "$victim" = rank ] && kill -TERM $guardian 2>/dev/null
        sleep 0.1
    done
    wait $guardian 2>/dev/null
    [ -z "${V:-}" ] || echo "ok $i - SIG$signal to $victim after $ms ms of $program, ${SECONDS} s"
    if [ -n "$now" ] || [ -n "$(ls "$TMPDIR")" ]; then
        bad=$((bad + 1))
        echo "not ok $i - SIG$signal to $victim after $ms ms of $program: left ${now//$'\n'/ } $(ls "$TMPDIR")"
        for p in $now; do tr '\0' ' ' <"/proc/$p/cmdline"; echo; kill -9 "$p"; done
        rm -rf "${TMPDIR:?}"/*
    fi
    rm -f "$work"/pids.*
done
echo "$((count - bad)) passed, $bad failed (seed $seed)"
[ $bad -eq 0 ]
