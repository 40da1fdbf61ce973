#!/bin/sh
# launch.sh [RANKS] [TIMES] - how long ranks that only meet and leave take under
# `muster launch` and under mpirun, interleaved; medians in seconds.
# O: the build folder.
set -eu
cd "$(dirname "$0")/../.."
O=${O:-build} ranks=${1:-64} times=${2:-5}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export MUSTER_HOME="$work/home"
root=
[ "$(id -u)" -ne 0 ] || root=--allow-run-as-root

timed() # FILE COMMAND...
{
    file=$1
    shift
    start=$(date +%s%N)
    "$@" >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
    grep -q "$ranks ranks have met" "$work/out" || { echo "they did not meet: $*"; cat "$work/out"; exit 1; }
    echo $((($(date +%s%N) - start) / 1000000)) >>"$file"
}

median() { sort -n "$1" | awk '{ v[NR] = $1 } END { printf "%.3f", (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2000 }'; }

i=0
while [ $i -lt "$times" ]; do
    timed "$work/muster" "$O/bin/muster" launch --gpus "$ranks" -- "$O/tests/cli/helpers/pmix_hello"
    # shellcheck disable=SC2086 # one word or none
    timed "$work/mpirun" mpirun $root --oversubscribe -n "$ranks" "$O/tests/cli/helpers/pmix_hello"
    i=$((i + 1))
done
echo "$ranks ranks, median of $times: muster $(median "$work/muster") s, mpirun $(median "$work/mpirun") s (load $(cut -d' ' -f1 /proc/loadavg))"
