# What sites need under Slurm: variables, a command before the ranks, containers, several
# runs side by side.  A real Slurm, 2 nodes of 8 GPUs, as an ordinary user.  Pyxis and
# Apptainer are not here: programs in their place show what they would be given.
load lib

setup_file() { slurm_lab 2; }
teardown_file() { slurm_lab_end; }

teardown()
{
    [ -n "$SKIP" ] || squeue -h -o %i | xargs -r scancel 2>/dev/null || true
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
cluster: {device: sim}
Y
    export MUSTER_SIM=time=0.01
}

alloc() { run timeout 100 salloc -Q -N2 --gres=gpu:8 "$@"; }

# in_place NAME: a program of that name, before all others in PATH
in_place()
{
    mkdir -p place
    cat >"place/$1"
    chmod 755 "place/$1"
    PATH="$T/place:$PATH"
}

@test "C15: cluster.slurm.env reaches every rank, byte for byte" {
    here
    cat >>sim.yaml <<'Y'
cluster.slurm.env:
  NCCL_IB_HCA: "mlx5_0,mlx5_1"
  X: a b;c"d' $HOME `id` \
  Y: é
  EMPTY: ""
  LINES: "one\ntwo\n"
  LISTED: 'A=1,B=2'
Y
    # the program of a rank: what it got, then the trainer
    in_place muster-see <<S
#!/bin/sh
cat /proc/\$\$/environ >"$T/env.\$RANK"
exec "$O/bin/muster-train" "\$@"
S
    mkdir -p bin lib && cp "$O/bin/muster" bin/ && cp place/muster-see bin/muster-train
    MUSTER_SIM=time=0.01 alloc "$T/bin/muster" launch sim.yaml --gpus 16 --quiet
    status 0
    for r in 0 9 15; do
        for v in 'NCCL_IB_HCA=mlx5_0,mlx5_1' "X=a b;c\"d' \$HOME \`id\` \\" Y=é EMPTY= LISTED=A=1,B=2; do
            grep -azqxF -- "$v" "env.$r" || { echo "rank $r: no $v"; false; }
        done
        tr '\0' '\1' <"env.$r" | tr '\n' '\2' | grep -qF "$(printf '\1LINES=one\2two\2\1')"
    done
    # and the dry run shows a line that does the same
    alloc "$T/bin/muster" launch sim.yaml --gpus 16 --dry-run
    status 0
    sed -n '/^# rank 15 on n2/,$p' <<<"$output" | sed 1d | sed 's/ [^ ]*muster-train.*/ env -0/' >line
    sh line | tr '\0' '\1' | tr '\n' '\2' >shown
    grep -qF "$(printf '\1LINES=one\2two\2\1')" shown
    grep -qF "$(printf '\1X=a b;c"d'\'' $HOME `id` \\\1')" shown
}

@test "slurm: cluster.slurm.setup runs once on each node, before the ranks, without a shell" {
    here
    in_place prepare <<S
#!/bin/sh
printf '%s|' "\$#" "\$@" "\$(hostname)" >>"$T/did.\$(hostname)"
echo >>"$T/did.\$(hostname)"
S
    alloc muster launch sim.yaml --gpus 16 --quiet --set 'cluster.slurm.setup=[prepare, "a b", "$HOME", "*", ""]'
    status 0
    for n in n1 n2; do
        [ "$(cat "did.$n")" = "4|a b|\$HOME|*||$n|" ]
    done
    alloc muster launch sim.yaml --gpus 16 --dry-run --set 'cluster.slurm.setup=[prepare, "a b"]'
    has '# first, once on each node'
    has "agent setup prepare 'a b'"
}

@test "slurm: a setup that fails names the node, its status and its words; nothing is started" {
    here
    in_place prepare <<S
#!/bin/sh
[ "\$(hostname)" != n2 ] || { echo "disk is full" >&2; exit 7; }
S
    alloc muster launch sim.yaml --gpus 16 --set 'cluster.slurm.setup=[prepare]'
    status 1
    has 'cluster.slurm.setup: prepare failed on n2: status 7: disk is full'
    [ -z "$(ls "$MUSTER_HOME/runs" 2>/dev/null)" ]
    alloc muster launch sim.yaml --gpus 16 --json --set 'cluster.slurm.setup=[/no/such/program]'
    status 1
    has '/no/such/program failed on n1, n2: status 127: /no/such/program: No such file'
    has '"cause": "refused"'
    in_place prepare <<S
#!/bin/sh
[ "\$(hostname)" != n1 ] || sleep 60
S
    alloc muster launch sim.yaml --gpus 16 --start-timeout 4s --set 'cluster.slurm.setup=[prepare]'
    status 5
    has 'prepare is not done in time on n1'
}

@test "slurm: what a setup leaves running does not hold the launch" {
    here
    in_place prepare <<'S'
#!/bin/sh
sleep 20 &
S
    start=$SECONDS
    alloc muster launch sim.yaml --gpus 16 --quiet --set 'cluster.slurm.setup=[prepare]'
    status 0
    [ $((SECONDS - start)) -lt 18 ]
}

@test "slurm: Pyxis gets the image and the mounts, with those that muster needs" {
    here
    in_place srun <<S
#!/bin/sh
# in the place of Pyxis: its options are noted and taken out
n=\$#
while [ \$n -gt 0 ]; do
    case \$1 in --container-*) printf '%s\n' "\$1" >>"$T/pyxis" ;; *) set -- "\$@" "\$1" ;; esac
    shift
    n=\$((n - 1))
done
PATH=\${PATH#"$T/place:"} exec srun "\$@"
S
    set -- --set cluster.slurm.container_image=docker://nvcr.io#nvidia/pytorch:24.07-py3 \
        --set 'cluster.slurm.container_mounts=["/data:/data:ro"]'
    alloc muster launch sim.yaml --gpus 16 --quiet "$@"
    status 0
    grep -qxF -- '--container-image=docker://nvcr.io#nvidia/pytorch:24.07-py3' pyxis
    for m in "$O/bin:$O/bin" "$T:$T" "$MUSTER_HOME:$MUSTER_HOME" /data:/data:ro; do
        grep -- '--container-mounts=' pyxis | tr '=,' '\n\n' | grep -qxF -- "$m"
    done
    alloc muster launch sim.yaml --gpus 16 --dry-run "$@"
    has "$(grep -- --container-mounts= pyxis)"
    # not asked for: no option
    rm pyxis
    alloc muster launch sim.yaml --gpus 16 --quiet
    status 0
    [ ! -e pyxis ]
    alloc muster launch sim.yaml --gpus 16 --set 'cluster.slurm.container_mounts=["/a:/a"]'
    status 2
    has 'mounts without a cluster.slurm.container_image'
}

@test "slurm: Apptainer starts the ranks, with PMIx, and its absence is said" {
    here
    set -- --set cluster.slurm.container_image=/images/train.sif --set cluster.slurm.container_runtime=apptainer \
        --set 'cluster.slurm.container_mounts=["/data:/data"]'
    alloc muster launch sim.yaml --gpus 16 "$@"
    status 3
    has 'cluster.slurm.container_runtime: no program'
    in_place apptainer <<S
#!/bin/sh
printf '%s\n' "\$@" >"$T/apptainer.\$RANK"
while [ "\$1" != /images/train.sif ]; do shift; done
shift
exec "\$@"
S
    alloc muster launch sim.yaml --gpus 16 "$@"
    status 0
    has '16 ranks by pmix'
    grep -qxF exec apptainer.15
    grep -qxF /data:/data apptainer.15
    grep -qxF "$O/bin:$O/bin" apptainer.15
    [ "$(grep -A1 -xF /images/train.sif apptainer.15 | tail -1)" = "$O/bin/muster-train" ]
    # --nv is for GPUs
    if grep -qxF -- --nv apptainer.15; then false; fi
    alloc muster launch sim.yaml --gpus 16 --dry-run "$@"
    has 'apptainer exec --bind '
    has "/images/train.sif $O/bin/muster-train --recipe RUN_DIR/recipe.yaml"
}

@test "slurm: a command behind a recipe gets its variables, its setup and its image" {
    here
    cat >>sim.yaml <<'Y'
cluster.slurm.env: {WHO: "a,b"}
cluster.slurm.setup: [touch, prepared]
cluster.slurm.container_image: /images/train.sif
Y
    in_place apptainer <<'S'
#!/bin/sh
while [ "$1" != /images/train.sif ]; do shift; done
# what only the image has
only_inside() { echo "inside $WHO $RANK $1"; }
shift
"$@"
S
    alloc muster launch sim.yaml --gpus 16 --set cluster.slurm.container_runtime=apptainer -- only_inside 'x y'
    status 0
    has 'n2:15: inside a,b 15 x y'
    [ -e prepared ]
    alloc muster launch sim.yaml --gpus 16 --dry-run -- only-inside 'x y'
    has "--container-image=/images/train.sif"
    has "env only-inside 'x y'"
}

@test "slurm: cluster.slurm.exclude leaves nodes of the allocation out, so that runs keep apart" {
    here
    cat >two <<S
#!/bin/sh
muster launch sim.yaml --gpus 8 --quiet --set cluster.slurm.exclude=n1 -- sh -c 'echo one \$(hostname)' &
muster launch sim.yaml --gpus 8 --quiet --set 'cluster.slurm.exclude=n[2,9]' -- sh -c 'echo two \$(hostname)' &
wait
muster launch sim.yaml --gpus 16 --set cluster.slurm.exclude=n1
S
    chmod 755 two
    alloc ./two
    status 2
    has 'node n1 of job'
    has 'is left out: it is excluded (cluster.slurm.exclude)'
    [ "$(cat "$MUSTER_HOME"/runs/*/ranks/n2.*.log | sort | uniq -c | xargs)" = '8 one n2' ]
    [ "$(cat "$MUSTER_HOME"/runs/*/ranks/n1.*.log | sort | uniq -c | xargs)" = '8 two n1' ]
}

@test "slurm: runs of one user side by side, in one allocation and beside it" {
    here
    mkdir -m 777 tmp
    export TMPDIR="$T/tmp"
    cat >three <<S
#!/bin/sh
export MUSTER_SIM=time=0.3
for i in 1 2 3; do
    muster launch sim.yaml --gpus 8 --quiet --json >"$T/run.\$i" 2>"$T/err.\$i" &
done
wait
S
    chmod 755 three
    salloc -Q -N1 --gres=gpu:8 ./three >out 2>&1 &
    one=$!
    salloc -Q -N1 --gres=gpu:8 muster launch sim.yaml --gpus 8 --quiet --json >run.4 2>err.4 &
    two=$!
    wait $one
    wait $two
    for i in 1 2 3 4; do
        [ "$(jq -r .cause "run.$i")" = ok ] || { cat "run.$i" "err.$i"; false; }
    done
    [ "$(cat run.? | jq -r .run | sort -u | wc -l)" -eq 4 ]
    # folders of their own, and none is left
    [ -z "$(ls tmp)" ]
}

@test "slurm: check and climb ask for nodes too, and give them back" {
    here
    run timeout 100 muster check sim.yaml --gpus 16 --level quick --set cluster.backend=slurm --set cluster.device=cpu
    has ' has n[1-2] after '
    has 'all_gather.result'
    [ -z "$(squeue -h -t PD,R)" ]
    cat >>sim.yaml <<'Y'
scale:
  rungs: [8, 16]
  trial_steps: 2
  trial_warmup: 1
  batch: per_gpu
  sweep: {activation_checkpoint.mode: [full]}
Y
    run timeout 100 muster climb sim.yaml --set cluster.backend=slurm --json
    has ' has n[1-2] after '
    has '"gpus": 16'
    [ -z "$(squeue -h -t PD,R)" ]
}
