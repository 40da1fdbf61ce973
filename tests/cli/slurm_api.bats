# How muster asks Slurm: libslurm in a helper process, or Slurm's commands; and nodes from
# outside an allocation.  A real Slurm, 2 nodes of 8 GPUs, as an ordinary user.
load lib

setup_file() { slurm_lab 2; }
teardown_file() { slurm_lab_end; }

teardown()
{
    [ -n "$SKIP" ] || squeue -h -o %i | xargs -r scancel 2>/dev/null || true
    [ -n "$SKIP" ] || scontrol update NodeName=n2 State=RESUME >/dev/null 2>&1 || true
    cd / && rm -rf "$T"
}

here()
{
    [ -z "$SKIP" ] || skip "$SKIP"
    unset SLURM_JOB_ID
    ordinary_user "$LAB/bin"
    cat >sim.yaml <<'Y'
name: sim
model: {preset: qwen3-30b-a3b}
training: {seq_len: 4096, local_batch_size: 2, steps: 2, log_interval: 1}
parallelism: {data_parallel_shard_degree: 8, data_parallel_replicate_degree: -1}
activation_checkpoint: {mode: full}
data: {path: none/*.bin}
cluster: {device: sim, backend: slurm}
Y
    export MUSTER_SIM=time=0.01
}

# A build without libslurm's header has only the commands.
library()
{
    muster doctor --json >d.json
    jq -e '.items[] | select(.name == "libslurm") | .found' d.json >/dev/null
}

launch() { run timeout 60 muster launch sim.yaml --gpus "${GPUS:-16}" --quiet "$@"; }

# until SECONDS COMMAND...
until_true()
{
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || { echo "not in time: $*"; cat out 2>/dev/null; squeue; return 1; }
        sleep 0.2
    done
}

# Completing nodes of the job before count as free here.
no_jobs() { [ -z "$(squeue -h -t PD,R,CF,S)" ]; }

# hold_all: another job has all the nodes; its number in $other
hold_all()
{
    until_true 30 no_jobs
    sbatch -Q -N2 --gres=gpu:8 --wrap 'sleep 300' -o /dev/null >/dev/null
    until_true 30 running
    other=$(squeue -h -t R -o %i)
}
running() { [ -n "$(squeue -h -t R -o %i)" ]; }
all_idle() { [ "$(sinfo -h -N -o %T | sort -u)" = idle ]; }
grepped() { grep -q -- "$@"; }

@test "slurm: libslurm's answers are scontrol's, byte for byte" {
    here
    library || skip 'built without libslurm'
    other=$(sbatch --parsable -N2 --gres=gpu:8 --wrap 'sleep 300' -o /dev/null)
    until_true 30 running
    scontrol update NodeName=n2 Reason='a "quoted" reason = x' State=DRAIN
    for ask in "job $other=job -d $other" 'nodes=node -d' 'nodes n2,n1=node -d n2,n1' \
        'topology=topology' 'partitions=partition' 'partitions batch=partition batch'; do
        muster agent slurm ${ask%%=*} >ours
        scontrol show ${ask#*=} >theirs
        # a second may pass between the two
        sed -i 's/RunTime=[^ ]*//; s/CPULoad=[^ ]*//; s/FreeMem=[^ ]*//' ours theirs
        [ -s ours ]
        diff ours theirs
    done
    grep -q 'IDX:0-7' <(muster agent slurm job "$other")
    # what a launch asks for at once is the same, each answer behind its length
    muster agent slurm place "$other" n2,n1 >at_once
    for ask in "job $other" 'nodes n2,n1' topology; do
        muster agent slurm $ask >one
        wc -c <one
        cat one
    done | sed 's/RunTime=[^ ]*//; s/CPULoad=[^ ]*//; s/FreeMem=[^ ]*//' >one_by_one
    sed -i 's/RunTime=[^ ]*//; s/CPULoad=[^ ]*//; s/FreeMem=[^ ]*//' at_once
    diff at_once one_by_one
    for ask in 'job 999999' 'nodes n7' 'partitions none'; do
        run muster agent slurm $ask
        [ "$status" -ne 0 ]
    done
    scontrol update NodeName=n2 State=RESUME
    muster agent slurm cancel "$other" 0
    until_true 30 no_jobs
    run muster agent slurm cancel 999999 0
    status 1
}

@test "slurm: where libslurm is absent or another, the commands do the same, and doctor says why" {
    here
    cat >other.c <<'C'
long slurm_api_version(void) { return 99 << 16; }
C
    for f in init strerror load_job load_node load_topo load_partitions populate_node_partitions \
        print_job_info print_node_table print_topo_info_msg print_partition_info kill_job complete_job \
        init_job_desc_msg allocation_msg_thr_create allocate_resources_blocking; do
        echo "int slurm_$f(void) { return 0; }" >>other.c
    done
    gcc -shared -fPIC -o "$T/libslurm.so.99" other.c
    run muster doctor
    has libslurm
    for way in off "$T/libslurm.so.99" "$T/none.so"; do
        export MUSTER_LIBSLURM=$way
        run muster doctor
        has 'not used, scontrol, salloc and scancel ask Slurm: '
        launch
        status 0
        has 'is done, 16 ranks'
        run muster launch sim.yaml --gpus 16 --dry-run
        has 'salloc --nodes=2 --ntasks-per-node=8 --gres=gpu:8'
    done
    if library; then
        MUSTER_LIBSLURM="$T/libslurm.so.99" run muster doctor
        has 'is libslurm 99, and this muster was built for'
    fi
    unset MUSTER_LIBSLURM
    if library; then
        run muster doctor
        has 'in a process of its own, asks Slurm'
        run muster launch sim.yaml --gpus 16 --dry-run
        has 'muster agent slurm allocate --nodes=2 --ntasks-per-node=8 --gres=gpu:8'
    fi
    until_true 30 no_jobs
}

@test "slurm: both ways ask for the same job" {
    here
    library || skip 'built without libslurm'
    for way in '' off; do
        MUSTER_LIBSLURM=$way timeout 60 muster launch sim.yaml --gpus 16 --quiet \
            --set cluster.slurm.partition=batch --set cluster.slurm.time=30:00 &
        until_true 30 running
        scontrol show job -d "$(squeue -h -t R -o %i)" |
            sed 's/JobId=[0-9]*//; s/[A-Za-z]*Time=[^ ]*T[^ ]*//g; s/Sid=[^ ]*//; s/RunTime=[^ ]*//
                 s/Priority=[0-9]*//; s/LastSchedEval=[^ ]*//' >"job.${way:-library}"
        wait $!
        until_true 30 no_jobs
    done
    diff job.library job.off
    grep -q 'TimeLimit=00:30:00' job.off
    grep -q 'UserId=nobody' job.off
}

@test "slurm: a helper that does not answer is ended at its deadline" {
    here
    # a library that hangs stands for a controller that does
    echo 'void slurm_init(void *c) { (void)c; for (;;) ; }' >slow.c
    for f in api_version strerror load_job load_node load_topo load_partitions populate_node_partitions \
        print_job_info print_node_table print_topo_info_msg print_partition_info kill_job complete_job \
        init_job_desc_msg allocation_msg_thr_create allocate_resources_blocking; do
        echo "long slurm_$f(void) { return ${MAJOR:-38}L << 16; }" >>slow.c
    done
    gcc -shared -fPIC -o "$T/slow.so" slow.c
    library || skip 'built without libslurm'
    MUSTER_LIBSLURM="$T/slow.so" MUSTER_SLURM_TIMEOUT=2s run timeout 50 muster launch sim.yaml --gpus 16
    status 5
    has 'does not answer within 2 s'
    if pgrep -f 'agent slurm nodes'; then false; fi
}

@test "slurm: every wish of the recipe reaches salloc, as one word each" {
    here
    mkdir bin
    printf '#!/bin/sh\nfor a; do printf "<%%s>\\n" "$a"; done >%s/words\nexit 1\n' "$T" >bin/salloc
    chmod 755 bin/salloc
    touch words && chmod 666 words
    PATH="$T/bin:$PATH" MUSTER_LIBSLURM=off launch --set cluster.slurm.partition=batch \
        --set cluster.slurm.account='my lab' --set cluster.slurm.qos=high --set cluster.slurm.time=1-12:30:00 \
        --set cluster.slurm.constraint='a&b|c' --set 'cluster.slurm.exclude=n[7-8],n9' \
        --set cluster.slurm.reservation=r1 --set cluster.slurm.gres=gpu:b200:8,fpga:1 \
        --set 'cluster.slurm.args=[--mem=0, -L, "matlab:1", --mpi=pmix, --container-image=x, --hint=nomultithread]'
    status 1
    for w in --nodes=2 --ntasks-per-node=8 --gres=gpu:b200:8,fpga:1 --partition=batch '--account=my lab' \
        --qos=high --time=1-12:30:00 '--constraint=a&b|c' '--exclude=n[7-8],n9' --reservation=r1 --mem=0 -L \
        matlab:1 --hint=nomultithread --no-kill; do
        grep -qxF -- "<$w>" words || { echo "no $w"; cat words; false; }
    done
    if grep -E 'mpi|container' words; then false; fi
    # the dry run says the same words
    PATH="$T/bin:$PATH" MUSTER_LIBSLURM=off run muster launch sim.yaml --gpus 16 --dry-run \
        --set cluster.slurm.account='my lab' --set 'cluster.slurm.args=[--mem=0, --mpi=pmix]'
    status 0
    has "'--account=my lab' --mem=0 "
    has ' --mpi=pmix '
}

@test "slurm: what Slurm refuses, and what can never run, is said with the cure" {
    here
    for way in '' off; do
        export MUSTER_LIBSLURM=$way
        launch --set cluster.slurm.partition=none --set cluster.gpus_per_node=8
        status 1
        has 'Slurm refused the job: '
        has 'nvalid partition'
        has 'set cluster.slurm.partition to one of `sinfo`'
        launch --set cluster.slurm.constraint=none
        status 1
        has 'Invalid feature specification'
        launch --set cluster.slurm.gres=gpu:b200:9
        status 1
        has 'or GRES (cluster.slurm.gres) exist in the partition'
        GPUS=64 launch
        status 1
        has 'can never run: Slurm says PartitionNodeLimit: '
        has 'use other --gpus'
        until_true 30 no_jobs
    done
    unset MUSTER_LIBSLURM
    GPUS=600 launch --set cluster.gpus_per_node=2
    status 1
    has 'can never run: Slurm says PartitionConfig: '
    has 'use fewer --gpus'
    SLURM_CONF=/no/such/file launch
    status 3
    has "SLURM_CONF is /no/such/file, where Slurm's configuration is read: No such file or directory"
    scontrol update PartitionName=batch MaxTime=10
    launch --set cluster.slurm.time=2h --json
    scontrol update PartitionName=batch MaxTime=UNLIMITED
    status 1
    has 'PartitionTimeLimit'
    has 'lower cluster.slurm.time'
    has '"cause": "refused"'
    until_true 30 no_jobs
    launch --set cluster.slurm.time=never
    status 2
    launch --set 'cluster.slurm.args=[--array=1-4]'
    status 2
    has -- '--array=1-4 cannot stand there'
}

@test "slurm: the wait is told, and ends when nodes are free" {
    here
    for way in '' off; do
        export MUSTER_LIBSLURM=$way
        hold_all
        timeout 150 muster launch sim.yaml --gpus 16 --quiet >out 2>&1 &
        until_true 90 grepped 'job [0-9]* is PENDING (Resources): for nodes to become free, for [0-9]* s' out
        scancel "$other"
        wait $!
        grepped 'job [0-9]* has n\[1-2\] after [0-9]* s' out
        grepped 'is done, 16 ranks' out
        # sparse: at most a line for each news in so short a time
        [ "$(grep -c 'is PENDING' out)" -le 4 ]
        until_true 30 no_jobs
    done
}

@test "slurm: on a terminal the wait is one line" {
    here
    hold_all
    timeout 150 script -qec 'muster launch sim.yaml --gpus 16 --quiet' tty.out >/dev/null 2>&1 </dev/null &
    waiter=$!
    until_true 90 grepped 'is PENDING (Resources)' tty.out
    sleep 3
    scancel "$other"
    wait $waiter
    [ "$(tr '\r' '\n' <tty.out | grep -c 'is PENDING')" -ge 3 ]
    [ "$(grep -c 'is PENDING' tty.out)" -le 2 ]
    until_true 30 no_jobs
}

@test "slurm: Ctrl-C while waiting gives the job back, and says so" {
    here
    for way in '' off; do
        export MUSTER_LIBSLURM=$way
        hold_all
        rc=0
        timeout 150 muster launch sim.yaml --gpus 16 --json >out.json 2>out &
        waiter=$!
        until_true 90 grepped 'is PENDING' out
        mine=$(squeue -h -t PD -o %i)
        [ -n "$mine" ]
        kill -INT "$(pgrep -P $waiter)" # timeout's child: what a terminal would reach
        wait $waiter || rc=$?
        [ $rc -eq 130 ]
        grepped "while job $mine waited for nodes: released" out
        [ "$(jq -r .cause out.json)" = stopped ]
        [ "$(jq -r .status out.json)" = 130 ]
        until_true 30 eval '[ -z "$(squeue -h -t PD)" ]'
        scancel "$other"
        until_true 30 no_jobs
    done
}

@test "slurm: a launcher that is killed while it waits, or runs, leaves no job" {
    here
    for way in '' off; do
        export MUSTER_LIBSLURM=$way
        hold_all
        muster launch sim.yaml --gpus 16 >out 2>&1 &
        until_true 90 grepped 'is PENDING' out
        kill -KILL $! $(pgrep -P $!) # the guardian and the launcher
        wait $! || true
        until_true 40 eval '[ -z "$(squeue -h -t PD)" ]'
        scancel "$other"
        until_true 30 no_jobs
        MUSTER_SIM=time=1 muster launch sim.yaml --gpus 16 --set training.steps=100 --grace 1s >out 2>&1 &
        until_true 90 grepped 'simulated step 1' out
        kill -KILL $! $(pgrep -P $!) # the guardian and the launcher
        wait $! || true
        until_true 40 no_jobs
    done
}

@test "slurm: scancel of a waiting job is told" {
    here
    hold_all
    rc=0
    timeout 150 muster launch sim.yaml --gpus 16 >out 2>&1 &
    waiter=$!
    until_true 90 grepped 'is PENDING' out
    scancel "$(squeue -h -t PD -o %i)"
    wait $waiter || rc=$?
    [ $rc -eq 1 ]
    grepped 'was cancelled before it started' out
    scancel "$other"
    until_true 30 no_jobs
}

@test "B07: drained nodes that a job waits for are named, with the reason" {
    here
    until_true 30 no_jobs
    scontrol update NodeName=n2 Reason='xid 79' State=DRAIN
    timeout 150 muster launch sim.yaml --gpus 16 --quiet >out 2>&1 &
    waiter=$!
    until_true 60 grepped 'of 2 nodes 1 cannot be used: n2 is drain.*xid 79' out
    scontrol update NodeName=n2 State=RESUME
    wait $waiter
    grepped 'is done, 16 ranks' out
    until_true 30 no_jobs
}

@test "B07: topo --source slurm shows nodes, GPUs, leaves, and what cannot be used" {
    here
    until_true 60 all_idle
    for way in '' off; do
        export MUSTER_LIBSLURM=$way
        scontrol update NodeName=n2 Reason='xid 79' State=DRAIN
        run muster topo --source slurm
        status 0
        has 'topology from slurm: 2 nodes'
        has 'gpus  8 x B200'
        has 'leaf1: n2'
        has 'fail  n2: cannot be used: it is drain'
        has 'xid 79'
        scontrol update NodeName=n2 State=RESUME
        until_true 60 all_idle
        muster topo --source slurm:batch --json >"topo.${way:-library}"
        run muster topo --source slurm:none
        status 1
    done
    jq -e '.nodes | length == 2 and all(.[]; .gpus | length == 8)' topo.off
    diff topo.library topo.off
    muster topo --source slurm --format slurm-conf >made.conf
    muster topo --source slurmconf:made.conf | grep -q 'leaf  2: leaf0 .. leaf1'
}

@test "slurm: what --dry-run prints is what is run, byte for byte" {
    here
    mkdir bin
    # programs in the place of Slurm's note their words
    for p in srun salloc; do
        printf '#!/bin/sh\nprintf "<%%s>\\n" "$@" >"%s"\nexit 1\n' "$T/$p.words" >bin/$p
        chmod 755 bin/$p
        touch $p.words && chmod 666 $p.words
    done
    set -- --set 'cluster.slurm.account=my "lab"' --set 'cluster.slurm.args=["--comment=it''s $HOME", --mpi=pmix]' \
        --set 'cluster.slurm.setup=[]'
    export MUSTER_LIBSLURM=off
    PATH="$T/bin:$PATH" timeout 60 muster launch sim.yaml --gpus 16 --dry-run "$@" >dry
    PATH="$T/bin:$PATH" launch "$@"
    status 1
    cp salloc.words run.words
    # the printed line, read by a shell, gives the same words
    PATH="$T/bin:$PATH" sh -c "$(sed -n 2p dry)" || true
    cmp salloc.words run.words
    grep -qxF '<--account=my "lab">' run.words
    # inside an allocation: the step
    cat >inside <<S
#!/bin/sh
muster launch sim.yaml --gpus 16 --dry-run "\$@" >dry.inside
PATH="$T/bin:\$PATH" muster launch sim.yaml --gpus 16 --quiet "\$@"
exit 0
S
    chmod 755 inside
    unset MUSTER_LIBSLURM
    run timeout 60 salloc -Q -N2 --gres=gpu:8 ./inside "$@"
    cp srun.words run.words
    PATH="$T/bin:$PATH" sh -c "$(grep ' srun --jobid=' dry.inside)" || true
    cmp srun.words run.words
    grep -q '<--jobid=[0-9]*>' run.words
}

@test "slurm: a controller that is away is said within the deadline, in both ways" {
    here
    sed 's/^SlurmctldPort=.*/SlurmctldPort=1/' "$SLURM_CONF" >away.conf
    chmod 644 away.conf
    for way in '' off; do
        start=$SECONDS
        SLURM_CONF="$T/away.conf" MUSTER_LIBSLURM=$way MUSTER_SLURM_TIMEOUT=3s \
            run timeout 50 muster launch sim.yaml --gpus 16
        status 5
        has 'does not answer within 3 s: is Slurm'
        [ $((SECONDS - start)) -lt 20 ]
    done
    # no configuration: told before Slurm is asked
    SLURM_CONF="$T/none.conf" MUSTER_SLURM_TIMEOUT=3s run timeout 50 muster launch sim.yaml --gpus 16
    status 3
    has 'none.conf'
    # one that libslurm ends its process over, and not ours
    echo 'SlurmctldHost=' >bad.conf
    chmod 644 bad.conf
    for way in '' off; do
        SLURM_CONF="$T/bad.conf" MUSTER_LIBSLURM=$way MUSTER_SLURM_TIMEOUT=3s \
            run timeout 50 muster launch sim.yaml --gpus 16
        status 1
        [[ $output == *'configuration file'* || $output == *ClusterName* ]]
    done
}

@test "B14: a real job of two components is refused, whichever of them it is" {
    here
    run timeout 60 salloc -Q -N1 --gres=gpu:8 : -N1 --gres=gpu:8 muster launch sim.yaml --gpus 8 \
        --set cluster.backend=auto
    status 2
    has 'is heterogeneous'
}

@test "slurm: a salloc that never ends after its command is ended, and its job" {
    mkdir bin
    cat >bin/salloc <<S
#!/bin/sh
SLURM_JOB_ID=77 muster agent slurm hold </dev/null >/dev/null
while :; do sleep 0.1; done
S
    printf '#!/bin/sh\necho "$@" >%s/cancelled\n' "$T" >bin/scancel
    chmod 755 bin/*
    PATH="$T/bin:$PATH" MUSTER_LIBSLURM=off run timeout 60 bin/salloc
    status 137
    for _ in $(seq 100); do [ -s cancelled ] && break; sleep 0.1; done
    grep -qw 77 cancelled
}
