#!/bin/sh
# data.sh - how fast samples come out of a shard (page cache warm), and how fast
# shards are packed and verified.  Needs a finished `make`.
set -eu
cd "$(dirname "$0")/../.."
O=${O:-build}
D=$(mktemp -d)
trap 'rm -rf "$D"' EXIT
PATH="$PWD/$O/bin:$PATH"
# shellcheck disable=SC2046 # flags are words
${CC:-cc} -O2 -D_GNU_SOURCE -iquote . -iquote recipes tests/bench/data_rate.c -o "$D/data_rate" \
    -Wl,--start-group "$O"/*.a -Wl,--end-group $(pkg-config --libs yaml-0.1 jansson) -lm
head -c 100000000 /dev/zero | tr '\0' 'a' >"$D/text"
timed() # WHAT COMMAND...
{
    what=$1
    shift
    start=$(date +%s%N)
    "$@" >/dev/null
    echo "$what: $((100000 * 1000000 / (($(date +%s%N) - start) / 1000))) k tokens/s"
}
timed 'pack' muster data pack -o "$D/a.bin" "$D/text"
timed 'verify' muster data verify --vocab 257 "$D/a.bin"
for T in 128 1024 4096; do
    for mask in 0 1; do
        "$D/data_rate" "$D/a.bin" $T $((400000000 / T / 4)) $mask
    done
done
