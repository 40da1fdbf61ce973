#!/bin/bash
# launch.sh [RANKS] [TIMES] - how long ranks that only meet and leave take under
# `muster launch` and under mpirun, interleaved: medians of wall time and of CPU time
# (user + system, ranks included).  O: the build folder.
set -euo pipefail
cd "$(dirname "$0")/../.."
O=${O:-build} ranks=${1:-64} times=${2:-5}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export MUSTER_HOME="$work/home"
root=()
[ "$(id -u)" -ne 0 ] || root=(--allow-run-as-root)
TIMEFORMAT='%R %U %S'

timed() # FILE COMMAND...
{
    local file=$1
    shift
    { time "$@" >"$work/out" 2>&1; } 2>>"$file"
    grep -q "$ranks ranks have met" "$work/out" || { echo "they did not meet: $*"; cat "$work/out"; exit 1; }
}

medians() # FILE
{
    # shellcheck disable=SC2016 # for awk
    for column in '$1' '$2 + $3'; do
        awk "{ print $column }" "$1" | sort -n |
            awk '{ v[NR] = $1 } END { printf " %.3f", (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
    done
}

for _ in $(seq "$times"); do
    timed "$work/muster" "$O/bin/muster" launch --gpus "$ranks" -- "$O/tests/cli/helpers/pmix_hello"
    timed "$work/mpirun" mpirun "${root[@]}" --oversubscribe -n "$ranks" "$O/tests/cli/helpers/pmix_hello"
done
echo "$ranks ranks, medians of $times, wall s and CPU s: muster$(medians "$work/muster"), mpirun$(medians "$work/mpirun") (load $(cut -d' ' -f1 /proc/loadavg))"
