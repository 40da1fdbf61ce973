# muster launch inside and outside an allocation of a real Slurm, 2 nodes of 8 GPUs, as
# an ordinary user.
load lib

setup_file() { slurm_lab 2; }
teardown_file() { slurm_lab_end; }

here()
{
    [ -z "$SKIP" ] || skip "$SKIP"
    unset SLURM_JOB_ID
    ordinary_user "$LAB/bin"
    cat >sim.yaml <<'Y'
name: sim
model: {preset: qwen3-30b-a3b}
training: {seq_len: 4096, local_batch_size: 2, steps: 4, log_interval: 1}
parallelism: {data_parallel_shard_degree: 8, data_parallel_replicate_degree: -1}
activation_checkpoint: {mode: full}
data: {path: none/*.bin}
cluster: {device: sim}
Y
}

# alloc OPTION... -- COMMAND...: in an allocation of both nodes
alloc() { run timeout 100 salloc -Q -N2 --gres=gpu:8 "$@"; }
sim() { here; MUSTER_SIM="time=0.01,$1" alloc muster launch sim.yaml "${@:2}"; }
result() { cat "$MUSTER_HOME"/runs/*/result.json; }

# The processes of this lab alone: its daemons have a PID namespace of their own.
in_lab() { pgrep --ns "$(pgrep -P "$(cat "$LAB/lab/pid")" | head -1)" --nslist pid "$@"; }

gone() { if pgrep -f "$1"; then return 1; fi; }

# No process of this test's run is left on any node.
nothing_left()
{
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        left=$(in_lab -f 'muster-agent exec' || pgrep -f "$MUSTER_HOME" || true)
        [ -n "$left" ] || return 0
        sleep 0.5
    done
    ps -o pid,args -p $left
    return 1
}

@test "C12: under Slurm the rank that was chosen reads stdin, no other" {
    here
    printf 'n1\nn2\nn3\n' >list
    alloc sh -c 'muster launch --gpus 16 --stdin 9 -- sh -c "echo got \$(wc -c)" <list'
    status 0
    has 'n2:9: got 9'
    [ "$(grep -c 'got 0$' <<<"$output")" -eq 15 ]
    head -c 2000000 /dev/urandom >big
    alloc sh -c '(sleep 0.5; cat big) | muster launch --gpus 2 --stdin 1 -q -- sh -c "[ \$RANK = 0 ] || cat >copy"'
    status 0
    cmp big copy
    alloc sh -c 'muster launch --gpus 2 -- sh -c "echo got \$(wc -c)" <big'
    status 0
    [ "$(grep -c 'got 0$' <<<"$output")" -eq 2 ]
}

@test "slurm: 2 x 8 ranks meet by PMIx, in the order of the plan" {
    sim seed=1 --gpus 16
    status 0
    has '16 ranks by pmix'
    has 'simulated step 4'
    events=$(cat "$MUSTER_HOME"/runs/*/events.jsonl)
    for r in 0 7 8 15; do
        node=n$((r / 8 + 1))
        line=$(grep '"event": *"agent"' <<<"$events" | grep "\"rank\": *$r,")
        for want in "\"node\": *\"$node\"" "\"host\": *\"$node\"" "\"pmix_rank\": *$r,"; do
            grep -q "$want" <<<"$line"
        done
    done
    [ "$(grep -c '"event": *"agent"' <<<"$events")" -eq 16 ]
    grep -q 'PMIX_MCA_gds=hash' "$MUSTER_HOME"/runs/*/plan.json
}

@test "B13: rank 0 and the master are on the first node of the hostfile" {
    here
    alloc muster launch --gpus 16 -- sh -c 'echo $RANK $SLURM_PROCID $PMIX_RANK $LOCAL_RANK $(hostname) $MASTER_ADDR $WORLD_SIZE'
    status 0
    has 'n1:0: 0 0 0 0 n1 n1 16'
    has 'n2:13: 13 13 13 5 n2 n1 16'
    [ "$(sort -u "$MUSTER_HOME"/runs/*/hosts | xargs)" = 'n1 n2' ]
    [ "$(sed -n 9p "$MUSTER_HOME"/runs/*/hosts)" = n2 ]
}

@test "C02: a MASTER_ADDR of the user stays" {
    here
    MASTER_ADDR=gn08-ib alloc muster launch --gpus 2 -- sh -c 'echo at $MASTER_ADDR'
    status 0
    has ':1: at gn08-ib'
}

@test "C15: the environment arrives byte for byte" {
    here
    export NCCL_IB_HCA=mlx5_0,mlx5_1 X='a b;c"d' Y=é Z= SLURM_EXPORT_ENV=NONE
    alloc muster launch --gpus 16 -- sh -c 'cat /proc/$$/environ >env.$RANK'
    status 0
    for r in 0 15; do
        for v in 'Z=' 'NCCL_IB_HCA=mlx5_0,mlx5_1' 'X=a b;c"d' 'Y=é' "PATH=$PATH" "SLURM_PROCID=$r"; do
            grep -azqxF -- "$v" env.$r || { echo "no $v"; false; }
        done
        [ "$(grep -azc '^MUSTER_AGENT_AT=' env.$r)" -eq 0 ]
    done
}

@test "slurm: an Open MPI program runs as it is" {
    here
    alloc muster launch --gpus 4 -- mpi_hello
    status 0
    [ "$(grep -c 'of 4: ring ok, sum 6' <<<"$output")" -eq 4 ]
}

@test "slurm: training on two nodes has the losses of one machine, bit for bit" {
    here
    cat "$SRC/LICENSE" "$SRC"/trainer/*.h >text.txt
    muster data pack -o text.bin text.txt >/dev/null
    cat >cpu.yaml <<'Y'
name: tiny
model: {preset: tiny}
parallelism: {data_parallel_shard_degree: 2, data_parallel_replicate_degree: 2}
optimizer: {lr: 3e-3}
cluster: {device: cpu, gpus_per_node: 2}
training: {seq_len: 32, local_batch_size: 1, global_batch_size: 4, steps: 6, dtype: float32, log_interval: 1}
data: {path: text.bin, eod_token: 256}
Y
    muster launch cpu.yaml --gpus 4 --no-check --json --quiet >one.json
    alloc muster launch cpu.yaml --gpus 4 --no-check --json --quiet
    status 0
    for key in loss_first loss_last; do
        grep -qF "$(grep "^  \"$key\"" one.json)" <<<"$output"
    done
}

@test "slurm: MPI_Abort and checks" {
    here
    alloc muster launch --gpus 4 -- mpi_hello abort 3 9
    [ "$status" -ne 0 ]
    has 'failed: rank '
    nothing_left
    # the lab's nodes have no addresses: a check finds it, through Slurm
    alloc muster check sim.yaml --gpus 16 --set cluster.device=cpu
    [ "$status" -ne 0 ]
    has n2
}

@test "slurm: how ranks end is told as it is on one machine" {
    here
    alloc muster launch --gpus 16 --grace 2s -- sh -c 'if [ $RANK = 9 ]; then echo "disk is full" >&2; exit 7; fi; sleep 60'
    status 7
    has 'rank 9 on n2'
    has 'its last words: disk is full'
    nothing_left
    sim crash=3@2 --gpus 16 --grace 2s
    status 139
    has 'rank 3 on n1 died of signal 11'
    nothing_left
}

@test "slurm: ranks that all fail at once are a failure" {
    here
    alloc muster launch --gpus 4 -- sh -c 'echo no such disk >&2; exit 3'
    status 3
    has 'failed: rank '
    has 'ended with status 3; its last words: no such disk'
    alloc muster launch --gpus 1 -- sh -c 'kill -SEGV $$'
    status 139
}

@test "slurm: a silent rank is named, and deaf ones are killed" {
    sim wedge=12@2 --gpus 16 --silence-timeout 3s --grace 1s
    status 5
    has 'no sign of life for 3 s: rank 12 on n2'
    nothing_left
}

@test "slurm: descendants that hide are ended with their rank" {
    here
    alloc muster launch --gpus 2 --grace 1s -- sh -c 'setsid sh -c "trap : TERM; sleep 61; sleep 61" & exit 0'
    status 0
    gone 'sleep 6[1]'
}

@test "slurm: the launcher is killed: nothing is left, the nodes are free again" {
    here
    salloc -Q -N2 --gres=gpu:8 muster launch --gpus 16 --grace 1s -- sh -c 'echo up; sleep 77' >out 2>&1 &
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        [ "$(grep -c up out)" -ge 16 ] && break
        sleep 0.2
    done
    launcher=$(sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' "$MUSTER_HOME"/runs/*/run.json)
    [ "$launcher" -gt 1 ]
    kill -KILL "$launcher"
    wait || true
    gone 'sleep 7[7]'
    nothing_left
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        [ "$(squeue -h | wc -l)" -eq 0 ] && break
        sleep 0.5
    done
    [ "$(squeue -h | wc -l)" -eq 0 ]
}

@test "slurm: scancel of the step stops the run, and says so" {
    here
    salloc -Q -N2 --gres=gpu:8 muster launch --gpus 16 --grace 1s -- sh -c 'echo up; sleep 79' >out 2>&1 &
    job=$!
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        [ "$(grep -c up out)" -ge 16 ] && break
        sleep 0.2
    done
    scancel --signal=TERM "$(squeue -h -s -o %i | grep -v extern | head -1)"
    rc=0
    wait $job || rc=$?
    [ $rc -eq 143 ]
    grep -q 'Slurm ended the step' out
    nothing_left
}

@test "B14, C01: too few nodes, no PMIx, and what is not there yet" {
    sim seed=1 --gpus 32
    status 2
    has '2 nodes x 8 = 16 GPUs'
    alloc muster launch sim.yaml --gpus 16 --set cluster.slurm.args='[--mpi=none]'
    status 1
    has 'has no PMIx server'
    alloc muster launch sim.yaml --gpus 16 --set cluster.slurm.args='[--no-such-option]'
    status 1
    has 'srun ended with status'
    has 'no-such-option'
    alloc env SLURM_HET_SIZE=2 muster launch sim.yaml --gpus 16
    status 2
    has 'heterogeneous'
    nothing_left
}

@test "slurm: outside an allocation nodes are asked for and given back" {
    here
    MUSTER_SIM=time=0.01 run timeout 100 muster launch sim.yaml --gpus 16 --set cluster.backend=slurm
    status 0
    has 'is done, 16 ranks; simulated'
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        [ "$(squeue -h | wc -l)" -eq 0 ] && break
        sleep 0.5
    done
    [ "$(squeue -h | wc -l)" -eq 0 ]
    MUSTER_SIM=exit=5@2:9,time=0.01 run timeout 100 muster launch sim.yaml --gpus 16 --set cluster.backend=slurm
    status 9
    has 'rank 5 on n1'
    run muster launch sim.yaml --gpus 20 --set cluster.backend=slurm
    status 2
}

@test "slurm: --dry-run shows the step" {
    sim seed=1 --gpus 16 --dry-run
    status 0
    has 'srun --jobid='
    has '--distribution=arbitrary'
    has '# rank 8 on n2'
    has '/muster-agent exec'
}

@test "slurm: without the light program beside it, muster is the agent itself" {
    here
    mkdir bin && cp "$O"/bin/muster "$O"/bin/muster-train bin
    MUSTER_SIM=time=0.01 alloc bin/muster launch sim.yaml --gpus 16
    status 0
    has 'simulated step 4'
    alloc bin/muster launch sim.yaml --gpus 16 --dry-run
    has '/bin/muster agent exec'
}
