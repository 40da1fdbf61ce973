#!/bin/sh
# gpu.sh [ops|layers]... - check and time the CUDA trainer beside PyTorch, in one run.
#   ops     every operation against the CPU, then each alone, and PyTorch's
#   layers  4, 8 and 12 layers of the 30B-A3B shape, FSDP over two GPUs, each beside
#           its PyTorch twin; the line through them
# O: build folder (build; `make all bench` first).  AC: none selective full (none).
# PYTHON: one with PyTorch (python3).
set -u
cd "$(dirname "$0")/../.." || exit 4
O=${O:-build} AC=${AC:-none} PYTHON=${PYTHON:-python3}
[ $# -gt 0 ] || set -- ops layers
work=$(mktemp -d) || exit 4
trap 'rm -rf "$work"' EXIT
MUSTER_CUDA_MODULE=$(cd "$O/lib" && pwd)/muster-cuda.so
export MUSTER_CUDA_MODULE
export NCCL_NVLS_ENABLE="${NCCL_NVLS_ENABLE:-0}" OPENBLAS_NUM_THREADS=1

ops()
{
    "$O/tests/gpu/test_ops_gpu" 0 >"$work/test" || { grep -v '^ok' "$work/test"; exit 1; }
    tail -1 "$work/test"
    "$O/tests/bench/gpu_grouped" 0 0.7
    "$O/tests/bench/gpu_ops" 0
    "$PYTHON" tests/bench/gpu_torch_ops.py
}

# Random tokens: routing is then as uneven as random weights make it.
tokens()
{
    "$PYTHON" -c '
import array, random, struct, sys
random.seed(1)
n = 1500000
out = open(sys.argv[1], "wb")
out.write(struct.pack("<256i", 20240801, 7, n, *[0] * 253))
array.array("I", (random.getrandbits(32) % 151936 for _ in range(n))).tofile(out)
' "$work/random.bin"
}

# muster LAYERS AC - two ranks; prints layers, median tokens/s/GPU, memory
muster()
{
    cat >"$work/recipe.yaml" <<YAML
name: bench
model: {preset: qwen3-30b-a3b, layers: $1}
training: {seq_len: 4096, local_batch_size: 4, global_batch_size: 8, steps: 12, dtype: bfloat16, log_interval: 1}
parallelism: {data_parallel_shard_degree: 2, data_parallel_replicate_degree: 1}
activation_checkpoint: {mode: $2}
optimizer: {name: adamw, lr: 1e-6, weight_decay: 0.1, grad_clip: 1.0}
lr_scheduler: {warmup_steps: 2, decay: cosine, min_lr_factor: 0.1}
data: {path: "$work/random.bin"}
cluster: {backend: local, device: cuda}
YAML
    port=$((20000 + $$ % 20000))
    for r in 0 1; do
        RANK=$r WORLD_SIZE=2 LOCAL_RANK=$r LOCAL_WORLD_SIZE=2 NODE_RANK=0 \
            MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
            "$O/bin/muster-train" -r "$work/recipe.yaml" -d "$work" >"$work/rank$r" 2>&1 &
    done
    wait
    grep '^step' "$work/rank0" | tail -n +4 | sed -n 's|.*tokens/s/GPU \([0-9]*\).*memory \([0-9.]*\) .*|\1 \2|p' |
        sort -n | awk -v layers="$1" '{ t[NR] = $1; m = $2 }
            END { if (NR == 0) exit 1; printf "muster %d %d %s%%\n", layers, t[int((NR + 1) / 2)], m }' ||
        { cat "$work/rank0" "$work/rank1"; exit 1; }
}

# The least-squares line of ms against layers, carried on to 48.
line()
{
    awk -v who="$1" '$1 == who { n++; x = $2; y = 16384e3 / $3; sx += x; sy += y; sxx += x * x; sxy += x * y }
        END { if (n < 2) exit; b = (n * sxy - sx * sy) / (n * sxx - sx * sx); a = (sy - b * sx) / n
            t = 48 * b + a
            printf "%s: %.2f ms a layer + %.1f ms; 48 layers %.0f ms, %.0f tokens/s/GPU, MFU %.1f %% (reference), %.1f %% (causal)\n",
                who, b, a, t, 16384e3 / t, 16384e3 / t * 29.782e9 / 9.89e12, 16384e3 / t * 23.083e9 / 9.89e12 }' "$work/all"
}

layers()
{
    tokens
    : >"$work/all"
    for n in 4 8 12; do
        muster "$n" "$AC" | tee -a "$work/all"
        torchrun --nproc_per_node 2 tests/bench/gpu_torch_layers.py \
            "$n,4,$(echo "$AC" | sed 's/selective/sel/'),1" 2>&1 |
            sed -n 's/.*"tps": \([0-9]*\).*"reserved": \([0-9.]*\).*/torch '"$n"' \1 \2GiB/p' |
            tee -a "$work/all"
    done
    line muster
    line torch
}

for part; do
    "$part"
done
