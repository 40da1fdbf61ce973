# Faults that people and machines make: one clear line, the right status.
load lib

# shard: a byte shard of 20 kB in $T/text.bin; recipe: a tiny one over it in $T/r.yaml
recipe()
{
    seq 1 4000 >text
    muster data pack -o text.bin text >/dev/null
    cat >r.yaml <<END
name: faults
model: {preset: tiny}
training: {seq_len: 32, global_batch_size: 4, steps: 2}
data: {path: $T/text.bin}
checkpoint: {folder: $T/ck, interval: 1}
END
}

@test "a resume that cannot: the rank that knows why is named, with its status" {
    recipe
    run muster launch r.yaml --gpus 2 --no-check -q --resume nothing
    status 3
    has 'rank 0 on '
    has 'nothing: no complete checkpoint here'
    lacks 'its message says why'
}

@test "a shard of a checkpoint is damaged: its file is in the summary" {
    recipe
    run muster launch r.yaml --gpus 2 --no-check -q
    status 0
    printf x | dd of=ck/step-00000002/shard-00001-of-00002.safetensors \
        bs=1 seek=5000 conv=notrunc 2>/dev/null
    run muster launch r.yaml --gpus 2 --no-check -q --resume ck --set training.steps=4
    status 2
    has 'shard-00001-of-00002.safetensors'
    lacks 'its message says why'
}

@test "the store is read where nothing can be written" {
    [ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null || skip 'mounting needs root'
    muster launch --gpus 1 -- echo hello >/dev/null 2>&1
    run unshare -m sh -c 'mount -t tmpfs -o size=1M tmpfs "$0" && cp -r home/. "$0" &&
        mount -o remount,ro "$0" && export MUSTER_HOME="$0" &&
        muster runs && muster report && muster logs && ! muster stop last' "$(mkdir ro; echo "$T/ro")"
    status 0
    has 'done'
    has ':0: hello'
    has 'is not running: done'
    lacks 'Read-only'
}

@test "a damaged store: what it is, and the cure; runs go on" {
    mkdir home
    seq 1 2000 >home/store.sqlite
    run muster runs
    status 4
    has 'store.sqlite: file is not a database: move it away'
    run muster launch --gpus 1 -- true
    status 0
}

@test "standard output that cannot be written is said, with status 4" {
    for words in --help 'help launch' 'launch --help' topo 'nodes count a[1-3]'; do
        run sh -c "muster $words >/dev/full"
        status 4
        [ "$output" = 'muster: standard output cannot be written: No space left on device' ]
    done
    run sh -c 'muster --help >&-'
    status 4
}

@test "muster help COMMAND is COMMAND --help; an unknown one gets a suggestion" {
    [ "$(muster help launch)" = "$(muster launch --help)" ]
    run muster help lanch
    status 2
    has "did you mean 'launch'"
}

@test "--set: a section, the sweep, an unknown key" {
    recipe
    run muster launch r.yaml --gpus 2 --set training=3
    status 2
    has 'training is a section: name one of its keys (training.KEY)'
    run muster launch r.yaml --gpus 2 --set scale.sweep=3
    status 2
    has 'scale.sweep: the sweep can only be written in the file'
    run muster launch r.yaml --gpus 2 --set training.stps=3
    status 2
    has "did you mean 'training.steps'"
}

@test "recipes that are a folder or nothing" {
    run muster plan . --gpus 2
    status 2
    has '.: is a folder: name a file in it'
    run muster plan '' --gpus 2
    status 2
    has 'the name of the file is empty'
}

@test "no --gpus: the number that is used is said when it does not fit" {
    recipe
    run muster launch r.yaml --no-check --set parallelism.data_parallel_shard_degree=3 \
        --set parallelism.data_parallel_replicate_degree=-1
    status 2
    has 'on 3 ranks (--gpus N says how many): global batch 4 is not a multiple of local batch 1 x 3 ranks'
}

@test "a run's id is never an option or hidden, whatever the name" {
    recipe
    for name in é -x ../../x; do
        run muster launch r.yaml --no-check --gpus 1 -q --set "name=$name" --set training.steps=1
        status 0
        has '1 step;'
    done
    [ "$(ls home/runs | grep -c '^r')" -eq 3 ]
    [ ! -e home/x ] && [ ! -e x ]
}

@test "an empty list of rungs is refused before a climb is begun" {
    recipe
    run muster climb r.yaml --rungs ''
    status 2
    has 'r.yaml: scale.rungs is empty'
    lacks '--resume'
}

@test "doctor does not call a tool well that fails" {
    mkdir bin
    printf '#!/bin/sh\necho scontrol: error: no configuration >&2\nexit 1\n' >bin/scontrol
    chmod +x bin/scontrol
    PATH="$T/bin:$PATH" run muster doctor
    has "$T/bin/scontrol does not work here: scontrol: error: no configuration"
    printf '#!/bin/sh\necho slurm 24.05.1\n' >bin/scontrol
    PATH="$T/bin:$PATH" run muster doctor
    has "slurm 24.05.1 ($T/bin/scontrol)"
}

# json FILE EXPR: a Python expression over the object `o`
json() { python3 -c "import json; o = json.load(open('$1')); print(($2))"; }

@test "launch --json: a refused launch is an object too, without a run" {
    recipe
    muster launch r.yaml --gpus 2 --json --set foo=3 >o 2>err || [ $? -eq 2 ]
    [ "$(json o 'o["schema"], o["run"], o["status"], o["cause"], o["rank_status"]')" = \
        "('muster/launch/1', None, 2, 'refused', [])" ]
    grep -q "unknown key 'foo'" o err
}

@test "what is simulated says so wherever a rate stands" {
    recipe
    cat >>r.yaml <<'END'
cluster: {device: sim}
scale: {rungs: [2, 4], trial_steps: 2, trial_warmup: 1, sweep: {activation_checkpoint.mode: [none, full]}}
END
    muster launch r.yaml --gpus 2 --json -q >o 2>err
    [ "$(json o 'o["simulated"]')" = True ]
    run muster report
    has '2 ranks; simulated'
    has 'shard 2, replicate 1,'
    muster climb r.yaml --json >o 2>err
    grep -q 'tokens/s/GPU (simulated)' err
    [ "$(json o 'o["simulated"], all(r["simulated"] for r in o["rungs"]), all(t["simulated"] for t in o["trials"])')" = \
        '(True, True, True)' ]
    [ "$(json o 'all(k in t for t in o["trials"] for k in ("mfu_reference", "mfu_causal"))')" = True ]
    run muster report
    has 'done; simulated'
    run muster runs
    has 'climb, done, simulated'
    has 'done, simulated'
}

@test "a recipe may come through a pipe" {
    recipe
    run sh -c 'muster launch /dev/stdin --gpus 1 --no-check -q <r.yaml'
    status 0
    run sh -c 'cat r.yaml | muster launch /dev/stdin --gpus 1 --no-check -q'
    status 0
}

@test "a climb says what runs beside it" {
    recipe
    muster launch --detach --gpus 1 -- sleep 30
    run muster climb r.yaml --rungs 1 --set scale.trial_steps=1 --set scale.trial_warmup=0
    has "warning: sleep-"
    has 'is running too: what both share is measured too low'
    muster stop sleep- || true
    run muster climb r.yaml --rungs 1 --set scale.trial_steps=1 --set scale.trial_warmup=0
    status 0
    lacks 'is running too'
}
