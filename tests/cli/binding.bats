# Where ranks run and what they may use, on every backend: read back and held against
# the plan (cases C07, C08, C16).
load lib

setup_file() { slurm_lab 2; }
teardown_file() { slurm_lab_end; }

# The CPUs that this shell may use: FIRST and SECOND, in their order.
two_cpus()
{
    # shellcheck disable=SC2046 # one word a CPU
    set -- $(awk '/^Cpus_allowed_list/ { n = split($2, part, ",");
        for (i = 1; i <= n; i++) { split(part[i], at, "-"); if (at[2] == "") at[2] = at[1];
            for (c = at[1]; c <= at[2]; c++) print c } }' /proc/self/status)
    [ $# -ge 2 ] || skip 'needs two CPUs'
    [ $# -eq 2 ] || exec_on "$1,$2"
    FIRST=$1 SECOND=$2
}
# All that follows in this test runs on two CPUs.
exec_on() { taskset -p -c "$1" $BASHPID >/dev/null; }

slurm()
{
    ordinary_user "$LAB/bin"
    run timeout 100 salloc -Q -N2 --gres=gpu:8 "$@"
}
agents() { MUSTER_TEST_LOCAL_AGENTS=2 run timeout 100 "$@"; }
local_() { run timeout 100 "$@"; }
show='grep Cpus_allowed_list: /proc/self/status'

# on BACKEND: the last run had ranks 0 and 1 on the first node, one CPU each, as recorded
bound_apart()
{
    status 0
    has "rank 0 on $1: CPUs $FIRST (bound by muster)"
    has "rank 1 on $1: CPUs $SECOND (bound by muster)"
    has "$1:0: Cpus_allowed_list:	$FIRST"
    has "$1:1: Cpus_allowed_list:	$SECOND"
    grep -q '"bound": *2' "$MUSTER_HOME"/runs/*/result.json
    [ "$(grep -c '"event": *"task"' "$MUSTER_HOME"/runs/*/events.jsonl)" -eq 2 ]
    muster report >report
    grep -qF 'binding  2 on the CPUs where they were placed' report
}

@test "binding: ranks on this machine share its CPUs, and it is read back" {
    two_cpus
    local_ muster launch -v --gpus 2 -- sh -c "$show"
    bound_apart "$(hostname)"
}

@test "binding: the same behind agents" {
    [ "$(id -u)" -eq 0 ] || skip 'needs root'
    two_cpus
    agents muster launch -v --gpus 4 -- sh -c "$show"
    status 0
    has "rank 0 on n1: CPUs $FIRST (bound by muster)"
    has "rank 3 on n2: CPUs $SECOND (bound by muster)"
    has "n2:3: Cpus_allowed_list:	$SECOND"
    grep -q '"bound": *4' "$MUSTER_HOME"/runs/*/result.json
}

@test "binding: the same in a step of Slurm, by the agent beside the rank" {
    [ -z "$SKIP" ] || skip "$SKIP"
    [ "$(awk '/^Cpus_allowed_list/ { print $2 }' /proc/1/status)" = 0-1 ] || skip 'nodes of two CPUs'
    FIRST=0 SECOND=1
    slurm muster launch -v --gpus 2 -- sh -c "$show; echo threads \$OPENBLAS_NUM_THREADS"
    bound_apart n1
    has 'n1:1: threads 1'
}

@test "binding: a job with fewer CPUs than ranks is told what to ask for" {
    [ -z "$SKIP" ] || skip "$SKIP"
    [ "$(awk '/^Cpus_allowed_list/ { print $2 }' /proc/1/status)" = 0-1 ] || skip 'nodes of two CPUs'
    slurm muster launch --gpus 4 -- true
    status 0
    has 'n1: 4 ranks share 2 CPUs (0-1): ask for more with the nodes (--cpus-per-task'
    slurm muster launch --gpus 2 -- true
    lacks 'share'
}

@test "binding: what Slurm binds stays, and that is said; so does --no-bind" {
    [ -z "$SKIP" ] || skip "$SKIP"
    cat >sim.yaml <<'Y'
name: sim
model: {preset: tiny}
training: {steps: 2, log_interval: 1}
parallelism: {data_parallel_shard_degree: 2}
data: {path: none/*.bin}
cluster: {device: sim, slurm: {args: [--cpu-bind=cores]}}
Y
    MUSTER_SIM=time=0.01 slurm muster launch sim.yaml --gpus 2
    status 0
    has 'Slurm binds the ranks (srun was given --cpu-bind=cores), muster leaves that'
    grep -q '"by_slurm": *2' "$MUSTER_HOME"/runs/*/result.json
    slurm muster launch --no-bind -v --gpus 2 -- true
    status 0
    has 'rank 0 on n1: CPUs '
    has '(bound by nobody)'
    local_ muster launch --no-bind -v --gpus 2 -- true
    has '(bound by nobody)'
}

@test "binding: a cpuset that is smaller is what there is" {
    two_cpus
    local_ taskset -c "$SECOND" muster launch -v --gpus 1 -- sh -c "$show"
    status 0
    has "rank 0 on $(hostname): CPUs $SECOND (bound by muster)"
    has ":0: Cpus_allowed_list:	$SECOND"
}

# What a task on another machine could say of itself.
task() { local_ muster launch --gpus "$1" -- sh -c "[ \$RANK != 1 ] || echo '{\"event\":\"task\",$2}' >&\$MUSTER_EVENT_FD"; }

@test "C07: limits that are too small are named with their cure" {
    task 2 '"rdma":true,"limits":{"memlock":65536,"nofile":79,"stack":65536,"core":0}'
    status 0
    has 'a rank may lock 65536 bytes of memory (read inside rank 1), RDMA wants no limit: ulimit -l unlimited'
    has 'a rank may open 79 files (read inside rank 1), 2 ranks want 80: raise ulimit -n'
    has 'the stack of a rank ends at 65536 bytes'
    task 2 '"rdma":false,"limits":{"memlock":65536,"nofile":80,"stack":8388608,"core":0}'
    status 0
    lacks 'a rank may'
    lacks 'the stack'
}

@test "C07: limits are those of the rank, not of the shell" {
    run timeout 100 sh -c 'ulimit -Sn 70; ulimit -Ss 512; exec muster launch --gpus 2 -- true'
    status 0
    has 'a rank may open 70 files (read inside rank 0), 2 ranks want 80'
    has 'the stack of a rank ends at 524288 bytes'
    grep -q '"nofile": *70' "$MUSTER_HOME"/runs/*/events.jsonl
}

@test "C08: /dev/shm that is too small is named" {
    task 2 '"shm_bytes":67108864,"shm_free_bytes":1048576,"limits":{}'
    status 0
    has '/dev/shm has 1.0 MiB free of 64.0 MiB, 2 ranks want 8.0 MiB'
}

@test "binding: a rank that is held on other CPUs than its own is told" {
    task 2 '"cpus":"0","want_cpus":"0-3","bound_by":"muster","limits":{}'
    status 0
    has 'rank 1 on '
    has 'runs on CPUs 0, not on 0-3 where it is placed'
    grep -q '"elsewhere": *1' "$MUSTER_HOME"/runs/*/result.json
}

@test "C16: GPUs that Slurm hides from a rank end the run before any work" {
    [ -z "$SKIP" ] || skip "$SKIP"
    slurm env CUDA_VISIBLE_DEVICES= muster launch --gpus 2 -- touch started
    status 3
    has 'no GPU visible on n1: CUDA_VISIBLE_DEVICES is set but empty'
    [ ! -e started ]
}
