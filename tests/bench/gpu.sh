#!/bin/sh
# gpu.sh [PART]... - check and time the CUDA trainer beside PyTorch, in one run.
#   ops     every operation against the CPU, then each alone, and PyTorch's
#   record  8 layers of the 30B-A3B shape on real text for 240 steps: the rows of each
#           expert in every step, into RECORD
#   layers  4, 8 and 12 layers of the 30B-A3B shape, FSDP over two GPUs, each beside
#           its PyTorch twin with the same routing; the line through them
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
            "$O/bin/muster-train" -r "$file" -d "$work" "$@" >"$work/rank$r" 2>&1 &
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

for part; do
    case $part in
    ops | record | layers) "$part" ;;
    *) fail "no part $part: the head of $0 names them" ;;
    esac
done
