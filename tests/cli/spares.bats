# Nodes held back to take the place of bad ones, and runs that go on from a checkpoint.
# Agents on this machine stand for hosts.
load lib

agents() { MUSTER_TEST_LOCAL_AGENTS=$1 run timeout 200 muster launch "${@:2}"; }

here()
{
    [ "$(id -u)" -eq 0 ] || skip 'agents with names of their own need root'
    cat >sim.yaml <<'Y'
name: sim
model: {preset: qwen3-30b-a3b, layers: 4}
training: {seq_len: 4096, local_batch_size: 2, steps: 4, log_interval: 1}
parallelism: {data_parallel_shard_degree: 2, data_parallel_replicate_degree: -1}
activation_checkpoint: {mode: full}
data: {path: none/*.bin}
cluster: {device: sim, gpus_per_node: 2}
Y
    cat >late.sh <<'S'
[ "$(hostname)" = n1 ] && [ $RANK = 1 ] && sleep 60
exec pmix_hello
S
}

tiny()
{
    here
    cat "$SRC/LICENSE" "$SRC"/trainer/*.h >text.txt
    muster data pack -o text.bin text.txt >/dev/null
    cat >tiny.yaml <<'Y'
name: tiny
model: {preset: tiny}
parallelism: {data_parallel_shard_degree: 2, data_parallel_replicate_degree: 2}
optimizer: {lr: 3e-3}
cluster: {device: cpu, gpus_per_node: 2}
training: {seq_len: 32, local_batch_size: 1, global_batch_size: 4, steps: 40, dtype: float32, log_interval: 1}
data: {path: text.bin, eod_token: 256}
checkpoint: {folder: checkpoints, interval: 5, keep: 2}
Y
}

# wait_for SECONDS COMMAND...
wait_for()
{
    for _ in $(seq $(($1 * 10))); do
        "${@:2}" && return 0
        sleep 0.1
    done
    return 1
}

# The agent of a node, of this test's run.
agent_of()
{
    for p in $(pgrep -f "agent serve --host $1\$"); do
        tr '\0' '\n' </proc/$p/environ 2>/dev/null | grep -qx "MUSTER_HOME=$MUSTER_HOME" && echo "$p"
    done | tail -1 # the guardian's child
}

@test "spares: a node that hangs at the start is replaced, in the same run" {
    here
    agents 3 sim.yaml --gpus 4 --spares 1 --start-timeout 3s --grace 1s -- sh late.sh
    status 0
    has 'node n1 is replaced by n3: 1 of 4 ranks did not arrive at PMIx_Init within 3 s: rank 1 on n1; 0 spares left'
    has 'n2:0: 4 ranks have met'
    [ "$(ls "$MUSTER_HOME/runs" | wc -l)" -eq 1 ]
    grep -q '"change": "node n1 is replaced by n3"' "$MUSTER_HOME"/runs/*/result.json
    run muster runs
    [ "$(grep -c ' done' <<<"$output")" -eq 1 ]
    [ "$(wc -l <<<"$output")" -eq 2 ]
}

@test "spares: when none is left, the run ends with the reason" {
    here
    agents 2 sim.yaml --gpus 4 --start-timeout 2s --grace 1s -- sh late.sh
    status 5
    has 'failed: 1 of 4 ranks did not arrive at PMIx_Init within 2 s: rank 1 on n1'
    lacks 'spare'
    sed -i 's/= n1/!= n9/' late.sh # wherever rank 1 is
    agents 3 sim.yaml --gpus 4 --set cluster.spares=1 --start-timeout 2s --grace 1s -- sh late.sh
    status 5
    has 'node n1 is replaced by n3'
    has 'no spare takes the place: 0 left'
    has 'rank 1 on n2'
}

@test "spares: a program that fails by itself is no node's fault" {
    here
    agents 3 sim.yaml --gpus 4 --spares 1 --grace 1s -- sh -c 'exit $((RANK == 1 ? 7 : 0))'
    status 7
    lacks replaced
}

@test "spares: a node that fails its check is replaced; not when all fail alike" {
    tiny
    at=$(hostname -I | cut -d' ' -f1)
    [ -n "$at" ] || skip 'this machine has no address but loopback'
    sed -i 's/steps: 40/steps: 2/; s/^checkpoint.*/checks: {level: quick}/' tiny.yaml
    printf '127.0.0.1 localhost\n%s n2\n%s n3\n' "$at" "$at" >hosts # n1 does not resolve
    export MUSTER_TEST_LOCAL_AGENTS=3
    run timeout 200 unshare -m sh -c 'mount --bind hosts /etc/hosts; exec muster launch tiny.yaml --gpus 4 --spares 1'
    status 0
    has 'node n1 is replaced by n3: fail resolve, n1: n1 does not resolve'
    has 'n2:0: step 2 '
    echo '127.0.0.1 localhost' >hosts
    run timeout 200 unshare -m sh -c 'mount --bind hosts /etc/hosts; exec muster launch tiny.yaml --gpus 4 --spares 1'
    [ "$status" -ne 0 ]
    has 'no spare takes the place: all nodes fail alike'
    has 'fail resolve, n2'
}

@test "spares: they are counted, kept out of --gpus, and shown" {
    here
    agents 3 sim.yaml --gpus 4 --spares 2
    status 2
    has '--spares 2: the ranks take 2 of 3 nodes, and 1 of the others could replace one: 4 nodes are needed'
    agents 3 sim.yaml --gpus 4 --spares 1 --dry-run
    status 0
    has '# held back as spares: n3'
    agents 3 sim.yaml --gpus 4 --set cluster.spares=1 --dry-run --json
    status 0
    has '"spares": ['
    run muster launch sim.yaml --gpus 2 --spares x
    status 2
    run muster plan sim.yaml --gpus 16 --set cluster.gpus_per_node=8 --cluster "$SRC/recipes/clusters/h200-16x8.yaml" --spares 2
    has 'spares    '
    has ' --spares 2'
    run muster plan sim.yaml --gpus 128 --set cluster.gpus_per_node=8 --cluster "$SRC/recipes/clusters/h200-16x8.yaml" --spares 1
    status 2
    has '17 nodes are needed'
}

@test "restarts: a node that dies on the way is replaced, and the losses are those of a quiet run" {
    tiny
    agents 2 tiny.yaml --gpus 4 --no-check --json --quiet
    status 0
    quiet=$(grep '"loss_last"' <<<"$output")
    rm -rf "$MUSTER_HOME"
    MUSTER_TEST_LOCAL_AGENTS=3 timeout 200 muster launch tiny.yaml --gpus 4 --no-check --spares 1 --restarts 1 --json --grace 1s >out.json 2>err.txt &
    job=$!
    wait_for 60 sh -c 'grep -q "step 1[0-9] " err.txt'
    kill -KILL "$(agent_of n1)"
    rc=0
    wait $job || rc=$?
    [ $rc -eq 0 ] || { cat err.txt; false; }
    grep -q 'node n1 is replaced by n3; goes on from step [1-9][0-9]*: node n1 is lost: .*; restart 1 of 1' err.txt
    grep -qF "$quiet" out.json
    grep -q '"status": 0' out.json
    grep -q '"steps": 40' out.json
}

@test "restarts: without them the command that goes on is shown" {
    tiny
    MUSTER_TEST_LOCAL_AGENTS=2 timeout 200 muster launch tiny.yaml --gpus 4 --no-check --grace 1s >out.txt 2>err.txt &
    job=$!
    wait_for 60 sh -c 'grep -q "step 1[0-9] " out.txt'
    kill -KILL "$(agent_of n2)"
    rc=0
    wait $job || rc=$?
    [ $rc -eq 4 ]
    line=$(grep 'it goes on from step [1-9]' err.txt)
    set -- ${line#*with: muster}
    [ "$1" = launch ]
    MUSTER_TEST_LOCAL_AGENTS=2 run timeout 200 muster launch tiny.yaml --gpus 4 --no-check --resume "$6"
    status 0
    has 'resumed from'
    has 'step 40 '
}
