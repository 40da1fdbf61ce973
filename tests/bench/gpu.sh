#!/bin/sh
# gpu.sh [PART]... - check and time the CUDA trainer beside PyTorch, in one run.
#   ops     every operation against the CPU, then each alone, and PyTorch's
#   record  8 layers of the 30B-A3B shape on real text for 240 steps: the rows of each
#           expert in every step, into RECORD
#   layers  4, 8 and 12 layers of the 30B-A3B shape, FSDP over two GPUs, each beside
#           its PyTorch twin with the same routing; the line through them
#   grads   per tensor, the gradient's error against tests/golden's FP32 beside that of
#           PyTorch in BF16, the same experts: at most 1.5 times; the loss within 1e-3, or
#           as near as PyTorch's, where that is further off; and of a larger model
#   curve   100 losses of the demo's model at a calm setting: CPU in FP32, one GPU, FSDP 2,
#           HSDP 2, beside PyTorch in BF16 from the same weights and tokens
#   profile steps 8 and 9 of a run of the middle number of layers: rank 0's table; traces
#           of all ranks into KEEP, if it is set
#   oom     a batch that cannot fit is refused with what does; that runs; and the memory
#           in use beside the arena against the prediction (256 MiB)
#   bits    the same command twice with training.deterministic: losses and checkpoint
#           files bit for bit; twice without it; what it costs
#   early   tokens/s and exposed communication with each of VARIANTS (none gather
#           gather,norm), in turn, ROUNDS times (2), at each of LAYERS: a value of
#           MUSTER_EARLY, or NAME=VALUE[+NAME=VALUE]... of the environment, as
#           VARIANTS='gather,norm MUSTER_GEMM_TUNE=8'; with TABLE=yes the whole profile
#   sanitize compute-sanitizer (SANITIZER) memcheck and racecheck over each group of the
#           operations' test, LIMIT seconds each (60)
#   env     a PyTorch program that knows nothing of muster, under muster launch: env:// with
#           NCCL, then with gloo, over RANKS GPUs
#   topo    (written, not yet run on a GPU) this machine as NCCL's file, given to NCCL for two
#           ranks; what NCCL then dumps is read back and must name the same GPUs and links
#   check   muster check at level standard and full on RANKS
#           GPUs with the 30B-A3B shapes: its table and the time it took; then a device that
#           computes wrong values, one that contradicts itself and a slow one, by
#           debug.check_fault, at level quick or standard: the rows that tell
# O: build folder (build; `make all bench` first).  AC: none selective full (none).
# ROUTING: natural balanced skewed, or a recording to replay (RECORD where there is one,
# else natural).  RECORD: tests/bench/routing.safetensors.  PYTHON: one with PyTorch.
# RANKS (2), DEVICE (cuda), PRESET, SEQ, BATCH, LAYERS ("4 8 12"), STEPS: for trying
# the script out, also on a CPU (RANKS=1 DEVICE=cpu PRESET=tiny SEQ=64 TWIN=no).
set -u
cd "$(dirname "$0")/../.." || exit 4
O=${O:-build} AC=${AC:-none} PYTHON=${PYTHON:-python3} RANKS=${RANKS:-2} DEVICE=${DEVICE:-cuda}
PRESET=${PRESET:-qwen3-30b-a3b} SEQ=${SEQ:-4096} BATCH=${BATCH:-4} LAYERS=${LAYERS:-4 8 12} TWIN=${TWIN:-yes}
RECORD=${RECORD:-tests/bench/routing.safetensors}
[ -e "$RECORD" ] && found=$RECORD || found=natural
ROUTING=${ROUTING:-$found}
[ $# -gt 0 ] || set -- ops layers
work=$(mktemp -d) || exit 4
trap 'rm -rf "$work"' EXIT
if [ "$DEVICE" = cuda ]; then
    MUSTER_CUDA_MODULE=$(cd "$O/lib" && pwd)/muster-cuda.so
    export MUSTER_CUDA_MODULE
fi
export NCCL_NVLS_ENABLE="${NCCL_NVLS_ENABLE:-0}" OPENBLAS_NUM_THREADS=1 ROUTING

fail()
{
    echo "gpu.sh: $*" >&2
    exit 1
}

ops()
{
    "$O/tests/gpu/test_ops_gpu" 0 >"$work/test" || { grep -v '^ok' "$work/test"; exit 1; }
    tail -1 "$work/test"
    "$O/tests/bench/gpu_grouped" 0 0.7
    "$O/tests/bench/gpu_ops" 0
    "$PYTHON" tests/bench/gpu_torch_ops.py
}

# Random tokens: routing, unless it is given, is then as uneven as random weights make it.
tokens()
{
    "$PYTHON" -c '
import array, random, struct, sys
random.seed(1)
n, vocab = 1500000, int(sys.argv[2])
out = open(sys.argv[1], "wb")
out.write(struct.pack("<256i", 20240801, 7, n, *[0] * 253))
array.array("I", (random.getrandbits(32) % vocab for _ in range(n))).tofile(out)
' "$work/random.bin" "$(vocabulary)"
}

vocabulary()
{
    [ -z "${PRESET_VOCAB:-}" ] || { echo "$PRESET_VOCAB"; return; }
    case $PRESET in
    qwen3-30b-a3b) echo 151936 ;;
    *) echo 257 ;;
    esac
}

# recipe LAYERS STEPS DATA [LINE]... - LINEs replace keys of the same group
recipe()
{
    layers=$1 steps=$2 data=$3
    shift 3
    for line in "name: bench" "model: {preset: $PRESET, layers: $layers}" \
        "training: {seq_len: $SEQ, local_batch_size: $BATCH, global_batch_size: $((BATCH * RANKS)), steps: $steps, dtype: bfloat16, log_interval: 1}" \
        "parallelism: {data_parallel_shard_degree: $RANKS, data_parallel_replicate_degree: 1}" \
        "activation_checkpoint: {mode: $AC}" "optimizer: {name: adamw, lr: 1e-6, weight_decay: 0.1, grad_clip: 1.0}" \
        "lr_scheduler: {warmup_steps: 2, decay: cosine, min_lr_factor: 0.1}" "data: {path: \"$data\"}" \
        "cluster: {backend: local, device: $DEVICE}"; do
        for own; do
            [ "${own%%:*}" = "${line%%:*}" ] && line=
        done
        [ -z "$line" ] || printf '%s\n' "$line"
    done
    [ $# -eq 0 ] || printf '%s\n' "$@"
}

# ranks RECIPE [ARG]... - RANKS of muster-train in $work, what each printed in $work/rankN
ranks()
{
    file=$1 pids='' bad=0
    shift
    port=$((20000 + $$ % 20000))
    for r in $(seq 0 $((RANKS - 1))); do
        RANK=$r WORLD_SIZE=$RANKS LOCAL_RANK=$r LOCAL_WORLD_SIZE=$RANKS NODE_RANK=0 \
            MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
            MUSTER_EVENT_FD=9 "$O/bin/muster-train" -r "$file" -d "$work" "$@" >"$work/rank$r" 2>&1 9>"$work/events$r" &
        pids="$pids $!"
    done
    for p in $pids; do
        wait "$p" || bad=1
    done
    [ "$bad" = 0 ] || { tail -n 20 "$work"/rank?; fail "the ranks of $file failed"; }
}

# The debug group for $ROUTING.
routing()
{
    case $ROUTING in
    natural | balanced | skewed) echo "debug: {moe_routing: $ROUTING}" ;;
    *) echo "debug: {moe_routing: replay, moe_counts: \"$ROUTING\"}" ;;
    esac
}

routing_name()
{
    routing | sed 's/.*moe_routing: \([a-z]*\).*/\1/'
}

record()
{
    "$PYTHON" tests/bench/gpu_text.py "$work/text.bin" "$(vocabulary)" || exit 1
    recipe 8 "${STEPS:-240}" "$work/text.bin" "name: text of the machine that recorded it, split in words (gpu_text.py)" "debug: {moe_record: routing.safetensors}" \
        "optimizer: {name: adamw, lr: 8e-4, weight_decay: 0.1, grad_clip: 1.0}" \
        "lr_scheduler: {warmup_steps: 100, decay: constant}" >"$work/recipe.yaml"
    ranks "$work/recipe.yaml"
    grep '^step' "$work/rank0" | awk 'NR % 40 == 1 { print } { last = $0 } END { print last }'
    cp "$work/routing.safetensors" "$RECORD" || exit 1
    "$PYTHON" tests/bench/gpu_torch_routing.py "$RECORD"
    ROUTING=$RECORD
}

# muster LAYERS - prints layers, median tokens/s/GPU, memory, routing
muster()
{
    recipe "$1" "${STEPS:-12}" "$work/random.bin" "$(routing)" >"$work/recipe.yaml"
    ranks "$work/recipe.yaml"
    grep '^step' "$work/rank0" | tail -n +4 | sed -n 's|.*tokens/s/GPU \([0-9]*\).*memory \([0-9.]*\) %  load \([0-9.]*\).*|\1 \2 \3|p' |
        sort -n | awk -v layers="$1" -v routing="$(routing_name)" '{ t[NR] = $1; m = $2; l = l < $3 ? $3 : l }
            END { if (NR == 0) exit 1; printf "muster %d %d %s%% %s routing, max:mean up to %s\n", layers, t[int((NR + 1) / 2)], m, routing, l }' ||
        { cat "$work"/rank?; exit 1; }
}

# torch LAYERS - the same of its twin
torch()
{
    torchrun --nproc_per_node "$RANKS" tests/bench/gpu_torch_layers.py \
        "$1,$BATCH,$(echo "$AC" | sed 's/selective/sel/'),1" >"$work/torch" 2>&1
    sed -n 's/.*"routing": "\([a-z]*\)".*"tps": \([0-9]*\).*"reserved": \([0-9.]*\).*/torch '"$1"' \2 \3GiB \1 routing/p' "$work/torch" |
        grep . || { tail -n 20 "$work/torch"; exit 1; }
}

# The least-squares line of ms against layers, carried on to 48.
line()
{
    awk -v who="$1" -v tokens="$((SEQ * BATCH))e3" -v routing="$(routing_name)" \
        '$1 == who { n++; x = $2; y = tokens / $3; sx += x; sy += y; sxx += x * x; sxy += x * y }
        END { if (n < 2) exit; b = (n * sxy - sx * sy) / (n * sxx - sx * sx); a = (sy - b * sx) / n
            t = 48 * b + a
            printf "%s: %.2f ms a layer + %.1f ms; 48 layers %.0f ms, %.0f tokens/s/GPU, MFU %.1f %% (reference), %.1f %% (causal), %s routing\n",
                who, b, a, t, tokens / t, tokens / t * 29.782e9 / 9.89e12, tokens / t * 23.083e9 / 9.89e12, routing }' "$work/all"
}

layers()
{
    tokens
    : >"$work/all"
    for n in $LAYERS; do
        muster "$n" >"$work/one" || { cat "$work/one"; exit 1; }
        tee -a "$work/all" <"$work/one"
        [ "$TWIN" = no ] && continue
        torch "$n" >"$work/one" || { cat "$work/one"; exit 1; }
        tee -a "$work/all" <"$work/one"
    done
    line muster
    line torch
}

# grads_of GOLDEN NAME - ours and PyTorch's, side by side
grads_of()
{
    "$O/tests/bench/gpu_grads" "$1" "$DEVICE" "$work/ours" "$work/choices" || exit 1
    "$PYTHON" tests/bench/gpu_torch_grads.py "$1" "$work/choices" "$work/theirs" "$DEVICE" >"$work/log" 2>&1 ||
        { tail -n 20 "$work/log"; exit 1; }
    echo "$2: ||a - b|| / ||b|| against FP32, muster, PyTorch BF16, ratio"
    awk 'NR == FNR { theirs[$1] = $2; next }
        $1 == "loss" { off = $2 - $3; if (off < 0) off = -off; torch = theirs[$1] - $3; if (torch < 0) torch = -torch
            bar = torch > 1e-3 ? torch : 1e-3
            printf "loss %.6f, golden %.6f: off by %.2e, PyTorch by %.2e, bar %.2e%s\n", $2, $3, off, torch, bar, (off > bar ? " TOO MUCH" : "")
            bad += (off > bar); next }
        !($1 in theirs) { print "no " $1; bad++; next }
        { ratio = $2 / theirs[$1]; n++; sum += ratio; if (ratio > worst) { worst = ratio; which = $1 }
            printf "%-52s %.2e %.2e %5.2f%s\n", $1, $2, theirs[$1], ratio, (ratio > 1.5 ? " ABOVE 1.5" : ""); bad += (ratio > 1.5) }
        END { printf "%d tensors, ratio %.2f on average, %.2f at most (%s), %d above 1.5 or missing\n", n, sum / n, worst, which, bad
            exit bad > 0 || n == 0 }' "$work/theirs" "$work/ours" || bad=1
}

grads()
{
    bad=0
    grads_of tests/golden/qwen3_moe_gpu.safetensors "committed golden"
    "$O/tests/bench/gpu_grads" -m small-50m 4 4 256 "$work/golden" || exit 1
    grads_of "$work/golden" "4 layers of small-50m, FP32 from the CPU's operations"
    [ "$bad" = 0 ] || fail 'the bar of the loss or the 1.5 of the gradients is not met'
}

# losses NAME RANKS SHARD DEVICE - 100 steps of the demo's model
losses()
{
    had="$RANKS $DEVICE $PRESET $SEQ"
    RANKS=$2 DEVICE=$4 PRESET=demo SEQ=128
    recipe 4 "${STEPS:-100}" "$work/text.bin" "model: {preset: demo, bias_update_rate: 0}" \
        "training: {seq_len: 128, local_batch_size: 4, global_batch_size: 8, steps: ${STEPS:-100}, dtype: bfloat16, log_interval: 1}" \
        "parallelism: {data_parallel_shard_degree: $3, data_parallel_replicate_degree: $(($2 / $3))}" \
        "optimizer: {lr: 3e-4}" "lr_scheduler: {warmup_steps: 10}" >"$work/curve.yaml"
    ranks "$work/curve.yaml"
    sed -n 's/^step \([0-9]*\)  loss \([0-9.]*\).*/\1 \2/p' "$work/rank0" >"$work/curve.$1"
    # shellcheck disable=SC2086 # words
    set -- $had
    RANKS=$1 DEVICE=$2 PRESET=$3 SEQ=$4
}

curve()
{
    "$PYTHON" tests/bench/gpu_text.py "$work/text.bin" 264 300000 || exit 1
    losses cpu 1 1 cpu
    "$O/tests/bench/gpu_dump" "$work/curve.yaml" "$work/dump" || exit 1
    "$PYTHON" tests/bench/gpu_torch_curve.py "$work/dump" "$work/curve.torch" "$DEVICE" >"$work/log" 2>&1 ||
        { tail -n 20 "$work/log"; exit 1; }
    names='torch'
    if [ "$DEVICE" = cuda ]; then
        losses one 1 1 cuda
        names="$names one"
        if [ "$RANKS" -gt 1 ]; then
            losses fsdp 2 2 cuda
            losses hsdp 2 1 cuda
            names="$names fsdp hsdp"
        fi
    fi
    for n in $names; do
        join "$work/curve.cpu" "$work/curve.$n" 2>/dev/null
    done | awk -v names="cpu $names" -v steps="${STEPS:-100}" '
        $1 < last || NR == 1 { k++ }
        { last = $1; cpu[$1] = $2; loss[k, $1] = $3; d = $3 - $2; if (d < 0) d = -d; sum[k] += d; if (d > most[k]) most[k] = d; n[k]++ }
        END { split(names, name, " "); printf "step"; for (i = 1; i <= k + 1; i++) printf " %9s", name[i]; print ""
            for (s = 1; s <= steps; s += s < 10 ? 3 : 10) { printf "%4d %9.5f", s, cpu[s]; for (i = 1; i <= k; i++) printf " %9.5f", loss[i, s]; print "" }
            for (i = 1; i <= k; i++) {
                printf "%s from the CPU in FP32: %.2e on average, %.2e at most, %d steps\n", name[i + 1], sum[i] / n[i], most[i], n[i]
                if (n[i] != steps) bad = 1
                if (i > 1 && sum[i] / n[i] > 1.5 * sum[1] / n[1] + 1e-3) { bad = 1; print name[i + 1] ": further off than 1.5 times PyTorch" }
            } exit bad }' || fail 'loss curves differ'
}

# PyTorch brings CUPTI along, for machines without the toolkit.
cupti_path()
{
    [ "$DEVICE" = cuda ] || return 0
    dir=$("$PYTHON" -c 'import glob, site; print("".join(glob.glob(site.getsitepackages()[0] + "/nvidia/**/libcupti.so.1?", recursive=True)[:1]))')
    [ -z "$dir" ] || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}${dir%/*}"
}

profile()
{
    cupti_path
    tokens
    # shellcheck disable=SC2086 # words
    set -- $LAYERS
    [ $# -lt 3 ] || shift
    recipe "$1" "${STEPS:-14}" "$work/random.bin" "$(routing)" >"$work/recipe.yaml"
    rm -rf "$work/profile"
    ranks "$work/recipe.yaml" --profile 8:9
    echo "$1 layers, checkpointing $AC, $(routing_name) routing"
    cat "$work/profile/rank0.txt"
    grep -v nccl "$work/profile/rank0.json" | grep -c '"kernel"' | sed 's/$/ kernels and copies in the trace/'
    [ -z "${KEEP:-}" ] || { mkdir -p "$KEEP" && cp -r "$work/profile" "$KEEP/"; }
}

oom()
{
    tokens
    # shellcheck disable=SC2086 # words
    set -- $LAYERS
    huge="training: {seq_len: $SEQ, local_batch_size: ${HUGE:-512}, steps: 2, dtype: bfloat16, log_interval: 1}"
    recipe "$1" 2 "$work/random.bin" "$huge" >"$work/recipe.yaml"
    (ranks "$work/recipe.yaml") >/dev/null 2>&1 && fail "a batch of ${HUGE:-512} was not refused"
    grep -h 'out of memory before the start' "$work/rank0" >"$work/refusal" || { cat "$work/rank0"; fail 'no word on what fits'; }
    cat "$work/refusal"
    for mode in none selective full; do
        n=$(sed -n "s/.*local_batch_size \([0-9]*\) with activation_checkpoint.mode $mode.*/\1/p" "$work/refusal")
        [ -n "$n" ] || { echo "$mode: nothing fits"; continue; }
        recipe "$1" 2 "$work/random.bin" "$(echo "$huge" | sed "s/size: [0-9]*/size: $n/")" \
            "activation_checkpoint: {mode: $mode}" >"$work/recipe.yaml"
        ranks "$work/recipe.yaml"
        sed -n 's/.*"arena_bytes": *\([0-9]*\).*"arena_high_water": *\([0-9]*\).*"used_bytes": *\([0-9]*\).*"predicted_bytes": *\([0-9]*\).*/\1 \2 \3 \4/p' "$work/events0" |
            awk -v n="$n" -v mode="$mode" '{ printf "batch %d, %s: ran; arena %.2f GiB (%s), beside it %.0f MiB, predicted %.0f\n",
                n, mode, $1 / 2^30, ($1 == $2 ? "all used" : "NOT ALL USED"), ($3 - $1) / 2^20, ($4 - $1) / 2^20 }'
        grep -h 'memory beside the arena' "$work/rank0"
    done
}

# once NAME DETERMINISTIC - figures of every step in $work/figures.NAME, checkpoint in ck.NAME
once()
{
    recipe 1 "${STEPS:-10}" "$work/random.bin" "model: {preset: $PRESET, layers: 1, vocab: $small}" \
        "training: {seq_len: $SEQ, local_batch_size: $BATCH, global_batch_size: $((BATCH * RANKS)), steps: ${STEPS:-10}, dtype: bfloat16, log_interval: 1, deterministic: $2}" \
        "optimizer: {lr: 1e-3}" "checkpoint: {folder: ck.$1, interval: ${STEPS:-10}, keep: 1}" >"$work/recipe.yaml"
    ranks "$work/recipe.yaml"
    grep '"loss"' "$work/events0" | grep '"event": *"step"' |
        sed 's/.*"step": *\([0-9]*\).*"loss": *\([^,}]*\).*"grad_norm": *\([^,}]*\).*/\1 \2 \3/' >"$work/figures.$1"
    [ "$(wc -l <"$work/figures.$1")" -eq "${STEPS:-10}" ] || fail "run $1 has not ${STEPS:-10} steps"
    sed -n 's|^step.*tokens/s/GPU \([0-9]*\).*|\1|p' "$work/rank0" | tail -n +4 | sort -n |
        awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }' >"$work/speed.$1"
}

# same_bits A B - 0 when figures and checkpoint files are the same
same_bits()
{
    cmp "$work/figures.$1" "$work/figures.$2" && (cd "$work/ck.$1" && find . -type f | sort) >"$work/files" &&
        [ -s "$work/files" ] && while IFS= read -r f; do
            case $f in */complete | */index.json) continue ;; esac
            cmp "$work/ck.$1/$f" "$work/ck.$2/$f" || return 1
        done <"$work/files"
}

bits()
{
    small=$(vocabulary) bad=0
    [ "$small" -lt 16384 ] || small=16384 # a checkpoint of the whole vocabulary is too large
    PRESET_VOCAB=$small tokens
    rm -f "$work/gemm-plans.txt"
    once a true
    [ "$DEVICE" = cpu ] || wc -l <"$work/gemm-plans.txt" | sed 's/$/ lines in the table of plans, which the second run reads/'
    once b true
    same_bits a b && echo "deterministic: $(wc -l <"$work/files") files of the checkpoint and ${STEPS:-10} losses and norms, the same bits" || bad=1
    rm -rf "$work/ck.a" "$work/ck.b"
    once c false
    once d false
    same_bits c d && echo 'not deterministic: the same bits, too' || echo 'not deterministic: other bits'
    rm -rf "$work/ck.c" "$work/ck.d"
    echo "tokens/s/GPU, 1 layer: deterministic $(cat "$work/speed.a") $(cat "$work/speed.b"), not $(cat "$work/speed.c") $(cat "$work/speed.d")"
    [ "$bad" = 0 ] || fail 'a deterministic run does not repeat'
}

early()
{
    cupti_path
    tokens
    for n in $LAYERS; do
        recipe "$n" "${STEPS:-14}" "$work/random.bin" "$(routing)" >"$work/recipe.yaml"
        for round in $(seq "${ROUNDS:-2}"); do
            for v in ${VARIANTS:-none gather gather,norm}; do
                rm -rf "$work/profile"
                case $v in
                *=*) assign=$(echo "$v" | tr + ' ') ;;
                *) assign=MUSTER_EARLY=$v ;;
                esac
                (
                    # shellcheck disable=SC2086,SC2163 # words NAME=VALUE
                    export $assign
                    ranks "$work/recipe.yaml" --profile 13:14
                ) || exit 1
                rate=$(sed -n '/profiled/d; s|^step.*tokens/s/GPU \([0-9]*\).*|\1|p' "$work/rank0" | tail -n +4 | sort -n |
                    awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }')
                echo "$n layers, $v, round $round: $rate tokens/s/GPU;$(sed -n 's/^ *computing/ computing/p' "$work/profile/rank0.txt")"
                grep -h 'product .* choice' "$work/rank0"
                [ "${TABLE:-no}" = no ] || cat "$work/profile/rank0.txt"
            done
        done
    done
}

# Kernels of the libraries' own are told apart: racecheck warns of some of cuBLAS.
sanitize()
{
    tool=${SANITIZER:-compute-sanitizer} bad=0
    command -v "$tool" >/dev/null || fail "no $tool: set SANITIZER to it"
    for check in memcheck racecheck; do
        for group in ${OPS:-$("$O/tests/gpu/test_ops_gpu" -l)}; do
            begun=$(date +%s)
            timeout "${LIMIT:-60}" "$tool" --tool "$check" --target-processes all --error-exitcode 9 --report-api-errors no \
                "$O/tests/gpu/test_ops_gpu" 0 "$group" >"$work/log" 2>&1
            status=$?
            all=$(grep -c '^========= *\(Error\|Warning\|Invalid\|Race\|Program hit\)' "$work/log")
            own=$(grep '^========= *\(Error\|Warning\|Invalid\|Race\|Program hit\)' "$work/log" | grep -cv 'cublas\|cutlass\|nvjet\|cudnn\|xmma')
            echo "$check $group: status $status, $all reports, $own not of a library, $(($(date +%s) - begun)) s"
            grep '^========= .*SUMMARY' "$work/log" | sort | uniq -c
            [ "$own" -eq 0 ] && { [ "$status" -eq 0 ] || [ "$all" -gt 0 ]; } && [ "$status" -ne 124 ] && continue
            [ "$status" -ne 124 ] || echo "$check $group: not at its end after ${LIMIT:-60} s"
            bad=1
            grep -m 12 '^=========\|^not ok' "$work/log"
        done
    done
    [ "$bad" = 0 ] || fail 'the sanitizer found errors, or did not come to its end'
}

# env_met BACKEND RANKS - all of them met and summed
env_met()
{
    TORCH_BACKEND=$1 MUSTER_HOME=$work/home OMP_NUM_THREADS=1 timeout 200 \
        "$O/bin/muster" launch --gpus "$2" -- "$PYTHON" tests/cli/torch_env.py >"$work/env" 2>&1 ||
        { tail -n 20 "$work/env"; fail "env:// with $1 failed"; }
    n=$(grep -c "of $2 sum $(($2 * ($2 + 1) / 2)) hosts 1\$" "$work/env")
    [ "$n" -eq "$2" ] || { cat "$work/env"; fail "env:// with $1: $n of $2 ranks met"; }
    echo "env: $2 ranks met with $1"
}

env_url()
{
    env_met nccl "$RANKS"
    uuids=$(sed -n 's/.*rank [0-9]* on \(.*\)$/\1/p' "$work/env" | sort -u | wc -l)
    [ "$uuids" -eq "$RANKS" ] || fail "env:// with nccl: $uuids different GPUs for $RANKS ranks"
    env_met gloo "$RANKS"
}

# GPUs, where they hang and their NVLinks, of a topology in JSON: what NCCL must not change.
devices()
{
    "$O/bin/muster" topo --source "$1" --json | "$PYTHON" -c '
import json, sys
node = json.load(sys.stdin)["nodes"][0]
above = {p["busid"]: p["above"] for p in node["pcis"]}
bus = [p["busid"] for p in node["pcis"]]
for g in sorted(node["gpus"], key=lambda g: g["busid"]):
    up = above[g["busid"]]
    print(g["busid"], g["numa"], g["sm"], bus[up] if up >= 0 else "root",
          sorted((l["peer"], l["count"]) for l in g["nvlinks"]))
'
}

topo()
{
    "$O/bin/muster" topo --format nccl-xml --output "$work/own.xml" || fail "no file for NCCL"
    tokens
    recipe 2 4 "$work/random.bin" "$(routing)" >"$work/recipe.yaml"
    (
        export NCCL_TOPO_FILE="$work/own.xml" NCCL_TOPO_DUMP_FILE="$work/dump.xml" NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=GRAPH
        ranks "$work/recipe.yaml"
    ) || exit 1
    [ -s "$work/dump.xml" ] || fail "NCCL dumped no topology"
    grep -h 'Loading topology file' "$work"/rank? | head -1 | grep . || fail "NCCL did not say that it loaded the file"
    devices "ncclxml:$work/own.xml" >"$work/own"
    devices "ncclxml:$work/dump.xml" >"$work/dump"
    diff "$work/own" "$work/dump" || fail "NCCL's dump differs from what it was given"
    "$O/bin/muster" topo --source "ncclxml:$work/dump.xml" --format nccl-xml --output "$work/again.xml"
    "$O/bin/muster" topo --source "ncclxml:$work/dump.xml" --json >"$work/dump.json"
    "$O/bin/muster" topo --source "ncclxml:$work/again.xml" --json | diff "$work/dump.json" - || fail "NCCL's dump does not come back equal"
    echo "topo: NCCL read muster's file ($(grep -c '<gpu' "$work/own.xml") GPUs) and its dump comes back equal"
}

# one_check LEVEL [SET] - prints the table; its status and time last
one_check()
{
    begun=$(date +%s%N)
    "$O/bin/muster" check "$work/recipe.yaml" --gpus "$RANKS" --level "$1" --set "debug.check_fault=${2:-}" >"$work/check" 2>&1
    status=$?
    cat "$work/check"
    echo "check --level $1${2:+, $2}: status $status, $((($(date +%s%N) - begun) / 1000000)) ms"
}

check()
{
    export MUSTER_HOME="$work/home"
    recipe 8 1 "$work/none/*.bin" >"$work/recipe.yaml"
    for level in ${LEVELS:-standard full}; do
        one_check "$level"
        grep -q '^[a-z]* .*gemm ' "$work/check" || fail "no rate of a product was measured at level $level"
    done
    last=$((RANKS - 1)) # alone it has nobody to differ from
    one_check quick "wrong $last" | grep 'gemm_bits\|exclude\|^check'
    one_check quick "flaky $last" | grep 'gemm_bits\|exclude\|^check'
    one_check standard "slow $last" | grep 'gemm \|memory_b\|exclude\|^check'
    unset MUSTER_HOME
}

for part; do
    case $part in
    ops | record | layers | grads | curve | profile | oom | bits | early | sanitize | topo | check) "$part" ;;
    env) env_url ;;
    *) fail "no part $part: the head of $0 names them" ;;
    esac
done
