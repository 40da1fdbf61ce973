#!/bin/sh
# run.sh [unit|cli|replay]... - run the tests, then print one closing line that counts them.
# O: the build folder.  V=1 shows every line.  RETRY=1 runs a program or
# file of tests that failed once more, shows both and says so: for machines whose load is
# not ours.
set -u
: "${O:?set O to the build folder}"
cd "$(dirname "$0")/.." || exit 4
[ $# -gt 0 ] || set -- unit cli replay
passed=0 failed=0 skipped=0 again=
log=$(mktemp) || exit 4
trap 'rm -f "$log"' EXIT

# count LABEL STATUS - read a TAP log, add it up, show what failed
count()
{
    ok=$(grep -c '^ok ' "$log")
    skip=$(grep -ci '^ok .*# skip' "$log")
    bad=$(grep -c '^not ok ' "$log")
    # a program that died without a failing line is one failure
    [ "$2" -ne 0 ] && [ "$bad" -eq 0 ] && bad=1 && echo "not ok - $1 ended with status $2" >>"$log"
    passed=$((passed + ok - skip)) skipped=$((skipped + skip)) failed=$((failed + bad))
    if [ "$bad" -gt 0 ] || [ -n "${V:-}" ]; then
        echo "--- $1"
        cat "$log"
    elif [ "$skip" -gt 0 ]; then
        echo "--- $1"
        grep -i '^ok .*# skip' "$log"
    else
        echo "    $1: $ok passed"
    fi
}

# run LABEL SECONDS COMMAND... - a TAP program, counted
run()
{
    label=$1
    shift
    timeout "$@" >"$log" 2>&1
    status=$?
    if [ $status -ne 0 ] && [ -n "${RETRY:-}" ]; then
        echo "--- $label failed with status $status and runs once more:"
        sed -n '/^not ok/,/^ok/p' "$log"
        again="$again $label,"
        timeout "$@" >"$log" 2>&1
        status=$?
    fi
    count "$label" $status
}

unit()
{
    for t in "$O"/tests/unit/*/test_*; do
        case $t in *.o | *.d) continue ;; esac
        [ -x "$t" ] || continue
        CMOCKA_MESSAGE_OUTPUT=TAP run "unit ${t#"$O"/tests/unit/}" 600 "$t"
    done
}

cli()
{
    for t in tests/cli/*.bats; do
        [ -e "$t" ] || continue
        run "cli ${t#tests/cli/}" 900 bats --tap "$t"
    done
}

replay()
{
    for f in "$O"/tests/fuzz/fuzz_*; do
        case $f in *.o | *.d) continue ;; esac
        [ -x "$f" ] || continue
        name=${f##*/fuzz_} n=0
        : >"$log"
        for input in tests/fuzz/corpus/"$name"/*; do
            [ -e "$input" ] || continue
            n=$((n + 1))
            timeout 60 "$f" "$input" >/dev/null 2>&1 || echo "not ok $n - $input: status $?" >>"$log"
        done
        [ -s "$log" ] || echo "ok 1 - $n inputs" >>"$log"
        count "replay $name ($n inputs)" 0
    done
}

for part; do
    "$part"
done
[ -z "$again" ] || echo "run twice, for it failed the first time:${again%,}"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
