# Starts that fail under a real Slurm: who is missing is named with its node, a spare takes
# the place of a bad node, another order than the plan's stops the run.
load lib

setup_file() { slurm_lab 3; }
teardown_file() { slurm_lab_end; }

here()
{
    [ -z "$SKIP" ] || skip "$SKIP"
    unset SLURM_JOB_ID
    ordinary_user "$LAB/bin"
    cat >sim.yaml <<'Y'
name: sim
model: {preset: qwen3-30b-a3b, layers: 4}
training: {seq_len: 4096, local_batch_size: 2, steps: 4, log_interval: 1}
parallelism: {data_parallel_shard_degree: 2, data_parallel_replicate_degree: -1}
activation_checkpoint: {mode: full}
data: {path: none/*.bin}
cluster: {device: sim, gpus_per_node: 2}
Y
    export MUSTER_SIM=time=0.01
}

launch() { run timeout 100 salloc -Q -N3 --gres=gpu:8 muster launch sim.yaml --grace 1s "$@"; }
nodes() { bash "$SRC/tests/lab/slurm_ps.sh" "$LAB/lab" "$@"; }
slurmd_of() { nodes all | awk -v n="$1" '$2 == n && $3 == "slurmd" { print $1 }'; }
in_mounts() { nsenter -t "$(slurmd_of "$1")" -m "${@:2}"; }

# A slurmd that was stopped starts, late, a step that is over: its slurmstepd takes a
# while to see that.
nothing_left()
{
    for _ in $(seq 150); do
        left=$(nodes | sed '/ slurmstepd /d')
        [ -n "$left" ] || return 0
        sleep 0.1
    done
    echo "left: $left"
    return 1
}

# Until the command is done, slurmd of this node starts nothing.
stopped()
{
    daemon=$(slurmd_of "$1")
    kill -STOP "$daemon"
    launch "${@:2}"
    kill -CONT "$daemon"
}

@test "slurm start: a node that hangs is named within the deadline" {
    here
    stopped n2 --gpus 6 --start-timeout 4s
    status 5
    has 'tasks did not reach muster within 4 s: rank 2 on n2, rank 3 on n2'
    lacks 'on n1,'
    nothing_left
}

@test "slurm start: with --spares 1 the run goes on without it" {
    here
    stopped n1 --gpus 4 --spares 1 --start-timeout 4s
    status 0
    has 'node n1 is replaced by n3: tasks did not reach muster within 4 s: rank 0 on n1, rank 1 on n1'
    has '0 spares left'
    has 'n2:0: muster-train: simulated: 4 ranks by pmix'
    has 'is done, 4 ranks'
    [ "$(ls "$MUSTER_HOME/runs" | wc -l)" -eq 1 ]
    nothing_left
}

@test "slurm start: a node that cannot start the agent is named, and replaced" {
    here
    mkdir empty
    chmod 755 . empty
    for folder in bin lib; do in_mounts n2 mount --bind "$PWD/empty" "$O/$folder"; done
    launch --gpus 6
    first=$output
    launch --gpus 4 --spares 1
    for folder in bin lib; do in_mounts n2 umount "$O/$folder"; done
    status 0
    has 'node n2 is replaced by n3'
    [[ $first == *"rank 2 on n2, rank 3 on n2: muster's agent cannot be started there"* ]]
    [[ $first == *'No such file'* ]]
    nothing_left
}

@test "slurm start: a program that one node lacks: the node is replaced" {
    here
    mkdir empty prog
    cp "$(command -v sleep)" prog/nap
    chmod 755 . empty prog
    in_mounts n1 mount --bind "$PWD/empty" "$PWD/prog"
    launch --gpus 6 -- "$PWD/prog/nap" 0.1
    in_mounts n1 umount "$PWD/prog"
    status 3
    has 'on n1: '
    nothing_left
}

@test "slurm start: ranks that never reach PMIx_Init are named, with no word from them" {
    here
    cat >late.sh <<'S'
case $RANK in 3|4) sleep 60;; esac
exec pmix_hello
S
    chmod 755 . late.sh
    launch --gpus 6 --start-timeout 4s -- sh late.sh
    status 5
    has '2 of 6 ranks did not arrive at PMIx_Init within 4 s: rank 3 on n2, rank 4 on n3'
    nothing_left
    # one that has no business with PMIx is left alone
    launch --gpus 6 --start-timeout 1s -- sh -c 'sleep 3; echo slept'
    status 0
    [ "$(grep -c slept <<<"$output")" -eq 6 ]
}

@test "slurm start: a rank that hangs before the first meeting is named" {
    here
    launch --gpus 6 --start-timeout 3s --silence-timeout 4s -- sh -c 'case $RANK in 5) kill -STOP $$;; esac; exec pmix_hello'
    status 5
    has 'rank 5 on n3'
    nothing_left
}

@test "slurm start: another order than the plan's stops the run" {
    here
    real=$(command -v srun)
    mkdir -p wrong
    cat >wrong/srun <<S
#!/bin/sh
# a Slurm that does not follow the hostfile
sort -r "\$SLURM_HOSTFILE" >"\$SLURM_HOSTFILE.r"
SLURM_HOSTFILE=\$SLURM_HOSTFILE.r exec $real "\$@"
S
    chmod -R a+rx . wrong
    PATH="$PWD/wrong:$PATH" launch --gpus 6
    status 1
    has 'rank '
    has 'srun did not follow the hostfile'
    lacks 'step 1'
    nothing_left
}

@test "slurm start: a setup that fails costs a spare, not the launch" {
    here
    setup() { echo "cluster.slurm.setup=[sh, -c, 'test \$SLURMD_NODENAME != $1 || { echo no disk; exit 7; }']"; }
    launch --gpus 4 --spares 1 --set "$(setup n3)" # the spare itself
    status 0
    has 'no rank is placed there, the launch goes on: cluster.slurm.setup: sh failed on n3: status 7: no disk; 0 spares left'
    launch --gpus 4 --spares 1 --set "$(setup n1)"
    status 0
    has 'node n1 is replaced by n3: cluster.slurm.setup: sh failed on n1'
    has 'n2:0: muster-train'
    launch --gpus 6 --set "$(setup n1)"
    status 1
    has 'sh failed on n1: status 7: no disk'
    lacks 'step 1'
    nothing_left
}

@test "slurm start: a wedged rank is found outside its own code, with its last step" {
    here
    MUSTER_SIM=time=0.01,wedge=3@3 launch --gpus 6 --silence-timeout 3s --start-timeout 30s
    status 5
    has 'no sign of life for 3 s: rank 3 on n2 (last step 2)'
    nothing_left
}

@test "slurm start: outside an allocation the spare is asked for too" {
    here
    run timeout 100 muster launch sim.yaml --gpus 4 --spares 1 --set cluster.backend=slurm --dry-run
    status 0
    has '--nodes=3'
    run timeout 100 muster launch sim.yaml --gpus 6 --spares 1 --set cluster.backend=slurm
    [ "$status" -ne 0 ] # there are three
    run timeout 100 muster launch sim.yaml --gpus 4 --spares 1 --set cluster.backend=slurm
    status 0
    nothing_left
}
