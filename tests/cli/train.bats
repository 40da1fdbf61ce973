# muster-train: one model whatever the layout, bit for bit where it must be.
# Cases F08, F09 (through layouts), F13, F15.
load lib

# ranks N ARG...: muster-train on N ranks; what rank 0 reports goes to `events`
ranks()
{
    local n=$1
    shift
    set -- sh -c 'MUSTER_EVENT_FD=9 exec muster-train --threads 1 "$@" 9>>events' sh "$@"
    : >events
    if [ "$n" -gt 1 ]; then
        set -- muster launch --gpus "$n" --no-check -- "$@"
    fi
    timeout 60 "$@" 2>err
}

# recipe SHARD REPLICATE [YAML LINE]...: a small run on text of its own
recipe()
{
    local shard=$1 replicate=$2
    shift 2
    [ -e text.bin ] || {
        cat "$SRC/LICENSE" >text.txt # it stays as it is: a test on other data is another test
        muster data pack -o text.bin text.txt >/dev/null
    }
    cat <<EOF
name: tiny
model: {preset: tiny}
parallelism: {data_parallel_shard_degree: $shard, data_parallel_replicate_degree: $replicate}
optimizer: {lr: 3e-3}
lr_scheduler: {warmup_steps: 2}
cluster: {device: cpu}
EOF
    [ $# -gt 0 ] || set -- "$training" "$data"
    printf '%s\n' "$@"
}
training='training: {seq_len: 32, local_batch_size: 1, global_batch_size: 4, steps: 20, dtype: float32, log_interval: 1}'
data='data: {path: text.bin, eod_token: 256}'

# Step, loss and gradient norm of every step of the last run, all digits
curve()
{
    grep '"loss"' events | grep '"event": *"step"' |
        sed 's/.*"step": *\([0-9]*\).*"loss": *\([^,}]*\).*"grad_norm": *\([^,}]*\).*/\1 \2 \3/'
}

# same A B TOLERANCE: two curves, figure by figure
same()
{
    [ "$(wc -l <"$1")" -eq "$(wc -l <"$2")" ] && [ -s "$1" ] && paste "$1" "$2" | awk -v tol="$3" '
        function off(a, b) { d = a - b; if (d < 0) d = -d; return d > tol * b + 1e-12 }
        $1 != $4 || off($2, $5) || off($3, $6) { print "differs:", $0; bad = 1 }
        END { exit bad }'
}

@test "layouts 1x1 2x1 1x2 2x2 4x1 1x4 give the same losses and gradient norms" {
    for layout in "1 1" "2 1" "1 2" "2 2" "4 1" "1 4"; do
        set -- $layout
        recipe "$1" "$2" >r.yaml
        ranks $(($1 * $2)) --recipe r.yaml >out || { cat err; false; }
        curve >"curve.$1x$2"
        [ "$(wc -l <"curve.$1x$2")" -eq 20 ]
        same "curve.$1x$2" curve.1x1 1e-5
    done
    awk 'NR == 1 { first = $2 } END { exit !($2 < first - 1) }' curve.1x1
}

@test "a tied model, too" {
    for layout in "1 1" "2 2"; do
        set -- $layout
        recipe "$1" "$2" | sed 's/preset: tiny/preset: tiny, tied: true/; s/lr: 3e-3/lr: 1e-3/' >r.yaml
        ranks $(($1 * $2)) --recipe r.yaml >out || { cat err; false; }
        curve >"curve.$1x$2"
        same "curve.$1x$2" curve.1x1 1e-5
    done
}

@test "uneven documents: accumulation and ranks weigh tokens, not batches (F08, F09)" {
    local mask='data: {path: text.bin, eod_token: 10, document_mask: true}' # a line is a document
    recipe 1 1 "${training/local_batch_size: 1/local_batch_size: 4}" "$mask" >r.yaml
    ranks 1 --recipe r.yaml >out
    curve >whole
    recipe 1 1 "$training" "$mask" >r.yaml
    ranks 1 --recipe r.yaml >out
    curve >parts
    recipe 1 2 "$training" "$mask" >r.yaml
    ranks 2 --recipe r.yaml >out
    curve >two
    same parts whole 1e-5
    same two whole 1e-5
}

@test "checkpointing modes and repeated runs agree bit for bit" {
    for mode in none selective full full; do
        recipe 2 1 "$training" "$data" "activation_checkpoint: {mode: $mode}" \
            "checkpoint: {folder: ck.$mode}" >r.yaml
        rm -rf "ck.$mode"
        ranks 2 --recipe r.yaml >out || { cat err; false; }
        curve >"curve.$mode"
        same "curve.$mode" curve.none 0
        for f in ck.none/step-00000020/shard-*; do
            cmp "$f" "ck.$mode/step-00000020/${f##*/}"
        done
    done
}

@test "resume goes on bit for bit (F15)" {
    recipe 2 1 "$training" "$data" 'checkpoint: {folder: ck, interval: 10, keep: 0}' >r.yaml
    ranks 2 --recipe r.yaml --run-dir all >out
    curve >whole
    mkdir half
    cp -r all/ck/step-00000010 half/
    mkdir half/step-00000015.tmp # cut off while being written
    ranks 2 --recipe r.yaml --run-dir two --resume half >out
    grep -q 'resumed from half/step-00000010: step 10 of 20' err
    curve >rest
    [ "$(wc -l <rest)" -eq 10 ]
    tail -n 10 whole | cmp - rest
    for f in all/ck/step-00000020/shard-*; do
        cmp "$f" "two/ck/step-00000020/${f##*/}"
    done
}

@test "resume at another number of ranks keeps the order of samples" {
    recipe 2 1 "$training" "$data" 'checkpoint: {folder: ck, interval: 10, keep: 0}' >r.yaml
    ranks 2 --recipe r.yaml --run-dir all >out
    curve >whole
    recipe 2 2 "$training" "$data" >r.yaml
    ranks 4 --recipe r.yaml --resume all/ck/step-00000010 >out
    curve >rest
    tail -n 10 whole >want
    same rest want 1e-5
    recipe 1 1 "${training/global_batch_size: 4/global_batch_size: 8}" "$data" >r.yaml
    run ranks 1 --recipe r.yaml --resume all/ck
    status 2
    grep -q 'global_batch_size 4' err
}

@test "a damaged checkpoint is refused with its name" {
    recipe 1 1 "$training" "$data" 'checkpoint: {folder: ck, interval: 10, keep: 1}' >r.yaml
    ranks 1 --recipe r.yaml >/dev/null
    [ "$(ls ck)" = step-00000020 ] # keep: 1
    printf '\377' | dd of=ck/step-00000020/shard-00000-of-00001.safetensors bs=1 seek=400000 conv=notrunc 2>/dev/null
    run ranks 1 --recipe r.yaml --resume ck
    status 2
    grep -q 'ck/step-00000020/shard-00000-of-00001.safetensors: .*damaged' err
}

@test "SIGTERM finishes the step, saves and says stopped" {
    recipe 1 1 "${training/steps: 20/steps: 100000}" "$data" 'checkpoint: {folder: ck, interval: 100000}' >r.yaml
    exec 9>events
    MUSTER_EVENT_FD=9 muster-train --threads 1 --recipe r.yaml >out 2>err &
    pid=$!
    exec 9>&-
    for _ in $(seq 100); do
        [ -s out ] && break
        sleep 0.05
    done
    kill -TERM $pid
    wait $pid # status 0
    grep -q '"event": *"stopped"' events
    [ -e ck/step-*/complete ]
    grep -q '^step' out
}

@test "events carry every figure; the summary closes them" {
    recipe 1 1 "$training" 'data: {path: text.bin, eod_token: 256, validation_fraction: 0.1, validation_interval: 10, validation_steps: 2}' >r.yaml
    ranks 1 --recipe r.yaml >out
    [ "$(grep -c '"event": *"step"' events)" -eq 20 ]
    for key in loss grad_norm lr step_s tokens_per_s_per_gpu mfu_reference mfu_causal memory_percent load_max_mean; do
        grep '"event": *"step"' events | head -n 1 | grep -q "\"$key\""
    done
    for key in loss_first loss_last validation_loss tokens_per_s_per_gpu mfu_reference memory_percent arena_bytes arena_high_water peak_resident_bytes predicted_bytes; do
        grep '"event": *"done"' events | grep -q "\"$key\""
    done
    grep -q '"mfu_reference": *null' events # a CPU has no peak
    grep -q 'validation loss' out
    grep -o '"validation_loss": *[0-9.]*' events | sed 's/.*: *//' >one
    sed -i 's/shard_degree: 1/shard_degree: 2/' r.yaml
    ranks 2 --recipe r.yaml >out
    grep -o '"validation_loss": *[0-9.]*' events | sed 's/.*: *//' | paste - one |
        awk '{ d = $1 / $2 - 1; if (d * d > 1e-10) exit 1 } END { exit NR != 3 }' # steps 10, 20, done
    # the arena is used to the last 2 %, and never beyond
    grep '"arena_high_water"' events | sed 's/.*"arena_bytes": *\([0-9]*\).*"arena_high_water": *\([0-9]*\).*/\1 \2/' |
        awk '{ exit !($2 <= $1 && $2 >= 0.98 * $1) }'
}

@test "a wrong start has one line and its status" {
    run muster-train
    status 2
    run muster-train --recipe none.yaml
    status 3
    recipe 2 1 >r.yaml
    run muster-train --recipe r.yaml --threads 1
    status 2
    has 'shard 2 x replicate 1'
    recipe 1 1 >r.yaml
    rm text.bin
    run muster-train --recipe r.yaml --threads 1
    status 3
    has 'text.bin'
    run muster-train --wireup-only
    status 0
}

@test "killed at any moment: the newest complete checkpoint is whole" {
    recipe 1 1 "${training/steps: 20/steps: 100000}" "$data" 'checkpoint: {folder: ck, interval: 1, keep: 2}' >r.yaml
    local before=0 after resume=
    for delay in 0.3 0.37 0.45 0.52 0.61; do
        : >out
        muster-train --threads 1 --recipe r.yaml $resume >out 2>err &
        pid=$!
        sleep $delay
        kill -KILL $pid
        wait $pid || true
        [ -z "$resume" ] || grep -q 'resumed from ck/step-' err || { cat err; false; }
        after=$(ls ck | grep -v tmp | tail -n 1 | sed 's/step-0*//')
        [ "$after" -gt "$before" ]
        before=$after
        resume='--resume ck'
    done
    sed -i "s/steps: 100000/steps: $((before + 2))/" r.yaml
    ranks 1 --recipe r.yaml --resume ck >out
    grep -q "^step $((before + 2)) " out
    [ -z "$(ls ck | grep tmp)" ] # what was left half-written is gone
}

@test "a rank that stops answering: the other names the group within its deadline" {
    recipe 2 1 'training: {seq_len: 32, steps: 1000000, dtype: float32}' "$data" >r.yaml
    export MUSTER_COLL_TIMEOUT_MS=1500
    timeout 30 muster launch --gpus 2 --no-check -- \
        sh -c 'echo $$ >pid.$RANK; exec muster-train --threads 1 --recipe r.yaml' >out 2>err &
    for _ in $(seq 200); do
        grep -q ': step' out && break
        sleep 0.05
    done
    kill -STOP "$(cat pid.1)"
    local rc=0
    wait $! || rc=$?
    [ "$rc" -eq 5 ]
    grep -q 'muster-train: .*rank.* 1' err || { cat err; false; }
}

@test "memory: what is resident is what was planned" {
    recipe 1 1 'training: {seq_len: 128, local_batch_size: 2, steps: 2, dtype: float32}' "$data" |
        sed 's/preset: tiny/preset: demo/' >r.yaml
    ranks 1 --recipe r.yaml >out
    grep '"arena_high_water"' events |
        sed 's/.*"arena_bytes": *\([0-9]*\).*"predicted_bytes": *\([0-9]*\).*"peak_resident_bytes": *\([0-9]*\).*/\1 \2 \3/' |
        awk '{ print; exit !($3 >= 0.98 * $1 && $3 > 0.9 * $2 && $3 < 1.1 * $2) }'
}

@test "random kills and resumes lose nothing (a sample of tests/soak/train_kill.sh)" {
    run env O="$O" timeout 300 bash "$SRC/tests/soak/train_kill.sh" 6 "$RANDOM"
    status 0
    has " 0 failed"
}

@test "routing is recorded, replayed and given, and every figure says so" {
    recipe 2 1 "$training" "$data" 'debug: {moe_record: rows.safetensors}' >r.yaml
    ranks 2 --recipe r.yaml --run-dir "$PWD" >out || { cat err; false; }
    [ -s rows.safetensors ]
    grep '"loss"' events | grep -c '"routing": *"natural"'
    ! grep -q 'routing)' out
    recipe 1 2 "$training" "$data" 'debug: {moe_routing: replay, moe_counts: rows.safetensors}' >r.yaml
    ranks 2 --recipe r.yaml >out2 || { cat err; false; }
    grep -q 'routing: replay of rows.safetensors, 20 steps of' err out2
    # the recorded load, up to the rounding of each rank's and micro-batch's rows
    paste -d ' ' <(sed -n 's/.*load \([0-9.]*\).*/\1/p' out) <(sed -n 's/.*load \([0-9.]*\) (replay routing).*/\1/p' out2) |
        awk '{ d = $1 - $2; n++; if (d < 0) d = -d; if (d > 0.3) { print; bad = 1 } } END { exit bad || n != 20 }'
    grep '"arena_high_water"' events | grep -q '"routing": *"replay"'
    recipe 1 1 "$training" "$data" 'debug: {moe_routing: balanced}' >r.yaml
    ranks 1 --recipe r.yaml >out
    [ "$(grep -c 'load 1.00 (balanced routing)' out)" -eq 20 ]
}

@test "given routing that cannot be is refused" {
    recipe 1 1 "$training" "$data" 'debug: {moe_routing: replay}' >r.yaml
    run muster-train --recipe r.yaml
    status 2
    has 'r.yaml:9: debug.moe_routing: replay needs debug.moe_counts'
    recipe 1 1 "$training" "$data" 'debug: {moe_routing: replay, moe_counts: none.safetensors}' >r.yaml
    run muster-train --recipe r.yaml
    status 3
    has none.safetensors
    recipe 1 1 "$training" "$data" 'debug: {moe_counts: none.safetensors}' >r.yaml
    run muster-train --recipe r.yaml
    status 2
}

@test "a profile: a trace and a table of each rank, other losses the same, rates without it" {
    recipe 2 1 "${training/steps: 20/steps: 8}" "$data" >r.yaml
    ranks 2 --recipe r.yaml >out || { cat err; false; }
    curve >plain
    ranks 2 --recipe r.yaml --run-dir "$PWD" --profile 4:5 >out2 || { cat err; false; }
    curve | diff - plain
    [ "$(grep -c '  profiled' out2)" -eq 2 ]
    grep -q 'profile of rank 0 (cpu), steps 4 to 5' out2
    for r in 0 1; do
        grep -q 'reduce_scatter' "profile/rank$r.txt"
        grep -q 'exposed .* idle ' "profile/rank$r.txt"
        grep -q '"name":"experts_bwd"' "profile/rank$r.json"
    done
    [ "$(grep -c '"profiled": *true' events)" -eq 2 ]
}

@test "--profile wants two steps, and something that computes" {
    recipe 1 1 >r.yaml
    for bad in 5 0:3 5:4 x:y 3: ; do
        run muster-train --recipe r.yaml --profile "$bad"
        status 2
        has "--profile $bad"
    done
    run muster-train --recipe r.yaml --device sim --profile 1:2
    status 2
    has 'simulated run computes nothing'
}

@test "a batch that memory cannot hold is refused before the start, with what fits" {
    recipe 1 1 'training: {seq_len: 4096, local_batch_size: 60000, steps: 1, dtype: float32}' "$data" >r.yaml
    run muster-train --recipe r.yaml
    status 1
    has 'out of memory before the start: batch 60000 with checkpointing none takes'
    has 'what fits: training.local_batch_size'
    has 'activation_checkpoint.mode full'
}

@test "MUSTER_EARLY changes when things are done, not what is trained" {
    local more="$data"$'\n''checkpoint: {folder: ck, interval: 10}'
    more="${more/eod_token: 256/eod_token: 256, validation_fraction: 0.1, validation_interval: 5, validation_steps: 1}"
    for layout in "2 1" "1 2" "4 1" "2 2"; do
        set -- $layout
        recipe "$1" "$2" "$training" "$more" >r.yaml
        rm -rf ck
        MUSTER_EARLY=none ranks $(($1 * $2)) --recipe r.yaml >out || { cat err; false; }
        curve >plain
        MUSTER_EARLY=gather ranks $(($1 * $2)) --recipe r.yaml >out || { cat err; false; }
        curve | diff - plain
        rm -rf ck
        ranks $(($1 * $2)) --recipe r.yaml >out || { cat err; false; } # both: the default
        curve >early
        same early plain 1e-6
        rm -rf ck/step-00000020
        MUSTER_EARLY=gather,norm ranks $(($1 * $2)) --recipe r.yaml --resume ck >out || { cat err; false; }
        curve >again
        tail -n 10 early | diff - again
    done
    recipe 2 1 | sed 's/preset: tiny/preset: tiny, tied: true/' >r.yaml
    MUSTER_EARLY=none ranks 2 --recipe r.yaml >out
    curve >plain
    MUSTER_EARLY=gather,norm ranks 2 --recipe r.yaml >out
    curve | diff - plain
}
