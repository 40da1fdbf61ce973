#!/bin/sh
# demo.sh - recipes/demo.yaml through every stage, on this machine as it is.
# Everything it writes lies under build/demo.
set -eu
cd "$(dirname "$0")/.."
O=${O:-build}
PATH="$PWD/$O/bin:$PATH"
D=$O/demo
export MUSTER_HOME="$PWD/$D/home" MUSTER_DEMO_DATA="$PWD/$D/data"
recipe=recipes/demo.yaml
ranks=2

stage() # WHAT COMMAND...
{
    printf '\n\033[1m== %s\033[0m\n$ ' "$1"
    shift
    echo "$*"
    "$@"
}

mkdir -p "$D/data"
[ -e "$D/data/text.bin" ] || stage 'real text from this machine, as token shards' sh tests/demo_data.sh "$D/data"
stage 'what is here' muster topo
stage 'is it fit for this recipe?' muster check "$recipe" --gpus $ranks --level quick
stage 'what will run, and how fast' muster plan "$recipe" --gpus $ranks
stage 'train' muster launch "$recipe" --gpus $ranks
stage 'which configuration, at which scale' muster climb "$recipe"
stage 'what was learned' muster report
echo
echo "All of it is in $MUSTER_HOME (muster runs, muster logs RUN, muster report --json)."
