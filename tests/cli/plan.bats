load lib

CLUSTER="$SRC/recipes/clusters/b200-64x8.yaml"
MOE="$SRC/recipes/moe-30b-a3b.yaml"

@test "plan: --json has the keys that scripts rely on" {
    muster plan "$MOE" --gpus 16 --cluster "$CLUSTER" --json >p.json
    run jq -r '.schema, .world, .params_total, .params_active, .simulated,
        (.flops_per_token.reference / 1e6 | round), (.flops_per_token.torchtitan / 1e6 | round),
        (.flops_per_token.causal / 1e6 | round)' p.json
    [ "$output" = "$(printf '%s\n' muster/plan/1 16 30532122624 3353032704 true 29782 27915 23083)" ]
    jq -e '.memory.arena_bytes > 0 and .memory.device_bytes == 183359 * 1048576 and
        .memory.percent > 0 and .memory.percent < 100' p.json
    jq -e '.predicted | .tokens_per_s_per_gpu > 0 and .mfu_reference > .mfu_causal and
        .mfu_causal > 0 and .step_s > 0' p.json
    jq -e '(.ranks | length) == 16 and .ranks[9].rank == 9 and .ranks[9].node == "b200-02"
        and .ranks[9].gpu == 1 and .ranks[9].cpus == "14-27,126-139"' p.json
    jq -e '.commands | length >= 1 and (.[0] | startswith("muster launch "))' p.json
}

@test "plan: groups of case F13: world 16, 8 a node, shard 8" {
    muster plan "$MOE" --gpus 16 --cluster "$CLUSTER" --set parallelism.data_parallel_shard_degree=8 --json >p.json
    jq -e '.groups.shard == [[range(8)], [range(8; 16)]] and
        .groups.replicate == [range(8) | [., . + 8]]' p.json
}

@test "plan: the three rungs fit, and slow down a little" {
    last=1000000
    for n in 16 128 512; do
        run muster plan "$MOE" --gpus $n --cluster "$CLUSTER"
        status 0
        has 'predicted (not measured; the machines are simulated)'
        rate=$(echo "$output" | sed -n 's/^ *\([0-9]*\)\.[0-9]* tokens.*/\1/p')
        [ "$rate" -gt 5000 ] && [ "$rate" -le "$last" ]
        last=$rate
    done
    has '62 nodes between'
    run muster plan "$MOE" --gpus 512 --cluster "$CLUSTER" --all-ranks
    lacks 'nodes between'
    [ "$(echo "$output" | grep -c '  b200-')" -eq 512 ]
}

@test "plan: the demo on this machine's CPUs" {
    run muster plan "$SRC/recipes/demo.yaml" --gpus 4
    status 0
    has 'slot   3'
    has 'predicted (not measured)'
    has 'a guess: none is published'
    has "muster launch $SRC/recipes/demo.yaml --gpus 4"
    run muster plan "$SRC/recipes/demo.yaml" --gpus 2 --cluster "$SRC/recipes/clusters/laptop.yaml" --json
    status 0
    [ "$(echo "$output" | jq -c '[.ranks[].cpus], .predicted.mfu_reference')" = '["0","1"]
null' ]
}

@test "plan: refusals say what is there, status 2" {
    run muster plan "$MOE" --gpus 1024 --cluster "$CLUSTER" --set training.global_batch_size=4096
    status 2
    has 'moe-30b-a3b wants 1024 GPUs, the topology has 64 nodes x 8 = 512 GPUs'
    run muster plan "$MOE" --gpus 12 --cluster "$CLUSTER"
    status 2
    run muster plan "$MOE" --gpus 16 --cluster "$CLUSTER" --set parallelism.data_parallel_replicate_degree=4
    status 2
    has '16'
    run muster plan "$MOE" --gpus 16 --cluster /nonexistent.yaml
    status 3
    run muster plan "$MOE" --gpus 16 --set trainin.steps=3
    status 2
    has "did you mean"
    run muster plan /nonexistent.yaml --gpus 2
    status 3
    run muster plan "$MOE"
    status 2
    has 'needs --gpus N'
    run muster plan "$MOE" --gpus many
    status 2
    run muster plan --gpu
    status 2
}

@test "plan: every problem of a recipe at once" {
    printf 'name: x\nmodel: {preset: tiny}\ntrainin: {steps: 1}\ntraining: {steps: many}\n' >r.yaml
    run muster plan r.yaml --gpus 2
    status 2
    has 'r.yaml:3'
    has 'r.yaml:4'
}

@test "plan: what does not fit ends with 1 and says what helps" {
    run muster plan "$MOE" --gpus 8 --cluster "$SRC/recipes/clusters/h200-16x8.yaml" \
        --set parallelism.data_parallel_shard_degree=8 --set training.local_batch_size=64 \
        --set activation_checkpoint.mode=none
    status 1
    has 'it does not fit: raise the shard degree'
}

@test "plan: a better efficiency is a faster prediction, and is shown" {
    slow=$(muster plan "$MOE" --gpus 16 --cluster "$CLUSTER" --efficiency 0.2 --json | jq .predicted.step_s)
    fast=$(muster plan "$MOE" --gpus 16 --cluster "$CLUSTER" --efficiency 0.8 --json | jq .predicted.step_s)
    [ "$(awk "BEGIN { print ($slow > $fast) }")" -eq 1 ]
    run muster plan "$MOE" --gpus 16 --cluster "$CLUSTER" --efficiency 0.8
    has 'assumed: 0.80 of a peak of 2250.0 TFLOP/s'
    run muster plan "$MOE" --gpus 16 --efficiency 1.5
    status 2
}

@test "plan: for each axis bytes, tiers, the link that limits; what is not known is not guessed" {
    set_8="--set parallelism.data_parallel_shard_degree=8"
    run muster plan "$MOE" --gpus 512 --cluster "$CLUSTER" $set_8
    status 0
    has '721.8 GB/s (nvlink), ring Simple'
    has "limit: b200-01 gpu 0's 18 NVLinks of 721.8 GB/s"
    has 'crossing: nic '
    has ' s of replicate groups'
    lacks 'not counted' 'at most'
    sed 's/^  spines: 8/  spines: 1/; s/^  cables: 4/  cables: 1/' "$CLUSTER" >thin.yaml
    muster plan "$MOE" --gpus 512 --cluster thin.yaml $set_8 --json >thin.json
    jq -e '.predicted.layer_all_reduce | .tier == "nic" or .tier == "pcie"' thin.json # one cable a ring is enough
    muster plan "$MOE" --gpus 512 --cluster thin.yaml --json --set parallelism.data_parallel_shard_degree=64 >thin.json
    jq -e '.predicted.layer_all_reduce | .tier == "leaf" and .tier_bytes.leaf > 0 and
        (.limit | test("^leaf0-rail0.s 1 trunk of 400 Gb/s, shared by 8 groups$")) and .fabric_known' thin.json
    jq -e '.predicted | .exposed_shard_s + .exposed_replicate_s - .exposed_communication_s | fabs < 1e-9' thin.json
    muster topo --source "spec:$CLUSTER" --format json |
        jq '(.nodes[].gpus[] | .nic, .numa) = -1 | .nodes[].nics[].numa = -1' >flat.json
    run muster plan "$MOE" --gpus 512 --cluster json:flat.json $set_8
    has 'at most ' 'all_gather     of a layer: 1188.5 MiB in 1.'
    has 'MiB in unknown time: which NIC is near b200-'
    has 'not counted: which NIC is near' 'supply NCCL_TOPO_FILE'
    muster plan "$MOE" --gpus 512 --cluster json:flat.json $set_8 --json |
        jq -e '.predicted | .layer_all_reduce.seconds == null and (.not_counted | length) > 0 and .step_s > 0'
}

@test "plan: a saved topology and an odd file name" {
    muster topo --source "spec:$CLUSTER" --json >"my cluster.json"
    run muster plan "$MOE" --gpus 16 --cluster "json:my cluster.json"
    status 0
    has "--cluster 'json:my cluster.json'"
}

@test "plan: --help-recipe lists every key" {
    run muster plan --help-recipe
    status 0
    has training.seq_len
    has scale.memory_ceiling
    run muster plan --help-recipe --markdown
    status 0
    has '| '
}

@test "plan: its commands are those that launch would run" {
    muster plan "$SRC/recipes/demo.yaml" --gpus 2 --json | jq -r '.commands[]' >plan.txt
    muster launch "$SRC/recipes/demo.yaml" --gpus 2 --dry-run --json | jq -r '.commands[]' >launch.txt
    [ "$(wc -l <launch.txt)" -eq 2 ]
    [ "$(head -1 plan.txt)" = "muster launch $SRC/recipes/demo.yaml --gpus 2" ]
    tail -n +2 plan.txt | diff - launch.txt
}

# Ragged leaves of 3, 2 and 3 nodes; groups of two nodes.
ragged()
{
    cat >topology.conf <<'C'
SwitchName=a Nodes=n[1,4,7]
SwitchName=b Nodes=n[2,5]
SwitchName=c Nodes=n[3,6,8]
SwitchName=top Switches=a,b,c
C
    muster plan "$MOE" --gpus "$1" --cluster slurmconf:topology.conf --set cluster.gpus_per_node=8 \
        --set parallelism.data_parallel_shard_degree=16 --set training.global_batch_size=-1 "${@:2}"
}

@test "plan: the mapping against other orders, with bounds, and why a group crosses" {
    run ragged 64
    status 0
    has 'the nodes are in 3 leaves'
    has 'as listed (Slurm)'
    has 'why: 1 of 4 shard groups cross leaves, and no mapping has fewer: the leaves have room for 3 whole groups'
    has 'why: shard group 1 (ranks 16 to 31): 8 ranks in a, 8 ranks in c'
    has 'why: 16 of 16 replicate groups cross leaves'
    ragged 64 --json >p.json
    jq -e '.mapping.tiers == {leaf: 3} and (.mapping.axes | map(.axis) == ["shard", "replicate"])' p.json
    jq -e '.mapping.axes[0] | .bound.leaf == 1 and ([.orders[].cross.leaf] == [1, 2, 4]) and
        ([.orders[].order] == ["chosen", "listed", "host_name"]) and
        all(.orders[]; .seconds >= $least) and .orders[0].tier_bytes.leaf > 0' \
        --argjson least "$(jq '.mapping.axes[0].orders[0].seconds' p.json)"
    ragged 64 --json | diff - p.json
    run ragged 48
    has 'shard: 3 groups of 16'
    lacks 'shard groups cross'
    run muster plan "$MOE" --gpus 512 --cluster "$CLUSTER"
    has 'the same order'
    has 'rails: 16 of 16 replicate groups keep to one'
}
