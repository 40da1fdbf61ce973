# What muster finds in an allocation, and where it puts ranks: 4 nodes, n1 and n3 below
# one leaf switch, n2 and n4 below the other.
load lib

setup_file() { LEAVES='n[1,3] n[2,4]' slurm_lab 4; }
teardown_file() { slurm_lab_end; }

here()
{
    [ -z "$SKIP" ] || skip "$SKIP"
    unset SLURM_JOB_ID
    [ "${1:-}" = admin ] || ordinary_user "$LAB/bin"
    cat >sim.yaml <<'Y'
name: sim
model: {preset: qwen3-30b-a3b}
training: {seq_len: 4096, local_batch_size: 2, steps: 2, log_interval: 1}
parallelism: {data_parallel_shard_degree: 16, data_parallel_replicate_degree: -1}
activation_checkpoint: {mode: full}
data: {path: none/*.bin}
cluster: {device: sim}
Y
}

alloc() { run timeout 100 salloc -Q "$@"; }

@test "slurm: shard groups stay below one leaf; plan shows what launch does" {
    here
    alloc -N4 --gres=gpu:8 muster plan sim.yaml --gpus 32
    status 0
    has 'leaf              leaf0: ranks 0 to 15'
    has 'leaf              leaf1: ranks 16 to 31'
    has 'chosen there'
    has 'step      SLURM_HOSTFILE=RUN_DIR/hosts SLURM_PMIX_FENCE=ring srun --jobid='
    lacks 'cross leaf'
    alloc -N4 --gres=gpu:8 muster plan sim.yaml --gpus 32 --json
    [ "$(grep -o '"leaf": *"leaf[01]"' <<<"$output" | uniq -c | tr -d ' ":' | xargs)" = '16leafleaf0 16leafleaf1' ]
    MUSTER_SIM=time=0.01 alloc -N4 --gres=gpu:8 muster launch sim.yaml --gpus 32
    status 0
    [ "$(uniq "$MUSTER_HOME"/runs/*/hosts | xargs)" = 'n1 n3 n2 n4' ]
    # read back from the ranks
    for want in 0:n1 15:n3 16:n2 31:n4; do
        grep '"event": *"agent"' "$MUSTER_HOME"/runs/*/events.jsonl | grep "\"rank\": *${want%:*}," |
            grep -q "\"host\": *\"${want#*:}\""
    done
}

@test "slurm: a run that fits below one leaf stays there; one that cannot is warned of" {
    here
    alloc -N4 --gres=gpu:8 muster launch --dry-run sim.yaml --gpus 16
    status 0
    has '# rank 15 on n3'
    lacks ' on n2'
    alloc -w 'n[1-2]' -N2 --gres=gpu:8 muster plan sim.yaml --gpus 16
    status 0
    has 'warning   1 of 1 shard groups of 16 cross leaf switches'
}

@test "slurm: plan outside an allocation lays out on the nodes that are up" {
    here
    run timeout 60 muster plan sim.yaml --gpus 32 --set cluster.backend=slurm
    status 0
    has 'plan      sim on slurm'
    has 'leaf              leaf1: ranks 16 to 31'
    has 'Slurm decides which of them the run gets'
    scontrol update nodename=n1 state=drain reason='fan 3'
    run timeout 60 muster plan sim.yaml --gpus 16 --set cluster.backend=slurm
    scontrol update nodename=n1 state=resume
    status 0
    has 'leaf              leaf1: ranks 0 to 15'
}

@test "slurm: an allocation that is too small: what is asked, what is there, the cure" {
    here
    alloc -N2 --gres=gpu:4 muster launch sim.yaml --gpus 32
    status 2
    has 'sim wants 32 GPUs, the topology has 2 nodes x 4 = 8 GPUs; job '
    has 'ask for it (salloc --nodes=8 --gres=gpu:4), or use what is there (--gpus 8)'
    alloc -N2 --gres=gpu:4 muster plan sim.yaml --gpus 32
    status 2
    has 'ask for it'
}

@test "slurm: checks run on every node of the job, and name the one that fails" {
    here
    sed 's/device: sim/device: cpu, gpus_per_node: 2/; s/qwen3-30b-a3b/tiny/; s/degree: 16/degree: 2/; s/4096/64/' sim.yaml >cpu.yaml
    fill='srun -N1 -n1 -w n4 --overlap sh -c'
    alloc -N4 --gres=gpu:2 sh -c "$fill 'head -c 255M /dev/zero >/dev/shm/full'
        muster check cpu.yaml --level quick; echo check \$?
        muster launch cpu.yaml; echo launch \$?; $fill 'rm /dev/shm/full'"
    has 'check 1'
    for n in n1 n2 n3; do
        grep -qE "^pass +shm +$n " <<<"$output"
        grep -qE "^pass +memory +$n " <<<"$output"
    done
    grep -qE '^fail +shm +n4 ' <<<"$output"
    has 'fail shm, n4'
    has 'launch 1'
    alloc -N4 --gres=gpu:2 muster check cpu.yaml --level quick --gpus 4
    status 0
    has '2 of 4 nodes are checked'
    alloc -N4 --gres=gpu:2 muster check --level quick --set cluster.device=cpu
    status 0
    for n in n1 n2 n3 n4; do [ "$(grep -cE "^pass +shm +$n " <<<"$output")" -eq 1 ]; done
}

@test "slurm: TASKS_PER_NODE of 2,1 is taken as it is" {
    here
    alloc -N2 -n3 muster launch -- sh -c 'echo rank $RANK is $LOCAL_RANK of $LOCAL_WORLD_SIZE'
    status 0
    has ':0: rank 0 is 0 of 2'
    has ':1: rank 1 is 1 of 2'
    has ':2: rank 2 is 0 of 1'
    alloc -N2 -n3 env SLURM_TASKS_PER_NODE='2,1,4' muster launch -- true
    status 2
    has 'SLURM_TASKS_PER_NODE'
}

@test "C03: a master whose own name is loopback there is known by its address" {
    here
    cp "$LAB/lab/hosts" hosts
    say='echo $RANK $MASTER_ADDR:$MASTER_PORT [$GLOO_SOCKET_IFNAME]'
    alloc -w 'n[1-2]' -N2 --gres=gpu:1 muster launch --gpus 2 -- sh -c "$say"
    status 0
    port=$(sed -n 's/.*: 0 n1:\([0-9]*\) \[\]$/\1/p' <<<"$output")
    [ "$port" -gt 1024 ]
    has "n2:1: 1 n1:$port []"
    { echo '127.0.1.1 n1'; cat hosts; } >"$LAB/lab/hosts"
    alloc -w 'n[1-2]' -N2 --gres=gpu:1 muster launch -v --gpus 2 -- sh -c "$say"
    cat hosts >"$LAB/lab/hosts"
    status 0
    address=$(awk '$2 == "n1" { print $1 }' hosts)
    case $address in 127.*) skip 'this machine has no address but loopback' ;; esac
    has "MASTER_ADDR is $address: n1 leads to 127.0.1.1 on that node, where no other finds it"
    has ":0: 0 $address:"
    has ":1: 1 $address:"
    has "the machine's own name leads to 127.0.1.1"
    [ -n "$(sed -n 's/.*:0: 0 .* \[\(..*\)\]$/\1/p' <<<"$output")" ]
}

@test "slurm: a node of the job that is down is left out, and named" {
    here admin
    # shellcheck disable=SC2016 # for the inner shell
    alloc --no-kill -N4 --gres=gpu:8 sh -c '
        scontrol update nodename=n3 state=down reason=smoke
        muster launch --gpus 24 -- sh -c "[ \$LOCAL_RANK != 0 ] || echo on \$(hostname)"
        muster launch --gpus 32 -- true || echo status $?'
    scontrol update nodename=n3 state=resume
    has 'node n3 of job '
    has 'is left out: it is DOWN'
    has '(smoke'
    has 'n4:16: on n4'
    lacks ': on n3'
    has 'has 3 nodes x 8 = 24 GPUs'
    has 'status 2'
}

@test "slurm: topo in a job looks at each node from inside" {
    here
    alloc -N4 --gres=gpu:8 muster topo --json
    status 0
    [ "$(jq -r '.source, .nodes[].name' <<<"$output" | xargs)" = 'slurm job, from inside n1 n2 n3 n4' ]
    jq -e '[.nodes[] | .boot_id != "" and .numas[0].memory_bytes > 0] | all' <<<"$output"
    # where Slurm and the node differ, both are named
    jq -e '[.findings[] | select(.text | startswith("Slurm gives the job 8 GPUs here, 0 are seen"))] | length == 4' <<<"$output" ||
        [ -e /dev/nvidia0 ]
    jq -e '.nodes[2].leaf == .nodes[0].leaf and .nodes[1].leaf != .nodes[0].leaf' <<<"$output"
    alloc -N2 --gres=gpu:8 muster topo
    status 0
    has '(2 alike)'
    [ -e /dev/nvidia0 ] || has 'warn  n[1,3]: Slurm gives the job 8 GPUs here, 0 are seen from inside'
    run timeout 60 muster topo --source job
    status 3
    has 'there is no Slurm allocation here'
}
