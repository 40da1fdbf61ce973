#!/bin/bash
# train_kill.sh [COUNT] [SEED] - kill a training run at random moments, checkpoint
# writes among them, resume it from its newest checkpoint, and again, until it ends:
# every step's loss must be that of the undisturbed run, to the last digit.
# The same seed plays the same kills.  O: the build folder.
set -u
cd "$(dirname "$0")/../.." || exit 4
src=$PWD O=$(cd "${O:-build}" && pwd) count=${1:-200} seed=${2:-1}
PATH="$O/bin:$PATH"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export MUSTER_HOME="$work/home"
cd "$work" || exit 4
RANDOM=$seed bad=0
exec 2>>noise # the shell's own "Killed" lines

cat "$src/LICENSE" "$src"/trainer/*.h >text.txt
muster data pack -o text.bin text.txt >/dev/null || exit 4
cat >r.yaml <<E2
name: soak
model: {preset: tiny}
training: {seq_len: 32, local_batch_size: 1, global_batch_size: 4, steps: 60, dtype: float32}
parallelism: {data_parallel_shard_degree: 2, data_parallel_replicate_degree: 1}
checkpoint: {folder: $work/ckpt, interval: 2, keep: 2}
data: {path: $work/text.bin, eod_token: 256}
cluster: {device: cpu}
E2

# losses RUN_FOLDER: step and loss, all digits
losses()
{
    grep '"event": *"step"' "$1/events.jsonl" | grep '"loss"' |
        sed 's/.*"step": *\([0-9]*\).*"loss": *\([^,}]*\).*/\1 \2/'
}

# train [LAUNCH OPTION]...: one launch in the background; its guardian is $guardian
train()
{
    before=$(ls "$MUSTER_HOME/runs" 2>/dev/null)
    muster launch r.yaml --gpus 2 --no-check --quiet --grace 1s "$@" >out 2>&1 </dev/null &
    guardian=$!
}

newest()
{
    comm -13 <(echo "$before") <(ls "$MUSTER_HOME/runs") | tail -1
}

# the tensors of the last checkpoint are the undisturbed run's, byte for byte
same_tensors()
{
    for f in last/*.safetensors; do
        cmp "$f" "ckpt/step-00000060/${f##*/}" || return 1
    done
}

train
wait $guardian || { cat out; exit 4; }
losses "$MUSTER_HOME/runs/$(newest)" >undisturbed
mv ckpt/step-00000060 last || exit 4
[ "$(wc -l <undisturbed)" -eq 60 ] || { echo 'the undisturbed run did not report 60 steps'; exit 4; }

i=0 kills=0
while [ $kills -lt "$count" ]; do
    i=$((i + 1))
    rm -rf ckpt "$MUSTER_HOME/runs" && : >seen
    for attempt in $(seq 40); do
        if [ "$attempt" -gt 1 ] && [ -d ckpt ]; then train --resume "$work/ckpt"; else train; fi
        sleep "0.$(printf %03d $((RANDOM % 900 + 50)))"
        launcher=$(pgrep -x muster -P $guardian)
        case $((RANDOM % 3)) in
        0) target=$guardian ;;
        1) target=$launcher ;;
        *) target=$(pgrep -P "${launcher:-1999999999}" | shuf -n1 --random-source=<(yes "$RANDOM")) ;;
        esac
        if [ -n "$target" ] && kill -KILL "$target" 2>/dev/null; then kills=$((kills + 1)); fi
        wait $guardian 2>/dev/null
        status=$?
        run=$(newest)
        [ -n "$run" ] && losses "$MUSTER_HOME/runs/$run" >>seen
        # no checkpoint yet is the only reason to begin anew
        if [ $status -eq 0 ]; then break; fi
    done
    if [ "$status" -ne 0 ]; then
        train --resume "$work/ckpt"
        wait $guardian || { echo "not ok $i - the last resume failed"; cat out; bad=$((bad + 1)); continue; }
        losses "$MUSTER_HOME/runs/$(newest)" >>seen
    fi
    # every loss that was ever reported is the undisturbed one, and so are the last weights and moments
    if [ -n "$(sort -u seen | comm -13 <(sort undisturbed) -)" ] || ! same_tensors; then
        bad=$((bad + 1))
        echo "not ok $i - losses or tensors differ after $kills kills (seed $seed)"
        sort -u seen | comm -13 <(sort undisturbed) - | head -3
    fi
    [ -z "${V:-}" ] || echo "round $i: $kills kills"
done
echo "$((i - bad)) passed, $bad failed ($kills kills, seed $seed)"
[ $bad -eq 0 ]
