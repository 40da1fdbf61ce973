# Batch jobs of a real Slurm (2 nodes of 8 GPUs) and what comes when time is up.
load lib

setup_file() { PREEMPT=1 slurm_lab 2; }
teardown_file() { slurm_lab_end; }

# cpu.yaml trains 400 steps on 4 CPU ranks; sim.yaml keeps time on 16 simulated ones
here()
{
    [ -z "$SKIP" ] || skip "$SKIP"
    unset SLURM_JOB_ID
    squeue -h -o %A | xargs -r scancel
    until_true 'squeue -h | grep -q . && exit 1; sinfo -h -t idle -o %D | grep -qx 2'
    ordinary_user "$LAB/bin"
    cat "$SRC/LICENSE" >text.txt
    muster data pack -o text.bin text.txt >/dev/null
    cat >cpu.yaml <<'Y'
name: tiny
model: {preset: tiny}
parallelism: {data_parallel_shard_degree: 2, data_parallel_replicate_degree: 2}
optimizer: {lr: 3e-3}
cluster: {backend: slurm, device: cpu, gpus_per_node: 2}
training: {seq_len: 32, local_batch_size: 1, global_batch_size: 4, steps: 400, dtype: float32, log_interval: 1}
data: {path: text.bin, eod_token: 256}
checkpoint: {folder: ck, interval: 100}
checks: {level: quick}
Y
    cat >sim.yaml <<'Y'
name: sim
model: {preset: qwen3-30b-a3b}
training: {seq_len: 4096, local_batch_size: 2, steps: 4, log_interval: 1}
parallelism: {data_parallel_shard_degree: 8, data_parallel_replicate_degree: -1}
activation_checkpoint: {mode: full}
data: {path: none/*.bin}
cluster: {backend: slurm, device: sim, gpus_per_node: 8}
Y
}

# Until the command succeeds; 60 s
until_true()
{
    local i=0
    until (eval "$1") >/dev/null 2>&1; do
        [ $((i += 1)) -lt 300 ] || { echo "in vain: $1"; return 1; }
        sleep 0.2
    done
}

# submit WORD...: RUN, JOB and DIR of a detached launch
submit()
{
    timeout 60 muster launch --detach --json "$@" >submitted
    RUN=$(sed -n 's/.*"run": "\(.*\)".*/\1/p' submitted)
    JOB=$(sed -n 's/.*"job": "\(.*\)".*/\1/p' submitted)
    DIR=$MUSTER_HOME/runs/$RUN
    [ -n "$JOB" ] && [ -n "$RUN" ]
}

state_of() { muster runs --json | grep -A3 "\"id\": \"$1\"" | sed -n 's/.*"state": "\(.*\)".*/\1/p'; }
state_is() { until_true "[ \"\$(state_of '$1')\" = $2 ]" || { muster runs; cat "$DIR"/*.log; false; }; }
steps_of() { grep -c '"event": *"step"' "$MUSTER_HOME/runs/$1/events.jsonl"; }
steps_reach() { until_true "[ \"\$(steps_of '$1')\" -ge $2 ]"; }

# Slurm holds a requeued job back for two minutes, until the end of the first script is
# told.  Do not wait so long, but for that.
released()
{
    local i=0
    until_true "! pgrep -f 'launch --batch $DIR ' && squeue -h -j $1 -t pending -o %r | grep -q BeginTime"
    until squeue -h -j "$1" -t running | grep -q .; do
        [ $((i += 1)) -lt 60 ] || { squeue -t all; cat "$DIR"/*.log; return 1; }
        if [ $((i % 10)) -eq 3 ]; then scontrol update "jobid=$1" starttime=now || true; fi
        sleep 1
    done
}

# losses FILE...: step and loss of rank 0, each step once, in order
losses()
{
    cat "$@" | sed -n 's/.*"rank": *0,.*"event": *"step".*"step": *\([0-9]*\),.*"loss": *\([0-9.e+-]*\),.*/\1 \2/p;
        s/.*"event": *"step",* *"step": *\([0-9]*\),.*"loss": *\([0-9.e+-]*\),.*"rank": *0[,}].*/\1 \2/p' | sort -n -u
}

# The same training in one go, on this machine
in_one_go()
{
    MUSTER_HOME=$T/alone muster launch cpu.yaml --gpus 4 --no-check --quiet --set cluster.backend=local >/dev/null 2>&1
    losses "$T"/alone/runs/*/events.jsonl >one
    [ "$(wc -l <one)" -eq 400 ]
}

same_losses()
{
    losses "$@" >many
    cmp one many
}

@test "batch: a detached launch is a job; runs, logs and report work on it" {
    here
    submit cpu.yaml --gpus 4 --no-check --set training.steps=30
    run timeout 60 muster logs --follow "$RUN"
    status 0
    has 'n1:0: step 30 '
    state_is "$RUN" "done"
    run muster report "$RUN"
    status 0
    has 'in 30 steps'
    grep -q "run $RUN is done, 4 ranks; 30 steps" "$DIR/launch.log"
    run muster stop "$RUN"
    status 1
    has 'not running: done'
}

@test "batch: checks are made in the job, and a refusal is the run's result" {
    here
    submit sim.yaml --gpus 16 --set cluster.slurm.args='[--nodes=1]'
    state_is "$RUN" failed
    run muster report "$RUN"
    has '1 node x 8 = 8 GPUs'
    grep -q '"cause": "refused"' "$DIR/result.json"
    run timeout 20 muster launch sim.yaml --gpus 16 --detach --set cluster.slurm.args='[--partition=nowhere]'
    status 1
    has 'Invalid partition'
    [ "$(find "$MUSTER_HOME/runs" -mindepth 1 -maxdepth 1 | wc -l)" -eq 1 ]
}

@test "batch: --dry-run prints byte for byte what is run" {
    here
    mkdir bin
    cat >bin/sbatch <<'S'
#!/bin/sh
printf '%s\0' "$0" "$@" >argv
echo 77
S
    chmod +x bin/sbatch
    words=(cpu.yaml --gpus 4 --set "name=it's \$HOME \"x\" é" --grace 20s)
    PATH="$PWD/bin:$PATH" muster launch "${words[@]}" --detach --dry-run >dry
    PATH="$PWD/bin:$PATH" muster launch "${words[@]}" --detach >id 2>/dev/null
    mv argv ran
    dir=$MUSTER_HOME/runs/$(cat id)
    sed "1s|RUN_DIR|$dir|g" dry | head -1 >line
    PATH="$PWD/bin:$PATH" sh ./line >/dev/null
    cmp argv ran
    sed -n '3,4p' dry | cmp - "$dir/batch.sh"
    grep -q -- '--signal=B:USR1@120 ' line
    grep -q -- ' --requeue ' line
    [ "$(grep -c -- ' --no-kill ' line)" -eq 0 ]
    muster launch cpu.yaml --gpus 4 --dry-run | grep -q -- '--signal=USR1@120'
    # what cannot go on is not begun anew by Slurm
    muster launch sim.yaml --gpus 16 --detach --dry-run >dry
    grep -q -- ' --no-requeue ' dry
}

@test "C15, C17: words and environment reach the job byte for byte" {
    here
    export MUSTER_HOME="$T/a 'home' %j \"é\"" NCCL_IB_HCA=mlx5_0,mlx5_1 X='a b;c"d' Y=é Z=
    mkdir 'my folder' && cp sim.yaml 'my folder/'
    submit 'my folder/sim.yaml' --gpus 2 --set parallelism.data_parallel_shard_degree=2 \
        -- sh -c 'cat /proc/$$/environ >env.$RANK; printf "%s|" "$@" >args.$RANK' x 'a b' '' '*' "c'd\"e" "\$HOME" é
    state_is "$RUN" "done"
    for v in 'Z=' 'NCCL_IB_HCA=mlx5_0,mlx5_1' 'X=a b;c"d' 'Y=é' "PATH=$PATH"; do
        grep -azqxF -- "$v" env.1 || { echo "no $v"; false; }
    done
    [ "$(cat args.0)" = "a b||*|c'd\"e|\$HOME|é|" ]
}

@test "batch: pending with Slurm's reason; cancelled before it started" {
    here
    sbatch -Q -N2 --gres=gpu:8 --wrap 'sleep 100' -o /dev/null
    until_true 'squeue -h -t running | grep -q .'
    submit cpu.yaml --gpus 4 --no-check
    until_true 'muster runs | grep -q "pending, \(Resources\|Priority\)"'
    run muster logs "$RUN"
    status 3
    has 'it is pending'
    scancel "$JOB"
    state_is "$RUN" cancelled
    run muster report "$RUN"
    has "Slurm's job $JOB was cancelled before it started"
    submit cpu.yaml --gpus 4 --no-check
    run timeout 30 muster stop "$RUN"
    status 0
    has "$RUN: cancelled"
    [ -z "$(squeue -h -j "$JOB" -t pending,running)" ]
    # what it said before it knew its run
    submit cpu.yaml --gpus 4 --no-check
    rm "$DIR/batch.json"
    squeue -h -t running -o %A | xargs scancel
    state_is "$RUN" failed
    run muster report "$RUN"
    has 'its last words: muster: is MUSTER_HOME on a file system that the nodes have too?'
}

@test "batch: muster stop lets the ranks save" {
    here
    submit cpu.yaml --gpus 4 --no-check --set training.steps=100000
    steps_reach "$RUN" 20
    run timeout 60 muster stop "$RUN"
    status 0
    has "$RUN: stopped"
    [ "$(find "$DIR/ck" -name complete | wc -l)" -eq 1 ]
    until_true '! squeue -h | grep -q .'
}

@test "C14, F15: told before the time limit, saved, requeued, bounded: the losses are those of one run" {
    here
    in_one_go
    submit cpu.yaml --gpus 4 --no-check --set cluster.slurm.requeue=1
    steps_reach "$RUN" 80
    scancel --batch --signal=USR1 "$JOB"
    until_true "muster runs | grep -q 'pending, requeued'"
    [ "$(find "$DIR/ck" -name complete | wc -l)" -eq 1 ]
    [ ! -e "$DIR/result.json" ]
    released "$JOB"
    before=$(steps_of "$RUN")
    steps_reach "$RUN" $((before + 80))
    grep -q 'requeue 1: going on from step' "$DIR/launch.log"
    scancel --batch --signal=USR1 "$JOB"
    state_is "$RUN" timeout
    muster runs --json | grep -q 'cluster.slurm.requeue allows no more'
    first=$DIR
    # the last line is the command that goes on
    tail -1 "$DIR/launch.log" | tee again
    grep -q '^muster launch --detach .* cpu.yaml .* --resume .*/ck/step-' again
    until_true '! squeue -h | grep -q .'
    sh ./again >submitted
    RUN=$(sed -n 's/.*"run": "\(.*\)".*/\1/p' submitted)
    DIR=$MUSTER_HOME/runs/$RUN
    state_is "$RUN" "done"
    same_losses "$first/events.jsonl" "$DIR/events.jsonl"
}

@test "C14: in the foreground the agents hear it: status 5 and the command that goes on" {
    here
    in_one_go
    muster launch cpu.yaml --gpus 4 --no-check --quiet >out 2>err &
    pid=$!
    until_true '[ $(cat "$MUSTER_HOME"/runs/*/events.jsonl | grep -c "\"step\"") -ge 80 ]'
    scancel --signal=USR1 "$(squeue -h -o %A)"
    rc=0
    wait $pid || rc=$?
    [ $rc -eq 5 ]
    [ "$(wc -l <out)" -eq 1 ]
    grep -q '^muster launch cpu.yaml --gpus 4 .*--resume .*/ck/step-' out
    grep -q 'is nearly up (signal 10' err
    grep -q '"cause": "limit"' "$MUSTER_HOME"/runs/*/result.json
    run timeout 100 salloc -Q -N2 --gres=gpu:8 sh ./out
    status 0
    same_losses "$MUSTER_HOME"/runs/*/events.jsonl
}

@test "batch: without a signal of Slurm's the time that is left is asked for" {
    here
    mkdir bin
    cat >bin/squeue <<'S'
#!/bin/sh
case "$*" in
*PreemptTime*) ;;
*) exec /usr/bin/squeue "$@" ;;
esac
# a job of 16 s, which gets 4 more when 11 are over
[ -e begun ] || date +%s >begun
over=$(($(date +%s) - $(cat begun)))
[ $over -gt 10 ] && end=20 || end=16
echo "RUNNING|None|0|N/A|0:$((end > over ? end - over : 0))|"
S
    chmod 755 bin/squeue
    [ -x /usr/bin/squeue ] || skip 'squeue is elsewhere'
    PATH="$PWD/bin:$PATH" run timeout 60 salloc -Q -N2 --gres=gpu:8 muster launch cpu.yaml --gpus 4 --no-check --quiet --set training.steps=1000000
    status 5
    has "s left)"
    last=${lines[-1]}
    case $last in 'muster launch cpu.yaml --gpus 4 '*' --resume '*/ck/step-*) ;; *) echo "$last"; false ;; esac
    over=$(($(date +%s) - $(cat begun)))
    [ $over -ge 12 ]
}

@test "C14: a command gets the signal itself" {
    here
    salloc -Q -N2 --gres=gpu:8 muster launch --gpus 4 -- sh -c 'trap "echo saved; left=3" USR1; left=300; echo up; while [ $((left -= 1)) -gt 0 ]; do sleep 0.2; done' >out 2>&1 &
    pid=$!
    until_true '[ $(grep -c up out) -eq 4 ]'
    scancel --signal=USR1 "$(squeue -h -o %A)"
    wait $pid
    [ "$(grep -c 'saved' out)" -eq 4 ]
}

@test "batch: Slurm's own signal before a real time limit" {
    here
    submit cpu.yaml --gpus 4 --no-check --set training.steps=1000000 --set cluster.slurm.args='[--time=1]' --set cluster.slurm.signal=USR1@20
    steps_reach "$RUN" 20
    until_true "muster runs | grep -q 'pending, requeued'"
    grep -q 'when Slurm has nodes again (1 of 10): .*is nearly up (signal 10' "$DIR/launch.log"
    run timeout 30 muster stop "$RUN"
    status 0
}

@test "batch: a preempted job saves and waits for its turn" {
    here
    # no checkpoint but the one that preemption asks for
    submit cpu.yaml --gpus 4 --no-check --set training.steps=1000000 --set checkpoint.interval=1000000
    steps_reach "$RUN" 20
    sbatch -Q -N2 --gres=gpu:8 -p urgent --wrap 'sleep 60' -o /dev/null
    until_true "muster runs | grep -q 'pending, requeued'"
    grep -q 'has to make room for another' "$DIR/launch.log"
    [ "$(find "$DIR/ck" -name complete | wc -l)" -eq 1 ]
    run timeout 30 muster stop "$RUN"
    has cancelled
}

@test "batch: a node fails: told when the job may not go on, gone on from a checkpoint when it may" {
    here
    submit sim.yaml --gpus 16 --set training.steps=100000
    steps_reach "$RUN" 1
    scontrol update nodename=n2 state=down reason=test
    until_true "muster runs | grep -q 'node_fail\|failed'"
    scontrol update nodename=n2 state=resume || true # it comes back by itself
    run muster report "$RUN"
    has 'node'
    lacks 'lost:'
    here
    submit cpu.yaml --gpus 4 --no-check --set training.steps=1000000 --set checkpoint.interval=10
    steps_reach "$RUN" 100
    scontrol update nodename=n2 state=down reason=test
    until_true "muster runs | grep -q 'pending, requeued'"
    grep -q "Slurm requeued job $JOB" "$DIR/launch.log"
    scontrol update nodename=n2 state=resume || true # it comes back by itself
    released "$JOB"
    until_true "grep -q 'requeue 1: going on from step' '$DIR/launch.log'"
    state_is "$RUN" running
    run timeout 60 muster stop "$RUN"
    has stopped
}

@test "B14: arrays and jobs of several components are used right or refused" {
    here
    for args in '[--array=1-2]' '["-a", "1-2"]' '["--exclusive", ":", "--nodes=1"]' '[--signal=USR1@9]' '[--no-requeue]' '["--wrap=x"]'; do
        run muster launch sim.yaml --gpus 16 --detach --set "cluster.slurm.args=$args"
        status 2
        has 'cluster.slurm.args'
    done
    SBATCH_ARRAY_INX=1-2 run muster launch sim.yaml --gpus 16 --detach
    status 2
    has SBATCH_ARRAY_INX
    [ -z "$(squeue -h)" ]
    # a task of an array is a job like any other
    sbatch -Q -N1 --gres=gpu:8 --array=0-1 -o 'task.%a' --wrap 'MUSTER_SIM=time=0.01 muster launch sim.yaml --gpus 8'
    until_true 'grep -q "is done, 8 ranks" task.0 && grep -q "is done, 8 ranks" task.1'
}
